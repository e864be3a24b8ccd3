"""Use case: the choices that nothing else beats, on two of the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.charts.curves import pareto_front
from service.core.interval import exact
from service.core.search.workloads import WORKLOAD_KINDS, Metric
from service.estimation.charts.answers import ChartFindings, ChartPoint
from service.estimation.charts.kind import ChartKind
from service.estimation.charts.requests import StyleRequest
from service.estimation.charts.series import axis, chart, point, series
from service.estimation.formatting import number
from service.estimation.recommendations.inference.recommend import UNITS, recommendation_answer
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.rejection import FieldError, Rejected

_NAMES: Mapping[Metric, str] = {
    "headroom": "memory filled",
    "latency": "latency",
    "carbon": "greenhouse gases",
    "water": "water",
    "cost": "cost",
    "energy": "energy",
}


class ParetoChartRequest(RecommendationRequest):
    """The best trade-offs, on two of the metrics."""

    x: Metric = "latency"
    """Metric on the horizontal axis, where less is better; headroom is the share of memory
    filled."""
    y: Metric = "carbon"
    """Metric on the vertical axis; must differ from x."""
    style: StyleRequest = StyleRequest()


def pareto_chart(request: ParetoChartRequest, snapshot: CatalogSnapshot) -> ChartFindings:
    """Members of the Pareto front of a recommendation, and the choice for each priority.

    Raises
    ------
    Rejected
        If the request refers to unknown things, or asks for one metric twice.
    """
    if request.x == request.y:
        raise Rejected([FieldError("/y", "must differ from x")])
    answer = recommendation_answer(request, snapshot)
    kind = WORKLOAD_KINDS[request.workload_kind]
    x, y = request.x, request.y
    listed = [one for one in answer["front"] if _known(one, x, y)]
    chosen = [one for one in answer["choices"] if _known(one["candidate"], x, y)]
    unbeaten = set(_staircase(listed + [one["candidate"] for one in chosen], x, y))
    lines = [
        series("best on some trade-off of all metrics", [_point(one, x, y) for one in listed]),
        series(
            f"best trade-offs of {x} and {y}",
            [_point_at(at, label) for *at, label in sorted(unbeaten)],
        ),
        series("choices", [_point(one["candidate"], x, y, _best_for(one)) for one in chosen]),
    ]
    return chart(
        f"{_finding(chosen, kind.name.lower())}: {_NAMES[x]} against {_NAMES[y]}",
        _told(answer, chosen, x, y),
        (axis(_NAMES[x], UNITS[x]), axis(_NAMES[y], UNITS[y])),
        lines,
        [answer],
    )


def candidate_name(candidate: Mapping[str, Any]) -> str:
    """What a candidate runs on, where and in what format."""
    return (
        f"{candidate['accelerator_count']} × {candidate['accelerator']}, "
        f"{candidate['precision']['weights']}, {candidate['region']}"
    )


def _known(candidate: Mapping[str, Any], x: Metric, y: Metric) -> bool:
    return candidate["metrics"][x] is not None and candidate["metrics"][y] is not None


def _point(
    candidate: Mapping[str, Any], x: Metric, y: Metric, group: str | None = None
) -> ChartPoint:
    metrics = candidate["metrics"]
    return point(candidate_name(candidate), exact(metrics[y]), exact(metrics[x]), group)


def _point_at(at: list[Any], label: str) -> ChartPoint:
    return point(label, exact(at[1]), exact(at[0]))


def _staircase(
    candidates: list[Mapping[str, Any]], x: Metric, y: Metric
) -> list[tuple[float, float, str]]:
    """Candidates that no other beats on both metrics, from the least of the first on."""
    ordered = sorted(
        (one["metrics"][x], one["metrics"][y], candidate_name(one)) for one in candidates
    )
    found: list[tuple[float, float, str]] = []
    for one in ordered:
        if not found or one[1] < found[-1][1]:
            found.append(one)
    return found


def _best_for(choice: Mapping[str, Any]) -> str:
    return " and ".join(one.replace("_", " ") for one in choice["priorities"])


def _finding(chosen: list[dict[str, Any]], kind: str) -> str:
    if not chosen:
        return f"Nothing meets the limits of {kind}"
    first = chosen[0]
    candidate = first["candidate"]
    return (
        f"{candidate['accelerator_count']} × {candidate['accelerator']} in {candidate['region']} "
        f"is the {_best_for(first)} choice for {kind}"
    )


def _told(answer: Mapping[str, Any], chosen: list[dict[str, Any]], x: Metric, y: Metric) -> str:
    searched = answer["searched"]
    told = (
        f"{searched['unbeaten']:,} of {searched['candidates']:,} candidates meet the limits and "
        "are not beaten on every metric."
    )
    for one in chosen:
        metrics = one["candidate"]["metrics"]
        told += (
            f" {_best_for(one).capitalize()}: {candidate_name(one['candidate'])} with "
            f"{number(metrics[x])} {UNITS[x]} and {number(metrics[y])} {UNITS[y]}."
        )
    return told if chosen else f"{told} No candidate meets all limits."


KINDS = (
    ChartKind(
        "pareto-front",
        "ParetoChart",
        "Chart: the choices that nothing else beats, on two metrics",
        "Members of a recommendation's Pareto front on two of its metrics, and the choice for "
        "each priority; the request is that of a recommendation.",
        ParetoChartRequest,
        pareto_chart,
        pareto_front,
    ),
)
