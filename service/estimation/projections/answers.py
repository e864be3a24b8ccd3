"""Answers about time: inference after training, and slower memory over its life."""

from __future__ import annotations

from typing import Literal, TypeAlias

from service.estimation.answers import Answer, Interval, Repeatable

Better: TypeAlias = Literal["slower", "faster", "undecided"]


class OpenEndedInterval(Answer):
    """An interval whose upper end is null if it is unbounded."""

    value: float
    """Central estimate."""
    low: float
    high: float | None


class ProjectionPoint(Answer):
    """Cumulative emissions up to a day."""

    day: float
    """Days since the deployment began."""
    training_kgco2e: float
    """Emissions of training so far."""
    inference_kgco2e: Interval


class ProjectionAnswer(Repeatable):
    """When inference overtakes training, and the curve until then."""

    crossover_days: OpenEndedInterval | None
    """Null if it never happens."""
    training_kgco2e: Interval
    """As it was given."""
    first_day_kgco2e: Interval
    """Emissions of the requests of the first day."""
    series: list[ProjectionPoint]


class MemoryChoiceAnswer(Repeatable):
    """On which grids slower memory with lower embodied emissions beats faster memory."""

    saved_kgco2e_per_gb: Interval
    """Negative if faster memory uses less."""
    saved_gco2e_per_token: Interval
    extra_kwh_per_token: Interval
    break_even_gco2e_per_kwh: Interval | None
    """Grid intensity below which the slower memory is better; null if it never is."""
    region: str | None
    grid_gco2e_per_kwh: Interval | None
    better: Better | None
    """undecided if the intervals overlap; null if no grid is known, unless the faster memory is
    better on every grid."""
