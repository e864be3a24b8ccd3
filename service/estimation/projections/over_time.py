"""Use case: when the inference that follows a training run has emitted as much as the run."""

from __future__ import annotations

from functools import partial
from math import isfinite

from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import EstimateWarning, explain
from service.core.impacts.projection import PROJECTION, projection
from service.core.interval import Interval, scale
from service.core.years import DAYS_PER_YEAR
from service.estimation.answers import figure, frame, grounds
from service.estimation.detail import WHOLE, Detail
from service.estimation.projections.answers import OpenEndedInterval, ProjectionAnswer
from service.estimation.projections.requests import ProjectionRequest
from service.estimation.references import StatedFigure
from service.estimation.resolution import Problems

_MOST = 1e30
#: Growth over the whole series beyond this many e-foldings describes nothing on this planet.
_MOST_FOLDINGS = 100.0


def projection_answer(
    request: ProjectionRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> ProjectionAnswer:
    """Crossover day and cumulative emissions over time.

    Raises
    ------
    Rejected
        If a figure is not positive, or its interval does not hold its value.
    """
    problems = Problems()
    training = positive(request.training_kgco2e, "/training_kgco2e", problems)
    per_day = positive(request.requests_per_day, "/requests_per_day", problems)
    per_request = positive(request.gco2e_per_request, "/gco2e_per_request", problems)
    if request.growth_per_year_ratio * request.days / DAYS_PER_YEAR > _MOST_FOLDINGS:
        problems.add(
            "/growth_per_year_ratio", "grows beyond any reasonable size over that many days"
        )
    problems.stop_if_any()
    result = projection(
        scale(training, 1000.0), per_day, per_request, request.growth_per_year_ratio
    )
    crossover = result.crossover_days
    warnings = []
    if crossover is None:
        warnings.append(
            EstimateWarning("never_crosses", "inference shrinks too fast to ever overtake training")
        )
    step = request.days / (request.points - 1)
    days = [step * point for point in range(request.points)]
    return {
        **frame(snapshot.revision),
        "crossover_days": None if crossover is None else _open_ended(crossover),
        "training_kgco2e": figure(training),
        "first_day_kgco2e": figure(scale(result.first_day_gco2e, 1e-3)),
        "series": [
            {
                "day": day,
                "training_kgco2e": float(training.value),
                "inference_kgco2e": figure(scale(result.cumulative_gco2e(day), 1e-3)),
            }
            for day in days
        ],
        **grounds(
            snapshot,
            warnings,
            (),
            partial(explain, result, PROJECTION)
            if request.explain or detail.has("explanation")
            else None,
            detail=detail,
        ),
    }


def _open_ended(days: Interval) -> OpenEndedInterval:
    """The interval, whose upper end is null where the pessimistic case never crosses."""
    return {
        "value": float(days.value),
        "low": float(days.low),
        "high": float(days.high) if isfinite(days.high) else None,
    }


def positive(stated: float | StatedFigure, pointer: str, problems: Problems) -> Interval:
    """A figure of a request that must be above zero, noting it if it is not."""
    if not isinstance(stated, StatedFigure):
        stated = StatedFigure(value=stated)
    low = stated.value if stated.low is None else stated.low
    high = stated.value if stated.high is None else stated.high
    if not 1.0 / _MOST < low <= stated.value <= high < _MOST:
        problems.add(pointer, "needs 0 < low ≤ value ≤ high, and none of them extreme")
    return Interval(stated.value, low, high)
