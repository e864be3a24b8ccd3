"""SGLang's ``bench_serving``: a JSON object a line for each run.

References
----------
sgl-project/sglang, python/sglang/benchmark/serving.py (before: bench_serving.py), 2026.
"""

from __future__ import annotations

from service.estimation.measurements.imports.names import number_format
from service.estimation.measurements.imports.reading import Content, Part
from service.estimation.measurements.imports.runs import FileFormat, Run, has
from service.estimation.measurements.imports.serving_runs import (
    measure_served,
    tell_lengths,
    tell_load,
)

_KEYS = ("backend", "request_throughput", "total_output_tokens_retokenized", "mean_e2e_latency_ms")
_ENGINES = {
    **dict.fromkeys(("sglang", "sglang-native", "sglang-oai", "sglang-oai-chat"), "sglang"),
    **dict.fromkeys(("vllm", "vllm-chat"), "vllm"),
    "trt": "tensorrt-llm",
}
_SERVER = {
    "/parallelism/tensor": "tp_size",
    "/parallelism/pipeline": "pp_size",
    "/parallelism/data": "dp_size",
    "/parallelism/expert": "ep_size",
}


def _recognise(content: Content) -> bool:
    return has(next(iter(content.objects), None), _KEYS)


def _read(content: Content) -> list[Run]:
    return [_run(part) for part in content.json_lines]


def _run(part: Part) -> Run:
    if not has(part, _KEYS):
        raise part.fault("is not a result of bench_serving, which the others of this file are")
    run = Run("SGLang bench_serving", part.place)
    backend = part.text("backend")
    engine = None if backend is None else _ENGINES.get(backend.value)
    if backend is not None and engine is not None:
        run.tell("/serving/engine", Part(engine, backend.pointer, part.line))
    server = part.part("server_info")
    if server is not None:
        _tell_server(run, server)
    done = part.number("completed")
    if done is None or done.value < 1:
        raise part.fault("no request of this run was completed")
    tell_lengths(run, done, part.number("total_input_tokens"), part.number("total_output_tokens"))
    rate = part.part("request_rate")
    at_rate = rate is not None and not isinstance(rate.value, str)
    tell_load(
        run,
        rate=part.number("request_rate") if at_rate else None,
        in_flight=part.number("max_concurrency"),
        achieved=part.number("request_throughput"),
        requests=done,
    )
    measure_served(run, part, e2e="e2e_latency", total_throughput="total_throughput")
    return run


def _tell_server(run: Run, server: Part) -> None:
    """What the server says of itself, where bench_serving asked it."""
    run.tell("/model", server.text("model_path"))
    for pointer, name in _SERVER.items():
        run.count(pointer, server.number(name))
    for pointer, names in (
        ("/precision/weights", ("quantization", "dtype")),
        ("/precision/kv_cache", ("kv_cache_dtype",)),
    ):
        said = server.first(*names)
        if said is not None and (known := number_format(said.value)) is not None:
            run.tell(pointer, Part(known, said.pointer, said.line))
    run.tell("/serving/memory_utilization_ratio", server.number("mem_fraction_static"))
    run.count("/serving/max_running_sequences", server.number("max_running_requests"))
    version = server.text("version")
    run.release = None if version is None else version.value[:50]


SGLANG_BENCH = FileFormat("sglang-bench", "SGLang bench_serving", _recognise, _read)
