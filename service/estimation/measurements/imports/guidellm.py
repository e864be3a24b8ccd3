"""GuideLLM's report in JSON: a run for each benchmark of a sweep.

References
----------
vllm-project/guidellm, ``GenerativeBenchmarksReport``, versions 0.1 to 0.8, 2026.
"""

from __future__ import annotations

from service.estimation.measurements.imports.reading import Content, Part, refused
from service.estimation.measurements.imports.runs import FileFormat, Run
from service.estimation.measurements.imports.serving_runs import measure_percentiles, tell_load

_MS = 1e-3


def _recognise(content: Content) -> bool:
    first = None if content.whole is None else content.whole.part("benchmarks", 0)
    return first is not None and first.part("metrics", "requests_per_second") is not None


def _read(content: Content) -> list[Run]:
    report = content.json
    version = report.text("metadata", "guidellm_version")
    runs = []
    for part in report.parts("benchmarks"):
        metrics = part.part("metrics")
        if metrics is None:
            raise part.fault("has no metrics")
        run = Run("GuideLLM", part.place, version=None if version is None else version.value[:50])
        run.tell("/model", _model(report, part))
        run.count("/workload/input_tokens", _mean(metrics, "prompt_token_count"))
        run.count("/workload/output_tokens", _mean(metrics, "output_token_count"))
        _tell_load(run, part, metrics)
        for stem, name, factor in (
            ("ttft", "time_to_first_token_ms", _MS),
            ("tpot", "inter_token_latency_ms", _MS),
            ("e2e", "request_latency", 1.0),
        ):
            run.measure(f"{stem}_s", _mean(metrics, name), factor)
            shares = metrics.part(name, "successful", "percentiles")
            if shares is not None:
                numbers = {p: shares.number(p) for p in ("p50", "p95", "p99")}
                measure_percentiles(run, stem, numbers, factor)
        run.measure("requests_per_s", _mean(metrics, "requests_per_second"))
        run.measure("output_tokens_per_s", _mean(metrics, "output_tokens_per_second"))
        run.measure("total_tokens_per_s", _mean(metrics, "tokens_per_second"))
        failed = metrics.number("request_totals", "errored")
        if failed is not None and failed.value > 0:
            run.notes.append(f"{failed.value:g} requests failed")
        runs.append(run)
    if not runs:
        raise refused("has no benchmark", "/benchmarks")
    return runs


def _mean(metrics: Part, name: str) -> Part | None:
    return metrics.number(name, "successful", "mean")


def _model(report: Part, part: Part) -> Part | None:
    for at, path in (
        (part, ("config", "backend", "model")),
        (report, ("args", "model")),
        (part, ("benchmarker", "backend", "model")),
        (part, ("worker", "backend_model")),
    ):
        found = at.text(*path)
        if found is not None:
            return found
    return None


def _tell_load(run: Run, part: Part, metrics: Part) -> None:
    """The load by its strategy: a number of streams, a rate, or everything at once."""
    strategy = part.part("config", "strategy") or part.part("args", "strategy")
    if strategy is None:
        strategy = part.part("scheduler", "strategy")
    kind = None if strategy is None else strategy.text("type_")
    streams = None if strategy is None else strategy.number("streams")
    rate = None if strategy is None else strategy.number("rate")
    if kind is not None and kind.value == "synchronous":
        streams = Part(1, kind.pointer)
    seen = _mean(metrics, "request_concurrency")
    if streams is None and rate is None and seen is not None:
        # All at once, as fast as the server takes them: what was in flight is measured.
        run.count("/workload/concurrency", seen, inferred=True)
        return
    tell_load(
        run,
        rate=rate,
        in_flight=streams,
        achieved=_mean(metrics, "requests_per_second"),
        requests=metrics.number("request_totals", "successful"),
    )


GUIDELLM = FileFormat("guidellm", "GuideLLM report", _recognise, _read)
