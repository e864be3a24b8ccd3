"""What benchmarks of servers have in common: a load, and times of requests."""

from __future__ import annotations

from collections.abc import Mapping

from service.estimation.measurements.imports.reading import Part
from service.estimation.measurements.imports.runs import Run

_MS = 1e-3
#: Below this share of the rate asked for, a limit of requests in flight held requests back.
_KEPT_UP_RATIO = 0.9


def tell_load(
    run: Run,
    *,
    rate: Part | None,
    in_flight: Part | None,
    achieved: Part | None,
    requests: Part | None,
) -> None:
    """Requests in flight, or the rate at which they arrive.

    Parameters
    ----------
    run
        What it is noted in.
    rate
        Requests per second that were asked for; None where all were sent at once.
    in_flight
        Largest number of requests in flight; None where there was no limit.
    achieved
        Requests answered per second.
    requests
        Requests of the run.
    """
    held_back = (
        rate is not None
        and in_flight is not None
        and achieved is not None
        and achieved.value < _KEPT_UP_RATIO * rate.value
    )
    if rate is not None and rate.value > 0 and not held_back:
        run.tell("/workload/requests_per_s", Part(float(rate.value), rate.pointer, rate.line))
        if in_flight is not None:
            run.notes.append(f"at most {in_flight.value:g} requests in flight")
    elif in_flight is not None:
        run.count("/workload/concurrency", in_flight)
        if held_back and rate is not None:
            run.notes.append(f"{rate.value:g} requests/s were asked for and not reached")
    elif requests is not None:
        run.count("/workload/concurrency", requests, inferred=True)
        run.notes.append("all requests were sent at once: times include waiting")


def tell_lengths(
    run: Run, requests: Part | None, prompts: Part | None, outputs: Part | None
) -> None:
    """Mean lengths from totals; rounded ones are assumed."""
    if requests is None or requests.value <= 0:
        return
    for pointer, total in (("input_tokens", prompts), ("output_tokens", outputs)):
        if total is not None:
            mean = Part(total.value / requests.value, total.pointer, total.line)
            run.count(f"/workload/{pointer}", mean)


def measure_percentiles(
    run: Run, stem: str, numbers: Mapping[str, Part | None], factor: float = 1.0
) -> None:
    """Percentiles of a time, by ``p50``, ``p95`` and ``p99``."""
    for percentile, part in numbers.items():
        run.measure(f"{stem}_{percentile}_s", part, factor)


def measure_served(run: Run, part: Part, *, e2e: str, total_throughput: str) -> None:
    """Times and rates by the names that ``vllm bench serve`` and its likes give them.

    Parameters
    ----------
    run
        What they are noted in.
    part
        The object with the figures, times in milliseconds.
    e2e
        What the tool calls the time from a request to its last token: ``e2el`` in ``mean_e2el_ms``.
    total_throughput
        The key of prompt and output tokens per second.
    """
    for stem, key in (("ttft", "ttft"), ("tpot", "tpot"), ("e2e", e2e)):
        run.measure(f"{stem}_s", part.number(f"mean_{key}_ms"), _MS)
        percentiles = {
            "p50": part.number(f"median_{key}_ms"),
            "p95": part.number(f"p95_{key}_ms"),
            "p99": part.number(f"p99_{key}_ms"),
        }
        measure_percentiles(run, stem, percentiles, _MS)
    run.measure("itl_p50_s", part.number("median_itl_ms"), _MS)
    run.measure("output_tokens_per_s", part.number("output_throughput"))
    run.measure("total_tokens_per_s", part.number(total_throughput))
    run.measure("requests_per_s", part.number("request_throughput"))
