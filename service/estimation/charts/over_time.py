"""Use case: a training run's emissions against the inference that follows it, day by day."""

from __future__ import annotations

from service.catalog.snapshot import CatalogSnapshot
from service.charts.curves import impact_over_time
from service.core.interval import Interval, independent_sum
from service.estimation import answers
from service.estimation.charts.answers import ChartFindings
from service.estimation.charts.kind import ChartKind
from service.estimation.charts.requests import StyleRequest
from service.estimation.charts.series import axis, chart, limit, point, series
from service.estimation.formatting import number
from service.estimation.projections.answers import OpenEndedInterval, ProjectionPoint
from service.estimation.projections.over_time import projection_answer
from service.estimation.projections.requests import ProjectionRequest

_KG_PER_T = 1e3


class OverTimeChartRequest(ProjectionRequest):
    """A training run's emissions against the inference that follows it, day by day."""

    style: StyleRequest = StyleRequest()


def over_time_chart(request: OverTimeChartRequest, snapshot: CatalogSnapshot) -> ChartFindings:
    """Cumulative emissions of inference with their band, training's, and the day they cross.

    Raises
    ------
    Rejected
        If a figure is not positive, or its interval does not hold its value.
    """
    answer = projection_answer(request, snapshot)
    rows = answer["series"]
    crossover = answer["crossover_days"]
    training = answer["training_kgco2e"]

    def on(day: float) -> answers.Interval:
        return {"value": day, "low": day, "high": day}

    limits = []
    if crossover is not None:
        # An end that is never reached is drawn at the end of what is shown.
        last = max(float(request.days), crossover["value"])
        high = crossover["high"]
        ends: answers.Interval = {
            "value": crossover["value"],
            "low": crossover["low"],
            "high": last if high is None else high,
        }
        limits.append(limit("inference overtakes training", "x", ends, "d"))
    return chart(
        f"{_finding(crossover, request.days)}: emissions of a training run and of the inference "
        "that follows",
        _told(crossover, training, rows[-1]),
        (axis("days of operation", "d"), axis("cumulative emissions", "kgCO2e")),
        [
            series("training", [point("training", training, on(row["day"])) for row in rows]),
            series(
                "inference, cumulative",
                [point("inference", row["inference_kgco2e"], on(row["day"])) for row in rows],
            ),
            series(
                "total",
                [
                    point("total", _sum(training, row["inference_kgco2e"]), on(row["day"]))
                    for row in rows
                ],
            ),
        ],
        [answer],
        limits,
    )


def _sum(training: answers.Interval, inference: answers.Interval) -> Interval:
    return independent_sum((Interval(**training), Interval(**inference)))


def _finding(crossover: OpenEndedInterval | None, days: float) -> str:
    """What the picture shows, which ends on the last of its days."""
    if crossover is None:
        return "Inference never emits as much as training"
    if crossover["value"] > days:
        return f"Inference emits less than training did in the {days:,.0f} days shown"
    return f"Inference has emitted as much as training on day {crossover['value']:,.0f}"


def _told(
    crossover: OpenEndedInterval | None, training: answers.Interval, last: ProjectionPoint
) -> str:
    spent = last["inference_kgco2e"]
    total = _sum(training, spent)
    told = (
        f"Training emits {number(training['value'] / _KG_PER_T)} t CO₂e at once; inference adds "
        f"{number(spent['value'] / _KG_PER_T)} t ({number(spent['low'] / _KG_PER_T)} to "
        f"{number(spent['high'] / _KG_PER_T)}) by day {last['day']:,.0f}, "
        f"{number(float(total.value) / _KG_PER_T)} t in all."
    )
    if crossover is None:
        return f"{told} Inference never overtakes training."
    high = crossover["high"]
    until = "without end" if high is None else f"{high:,.0f}"
    return (
        f"{told} Inference overtakes training on day {crossover['value']:,.0f} "
        f"({crossover['low']:,.0f} to {until})."
    )


KINDS = (
    ChartKind(
        "impact-over-time",
        "OverTimeChart",
        "Chart: a training run's emissions against cumulative inference, and when they cross",
        "Emissions of training, of inference added up day by day, and of both, with the day on "
        "which inference has emitted as much as training.",
        OverTimeChartRequest,
        over_time_chart,
        impact_over_time,
    ),
)
