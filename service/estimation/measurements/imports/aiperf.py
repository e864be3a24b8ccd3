"""AIPerf's and genai-perf's profile export in JSON.

References
----------
ai-dynamo/aiperf, ``profile_export_aiperf.json``, 2026; triton-inference-server/perf_analyzer,
genai-perf, ``profile_export_genai_perf.json``, 2025.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from service.estimation.measurements.imports.reading import Content, Part, refused
from service.estimation.measurements.imports.runs import FileFormat, Run, has
from service.estimation.measurements.imports.serving_runs import measure_percentiles, tell_load

_KEYS = ("request_throughput", "request_latency", "input_config")
_SECONDS = {"ms": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "ns": 1e-9, "s": 1.0, "seconds": 1.0}
_MS = "ms"
_POWER = ("nvidia_power_usage", "gpu_power_usage", "amd_power")
#: Where a setting stands, in the versions of both tools.
_CONCURRENCY = (
    ("loadgen", "concurrency"),
    ("phases", 0, "concurrency"),
    ("perf_analyzer", "stimulus", "concurrency"),
    ("concurrency",),
)
_RATE = (
    ("loadgen", "request_rate"),
    ("phases", 0, "rate"),
    ("perf_analyzer", "stimulus", "request_rate"),
    ("request_rate",),
)
_MODEL = (
    ("endpoint", "model_names", 0),
    ("models", "items", 0, "name"),
    ("models", 0, "name"),
    ("model_names", 0),
    ("model", 0),
    ("model",),
    ("formatted_model_name",),
)


def _recognise(content: Content) -> bool:
    whole = content.whole
    return (
        whole is not None
        and has(whole, _KEYS)
        and whole.part("request_throughput", "avg") is not None
    )


def _read(content: Content) -> list[Run]:
    part = content.json
    version = part.text("aiperf_version")
    tool = "AIPerf" if part.part("schema_version") or version else "genai-perf"
    run = Run(tool, part.place, version=None if version is None else version.value[:50])
    asked = part.part("input_config")
    if asked is None:
        raise refused("input_config is empty", "/input_config")
    run.tell("/model", _found(asked, _MODEL, text=True))
    run.count("/workload/input_tokens", part.number("input_sequence_length", "avg"))
    run.count("/workload/output_tokens", part.number("output_sequence_length", "avg"))
    requests = part.number("request_count", "avg")
    throughput = part.number("request_throughput", "avg")
    tell_load(
        run,
        rate=_found(asked, _RATE),
        in_flight=_found(asked, _CONCURRENCY),
        achieved=throughput,
        requests=requests,
    )
    for stem, name in (
        ("ttft", "time_to_first_token"),
        ("tpot", "inter_token_latency"),
        ("e2e", "request_latency"),
    ):
        times = part.part(name)
        if times is None:
            continue
        unit = times.text("unit")
        factor = _SECONDS.get(_MS if unit is None else unit.value)
        if factor is None:
            raise times.fault("the unit is not one of time")
        run.measure(f"{stem}_s", times.number("avg"), factor)
        numbers = {name: times.number(name) for name in ("p50", "p95", "p99")}
        measure_percentiles(run, stem, numbers, factor)
    run.measure("requests_per_s", throughput)
    run.measure("output_tokens_per_s", part.number("output_token_throughput", "avg"))
    run.measure("total_tokens_per_s", part.number("total_token_throughput", "avg"))
    run.measure("goodput_requests_per_s", part.number("goodput", "avg"))
    _tell_telemetry(run, part)
    began = part.text("start_time")
    run.day(None if began is None else began.value)
    return [run]


def _tell_telemetry(run: Run, part: Part) -> None:
    """Accelerators and their mean power, where AIPerf was told to watch them."""
    endpoints = part.part("telemetry_data", "endpoints")
    powers: list[Part] = []
    names: list[Part] = []
    for endpoint in () if endpoints is None else endpoints.values():
        gpus = endpoint.part("gpus")
        for gpu in () if gpus is None else gpus.values():
            metrics = gpu.part("metrics")
            found = None if metrics is None else metrics.first(*_POWER)
            power = None if found is None else found.number("avg")
            if power is not None and power.value > 0:
                powers.append(power)
                names += filter(None, [gpu.text("gpu_name")])
    if not powers:
        return
    run.measure("accelerator_power_w", Part(fmean(one.value for one in powers), powers[0].pointer))
    if len({name.value for name in names}) == 1:
        run.tell("/accelerator", names[0])
    run.tell("/accelerator_count", Part(len(powers), powers[0].pointer), inferred=True)


def _found(
    part: Part, paths: Iterable[tuple[str | int, ...]], *, text: bool = False
) -> Part | None:
    """The first of several places that holds a number, or a text."""
    for path in paths:
        at = part.part(*path)
        if at is None:
            continue
        if text and isinstance(at.value, str):
            return at
        if not text and isinstance(at.value, int | float) and not isinstance(at.value, bool):
            return part.number(*path)
    return None


AIPERF = FileFormat("aiperf", "AIPerf or genai-perf profile export", _recognise, _read)
