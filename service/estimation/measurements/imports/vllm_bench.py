"""``vllm bench serve``, ``throughput`` and ``latency``: the JSON that they save.

References
----------
vllm-project/vllm, vllm/benchmarks/serve.py (``--save-result``, ``--append-result``), throughput.py
and latency.py (``--output-json``), 2026.
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

_SERVE = ("model_id", "request_rate", "request_throughput", "total_token_throughput")
_THROUGHPUT = ("elapsed_time", "num_requests", "requests_per_second", "tokens_per_second")
_LATENCY = ("avg_latency", "latencies", "percentiles")
#: What ``--backend`` names, where it is a server and not a protocol that several speak.
_ENGINES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "sglang-native": "sglang",
    "tensorrt-llm": "tensorrt-llm",
    "llama.cpp": "llama.cpp",
}
#: Keys that ``--metadata KEY=VALUE`` is used for.
_METADATA = {
    "/parallelism/tensor": ("tensor_parallel_size", "tp", "tp_size"),
    "/parallelism/pipeline": ("pipeline_parallel_size", "pp", "pp_size"),
    "/parallelism/data": ("data_parallel_size", "dp", "dp_size"),
    "/accelerator_count": ("num_gpus", "gpu_count", "gpus"),
}
_VERSION = ("vllm_version", "engine_version", "version")
_ACCELERATOR = ("gpu", "gpu_name", "gpu_type", "accelerator", "hardware", "device_name")
_WEIGHTS = ("quantization", "dtype", "precision")


def _recognise(content: Content) -> bool:
    first = next(iter(content.objects), None)
    return first is not None and (has(first, _SERVE) or _offline(first))


def _offline(part: Part) -> bool:
    return has(part, _THROUGHPUT) or has(part, _LATENCY)


def _read(content: Content) -> list[Run]:
    return [_run(part) for part in content.json_lines]


def _run(part: Part) -> Run:
    if has(part, _SERVE):
        return _served(part)
    if has(part, _THROUGHPUT):
        return _throughput(part)
    if has(part, _LATENCY):
        return _latency(part)
    raise part.fault("is not a result of vllm bench, which the others of this file are")


def _started(part: Part, tool: str) -> Run:
    run = Run(tool, part.place)
    run.tell("/model", part.text("model_id"))
    for pointer, names in _METADATA.items():
        for name in names:
            if (number := part.number(name)) is not None:
                run.count(pointer, number)
    run.tell("/accelerator", part.first(*_ACCELERATOR))
    weights = part.first(*_WEIGHTS)
    if weights is not None and (known := number_format(weights.value)) is not None:
        run.tell("/precision/weights", Part(known, weights.pointer, weights.line))
    version = part.first(*_VERSION)
    run.release = None if version is None else str(version.value)[:50]
    return run


def _served(part: Part) -> Run:
    run = _started(part, "vllm bench serve")
    backend = part.first("backend", "endpoint_type")
    engine = None if backend is None else _ENGINES.get(str(backend.value))
    if engine is not None:
        run.tell("/serving/engine", Part(engine, backend.pointer if backend else "", part.line))
    else:
        run.suppose("/serving/engine", "vllm", "vllm bench serve")
    done = part.number("completed")
    if done is None or done.value < 1:
        raise part.fault("no request of this run was completed")
    tell_lengths(run, done, part.number("total_input_tokens"), part.number("total_output_tokens"))
    rate = part.part("request_rate")
    tell_load(
        run,
        rate=None if rate is None or rate.value == "inf" else part.number("request_rate"),
        in_flight=part.number("max_concurrency"),
        achieved=part.number("request_throughput"),
        requests=part.number("num_prompts"),
    )
    measure_served(run, part, e2e="e2el", total_throughput="total_token_throughput")
    failed = part.number("failed")
    if failed is not None and failed.value > 0:
        run.notes.append(f"{failed.value:g} requests failed")
    date = part.text("date")
    run.day(None if date is None else date.value)
    return run


def _throughput(part: Part) -> Run:
    run = _started(part, "vllm bench throughput")
    run.suppose("/serving/engine", "vllm", "vllm bench throughput")
    run.count("/workload/concurrency", part.number("num_requests"), inferred=True)
    run.measure("total_tokens_per_s", part.number("tokens_per_second"))
    run.measure("requests_per_s", part.number("requests_per_second"))
    run.notes.append("offline: all requests are given to the engine at once")
    return run


def _latency(part: Part) -> Run:
    run = _started(part, "vllm bench latency")
    run.suppose("/serving/engine", "vllm", "vllm bench latency")
    run.measure("e2e_s", part.number("avg_latency"))
    return run


VLLM_BENCH = FileFormat("vllm-bench", "vllm bench serve, throughput or latency", _recognise, _read)
