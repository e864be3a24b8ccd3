"""``trtllm-bench``: the JSON of ``--report_json``, and the summary that it prints.

References
----------
NVIDIA/TensorRT-LLM, tensorrt_llm/bench/dataclasses/reporting.py, ``ReportUtility``, 2026.
"""

from __future__ import annotations

import re

from service.estimation.measurements.imports.names import number_format
from service.estimation.measurements.imports.reading import Content, Part, parsed_number
from service.estimation.measurements.imports.runs import FileFormat, Run, has
from service.estimation.measurements.imports.serving_runs import measure_percentiles

_KEYS = ("engine", "world_info", "request_info", "performance")
_MS = 1e-3
_LINE = re.compile(r"^(?:\[[^\]]*\]\s*){0,4}(\[?[A-Za-z][^:]{2,60}?)\s*:\s+(.{1,200})$")
#: Lines of the printed summary, with their places in the report.
_PRINTED: dict[str, tuple[str, ...]] = {
    "Model": ("engine", "model"),
    "TensorRT LLM Version": ("engine", "version"),
    "TensorRT-LLM Version": ("engine", "version"),
    "Dtype": ("engine", "dtype"),
    "KV Cache Dtype": ("engine", "kv_cache_dtype"),
    "Quantization": ("engine", "quantization"),
    "TP Size": ("world_info", "tp_size"),
    "PP Size": ("world_info", "pp_size"),
    "EP Size": ("world_info", "ep_size"),
    "Max Runtime Batch Size": ("world_info", "max_batch_size"),
    "Max Runtime Tokens": ("world_info", "max_num_tokens"),
    "Number of requests": ("request_info", "num_requests"),
    "Number of concurrent requests": ("request_info", "avg_num_concurrent_requests"),
    "Average Input Length (tokens)": ("request_info", "avg_input_length"),
    "Average Output Length (tokens)": ("request_info", "avg_output_length"),
    "Request Throughput (req/sec)": ("performance", "request_throughput_req_s"),
    "Total Output Throughput (tokens/sec)": ("performance", "system_output_throughput_tok_s"),
    "Total Token Throughput (tokens/sec)": ("performance", "system_total_throughput_tok_s"),
    "Average request latency (ms)": ("performance", "avg_request_latency_ms"),
    "Average time-to-first-token [TTFT] (ms)": ("streaming_metrics", "avg_ttft_ms"),
    "Average time-per-output-token [TPOT] (ms)": ("streaming_metrics", "avg_tpot_ms"),
}
_MACHINE = re.compile(r"^(.{3,80}), memory [\d.]+ GB, (?:[\d.]+ GHz|N/A)")
_TEXTS = frozenset({"model", "version", "dtype", "kv_cache_dtype", "quantization"})
_SUMMARY = "PERFORMANCE OVERVIEW"


def _recognise(content: Content) -> bool:
    text = content.text or ""
    printed = _SUMMARY in text and "Request Throughput (req/sec)" in text
    return has(content.whole, _KEYS) or printed


def _read(content: Content) -> list[Run]:
    return [_run(_from_summary(content) if content.whole is None else content.whole)]


def _from_summary(content: Content) -> Part:
    """The printed summary in the form of the report; places are lines."""
    report: dict[str, dict[str, object]] = {}
    for number, line in content.lines():
        machine = _MACHINE.match(line.strip())
        if machine is not None:
            report.setdefault("machine", {})["name"] = machine[1]
        found = _LINE.match(line.strip())
        place = None if found is None else _PRINTED.get(found[1].strip())
        if found is None or place is None:
            continue
        group, name = place
        value: object = found[2].strip()
        if value == "None":
            continue
        if name not in _TEXTS:
            value = parsed_number(str(value))
            if value is None:
                raise Part(found[2], line=number).fault(f"{found[2][:40]!r} is not a number")
        report.setdefault(group, {})[name] = value
    return Part(report)


def _run(part: Part) -> Run:
    engine, world = part.part("engine"), part.part("world_info")
    asked, speed = part.part("request_info"), part.part("performance")
    if engine is None or world is None or asked is None or speed is None:
        raise part.fault("lacks its engine, world_info, request_info or performance")
    run = Run("trtllm-bench", part.place)
    version = engine.text("version")
    run.version = run.release = None if version is None else version.value[:50]
    run.tell("/model", engine.text("model") or engine.text("model_path"))
    run.tell("/serving/engine", Part("tensorrt-llm", engine.pointer))
    for pointer, names in (
        ("/precision/weights", ("quantization", "dtype")),
        ("/precision/kv_cache", ("kv_cache_dtype",)),
    ):
        for name in names:
            said = engine.part(name)
            if said is not None and (known := number_format(said.value)) is not None:
                run.tell(pointer, Part(known, said.pointer, said.line))
                break
    run.tell("/accelerator", part.text("machine", "name"))
    run.count("/accelerator_count", world.number("world_size"))
    for pointer, name in (("tensor", "tp_size"), ("pipeline", "pp_size"), ("expert", "ep_size")):
        run.count(f"/parallelism/{pointer}", world.number(name))
    run.count("/serving/max_running_sequences", world.number("max_batch_size"))
    run.count("/serving/chunked_prefill_tokens", world.number("max_num_tokens"))
    run.count("/workload/input_tokens", asked.number("avg_input_length"))
    run.count("/workload/output_tokens", asked.number("avg_output_length"))
    run.count("/workload/concurrency", asked.number("avg_num_concurrent_requests"))
    run.measure("requests_per_s", speed.number("request_throughput_req_s"))
    run.measure("output_tokens_per_s", speed.number("system_output_throughput_tok_s"))
    run.measure("total_tokens_per_s", speed.number("system_total_throughput_tok_s"))
    run.measure("e2e_s", speed.number("avg_request_latency_ms"), _MS)
    _percentiles(run, "e2e", speed.part("request_latency_percentiles_ms"))
    streamed = part.part("streaming_metrics")
    if streamed is not None:
        run.measure("ttft_s", streamed.number("avg_ttft_ms"), _MS)
        run.measure("tpot_s", streamed.number("avg_tpot_ms"), _MS)
        _percentiles(run, "ttft", streamed.part("ttft_percentiles"))
        _percentiles(run, "tpot", streamed.part("tpot_percentiles"))
    return run


def _percentiles(run: Run, stem: str, part: Part | None) -> None:
    if part is not None:
        numbers = {name: part.number(name) for name in ("p50", "p95", "p99")}
        measure_percentiles(run, stem, numbers, _MS)


TRTLLM_BENCH = FileFormat("trtllm-bench", "trtllm-bench report", _recognise, _read)
