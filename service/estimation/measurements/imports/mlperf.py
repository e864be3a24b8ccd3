"""MLPerf Inference: ``mlperf_log_summary.txt`` of its load generator.

References
----------
mlcommons/inference, loadgen/results.cc, 2026.
"""

from __future__ import annotations

from service.estimation.measurements.imports.reading import Content, Part
from service.estimation.measurements.imports.runs import FileFormat, Run
from service.estimation.measurements.imports.serving_runs import measure_percentiles

_TITLE = "MLPerf Results Summary"
_NS = 1e-9
_LONGEST_NAME = 200


def _recognise(content: Content) -> bool:
    return content.text is not None and _TITLE in content.text[:2_000]


def _read(content: Content) -> list[Run]:
    told: dict[str, Part] = {}
    for number, line in content.lines():
        label, colon, text = line.partition(":")
        if colon and text.strip() and len(label) < _LONGEST_NAME:
            told.setdefault(label.strip(), Part(text.strip()[:_LONGEST_NAME], line=number))
    run = Run("MLPerf LoadGen", "the file")
    scenario = told.get("Scenario")
    if scenario is None:
        raise Part(None, line=1).fault("names no Scenario")
    _measure(run, told, waiting=scenario.value == "Offline")
    if scenario.value == "Server":
        run.tell("/workload/requests_per_s", _number(told, "Scheduled samples per second"))
        if "/request/workload/requests_per_s" not in run.fields:
            run.tell("/workload/requests_per_s", _number(told, "target_qps"))
    elif scenario.value == "SingleStream":
        run.tell("/workload/concurrency", Part(1, line=scenario.line))
    else:
        run.suppose("/workload/concurrency", "max", f"{scenario.place}: all samples at once")
        run.notes.append(f"{scenario.value}: as many sequences as fit ran at once")
    verdict = told.get("Result is")
    if verdict is not None and verdict.value != "VALID":
        run.notes.append(f"the run is {verdict.value}")
    name = told.get("SUT name")
    run.notes.append(f"system: {name.value}" if name is not None else "system not named")
    for stem, key in (("ttft_p99_s", "ttft_latency (ns)"), ("tpot_p99_s", "tpot_latency (ns)")):
        limit = _number(told, key)
        if limit is not None and limit.value > 0 and scenario.value == "Server":
            run.notes.append(f"limit of {stem}: {limit.value * _NS:g} s")
    return [run]


def _measure(run: Run, told: dict[str, Part], *, waiting: bool) -> None:
    """Rates, and the times of requests unless all of them are sent at once and wait."""
    for names, quantity in (
        (("Completed tokens per second", "Tokens per second"), "output_tokens_per_s"),
        (("Completed samples per second", "Samples per second"), "requests_per_s"),
    ):
        for name in names:
            run.measure(quantity, _number(told, name))
    if waiting:
        return
    for stem, mean, percentile in (
        ("ttft", "Mean First Token latency (ns)", "{} percentile first token latency (ns)"),
        ("tpot", "Mean Time per Output Token (ns)", "{} percentile time to output token (ns)"),
        ("e2e", "Mean latency (ns)", "{} percentile latency (ns)"),
    ):
        run.measure(f"{stem}_s", _number(told, mean), _NS)
        shares = {"p50": "50.00", "p95": "95.00", "p99": "99.00"}
        numbers = {name: _number(told, percentile.format(at)) for name, at in shares.items()}
        measure_percentiles(run, stem, numbers, _NS)
    if "tpot_s" not in run.measured:
        run.measure("tpot_s", _number(told, "Mean Time to Output Token (ns)"), _NS)


def _number(told: dict[str, Part], name: str) -> Part | None:
    part = told.get(name)
    return None if part is None else part.number()


MLPERF = FileFormat("mlperf", "MLPerf LoadGen summary", _recognise, _read)
