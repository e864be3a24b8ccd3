"""Use case: how throughput and latency trade against each other as more requests are in flight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from service.catalog.snapshot import CatalogSnapshot
from service.charts.curves import throughput_latency
from service.core.interval import exact
from service.estimation.charts.answers import ChartFindings, ChartLimit, ChartPoint
from service.estimation.charts.kind import ChartKind
from service.estimation.charts.requests import DEPLOYED, StyleRequest, same_training
from service.estimation.charts.series import axis, chart, limit, point, series
from service.estimation.formatting import duration, number
from service.estimation.inference.estimate import inference_latency_answer
from service.estimation.inference.spilling import computed_deployment
from service.estimation.references import separated
from service.estimation.rejection import FieldError, Rejected
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems
from service.estimation.training.estimate import training_latency_answer
from service.estimation.training.requests import LatencyTrainingRequest, TrainingSettingsRequest
from service.estimation.verdict.names import deployment_name

_NAMES = {
    "ttft_s": "time to first token",
    "tpot_s": "time per output token",
    "e2e_s": "time to the last token",
}
#: More in flight tells nothing new: engines run no more at once on a replica.
_MOST_IN_FLIGHT = 1024
#: The last power of two is left out if the most that is held is nearer than this factor.
_APART = 1.4

#: Series of the load that was asked for, and of the best that keeps the limit.
HERE, BEST = "you are here", "best that meets the limit"
#: Concurrencies that one curve may have.
MOST_POINTS = 64


def _counts(given: object) -> object:
    """Whole numbers as a list, or as one text separated by commas."""
    if not isinstance(given, str):
        return separated(given)
    parts = [part.strip() for part in given.split(",") if part.strip()]
    return tuple(
        int(part) if part.isascii() and part.isdigit() and len(part) < 10 else part
        for part in parts
    )


class ThroughputChartRequest(DeploymentRequest):
    """Throughput against latency over the number of requests in flight."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                DEPLOYED | {"latency": "ttft_s", "limit_s": 1.0},
                DEPLOYED
                | {"phases": "both", "training": {"zero_stage": 3, "sequence_length": 4096}},
            ]
        }
    )

    latency: Literal["ttft_s", "tpot_s", "e2e_s"] = "ttft_s"
    """Latency on the horizontal axis."""
    limit_s: float | None = Field(None, gt=0.0, le=1e6)
    """Service level objective, drawn as a line; if null, there is none."""
    concurrencies: Annotated[
        tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...],
        Field(max_length=MOST_POINTS),
        BeforeValidator(
            _counts,
            json_schema_input_type=Annotated[str, Field(max_length=640)]
            | list[Annotated[int, Field(ge=1, le=1_000_000)]],
        ),
    ] = Field((), examples=["1,2,4,8,16,32"])
    """Requests in flight, one point each, instead of the workload's own (as a list or separated by
    commas); if empty, powers of two up to what fits in memory."""
    phases: Literal["inference", "both"] = "inference"
    """What is shown; both adds the throughput of training as a line with its MFU."""
    training: TrainingSettingsRequest = TrainingSettingsRequest()
    """Used if training is shown."""
    style: StyleRequest = StyleRequest()


def throughput_chart(request: ThroughputChartRequest, snapshot: CatalogSnapshot) -> ChartFindings:
    """Output tokens a second of one accelerator against latency, with the load that was asked."""
    asked = _asked(request, snapshot)
    steps = {*(request.concurrencies or _powers(asked.most)), *asked.here}
    answers: list[Mapping[str, Any]] = [
        inference_latency_answer(_with_concurrency(request, number), snapshot)
        for number in sorted(steps)
    ]
    if answers[0]["output_tokens_per_s_per_accelerator"] is None:
        raise Rejected([FieldError("/workload/task", "this chart is of models that generate")])
    points = [
        point(
            str(answer["deployment"]["workload"]["concurrency"]),
            answer["output_tokens_per_s_per_accelerator"],
            answer[request.latency],
        )
        for answer in answers
    ]
    limit_s = request.limit_s
    within = [p for p in points if limit_s is not None and _latency_s(p) <= limit_s]
    best = max(within, key=lambda p: float(p["y"]["value"]), default=None)
    here = next((p for p in points if p["label"] in map(str, asked.here)), None)
    lines = [series("requests in flight", points)]
    if best is not None:
        lines.append(series(BEST, [best]))
    if here is not None:
        lines.append(series(HERE, [here]))
    name = _NAMES[request.latency]
    fits = bool(answers[0]["fits"])
    trained = None
    if request.phases == "both":
        trained = training_latency_answer(same_training(LatencyTrainingRequest, request), snapshot)
    return chart(
        f"{_finding(name, points, here, best, limit_s, fits)}: "
        f"{deployment_name(answers[0]['deployment'], snapshot)}",
        _told(name, points, here, best, limit_s, fits)
        + ("" if trained is None else _trained(trained)),
        (axis(name, "s"), axis("output tokens per second and accelerator", "1/s")),
        lines,
        [*answers, *([] if trained is None else [trained])],
        [
            *([] if limit_s is None else [limit("limit", "x", exact(limit_s), "s")]),
            *([] if trained is None else [_training_line(trained)]),
        ],
    )


def _training_line(trained: Mapping[str, Any]) -> ChartLimit:
    """Training has nobody who waits, so that it is a line, named by the use of the peak."""
    name = f"training, MFU {trained['mfu_ratio']['value']:.0%}"
    return limit(name, "y", trained["tokens_per_s_per_accelerator"], "1/s")


def _trained(trained: Mapping[str, Any]) -> str:
    speed, mfu = trained["tokens_per_s_per_accelerator"], trained["mfu_ratio"]
    short = "" if trained["fits"] else ", if it had enough memory"
    return (
        f" Training processes {number(speed['value'])} tokens per second on each accelerator "
        f"({number(speed['low'])} to {number(speed['high'])}), {mfu['value']:.0%} of the peak "
        f"({mfu['low']:.0%} to {mfu['high']:.0%}){short}."
    )


def _with_concurrency(request: ThroughputChartRequest, number: int) -> ThroughputChartRequest:
    workload = request.workload.model_copy(update={"concurrency": number, "requests_per_s": None})
    return request.model_copy(update={"workload": workload})


@dataclass(frozen=True, slots=True)
class _Asked:
    """The load that was asked for: what memory holds, and the requests in flight.

    ``here`` has the requests in flight, if that is what was asked; a rate sets none.
    """

    most: int
    here: tuple[int, ...]


def _asked(request: ThroughputChartRequest, snapshot: CatalogSnapshot) -> _Asked:
    computed = computed_deployment(request, snapshot, Problems())
    most_run = _MOST_IN_FLIGHT * computed.estimate.deployment.parallelism.data
    held = min(float(computed.memory.max_concurrency.value), most_run)
    asked = int(computed.resolved.workload.concurrency)
    rate = request.workload.requests_per_s
    here = (asked,) if rate is None and asked <= most_run else ()
    return _Asked(max(int(held), min(asked, most_run), 1), here)


def _powers(most: int) -> list[int]:
    """Powers of two up to the most requests in flight."""
    steps = (2**power for power in range(MOST_POINTS - 2))
    return [*(step for step in steps if step * _APART <= most), most]


def _latency_s(shown: ChartPoint) -> float:
    return shown["x"]["value"] if shown["x"] is not None else nan


def _finding(
    name: str,
    points: list[ChartPoint],
    here: ChartPoint | None,
    best: ChartPoint | None,
    limit_s: float | None,
    fits: bool,
) -> str:
    """What the picture shows in a line: the limit, or else the load that was asked for."""
    if not fits:
        return "Does not fit; throughput and latency assume enough memory"
    if limit_s is not None and best is None:
        return f"No number of requests keeps {name} within {duration(limit_s)}"
    if limit_s is not None and best is not None:
        reached = f"{number(best['y']['value'])} tokens/s per accelerator"
        return (
            f"{name[0].upper()}{name[1:]} stays within {duration(limit_s)} up to {best['label']} "
            f"requests at once, at {reached}"
        )
    shown = here or points[-1]
    return (
        f"With {shown['label']} at once, {name} is {duration(_latency_s(shown))} at "
        f"{number(shown['y']['value'])} tokens/s per accelerator"
    )


def _told(
    name: str,
    points: list[ChartPoint],
    here: ChartPoint | None,
    best: ChartPoint | None,
    limit_s: float | None,
    fits: bool,
) -> str:
    first, last = points[0], points[-1]
    span = (
        ("" if fits else "It does not fit; these speeds assume enough memory. ")
        + f"From {first['label']} to {last['label']} requests in flight, {name} goes from "
        f"{duration(_latency_s(first))} to {duration(_latency_s(last))} and an accelerator "
        f"from {number(first['y']['value'])} to {number(last['y']['value'])} output tokens per "
        "second."
    )
    if here is not None:
        span += (
            f" You asked for {here['label']} in flight: {duration(_latency_s(here))} and "
            f"{number(here['y']['value'])} tokens per second."
        )
    if limit_s is None:
        return span
    if best is None:
        return f"{span} None of them meets the limit of {duration(limit_s)}."
    return (
        f"{span} The best one within {duration(limit_s)} is {best['label']} in flight with "
        f"{number(best['y']['value'])} tokens per second ({number(best['y']['low'])} to "
        f"{number(best['y']['high'])})."
    )


KINDS = (
    ChartKind(
        "throughput-latency",
        "ThroughputChart",
        "Chart: throughput against latency over the requests in flight",
        "Output tokens per second and accelerator against a latency, one point for each number "
        "of requests in flight, with the load that was asked for and the best within the limit.",
        ThroughputChartRequest,
        throughput_chart,
        throughput_latency,
    ),
)
