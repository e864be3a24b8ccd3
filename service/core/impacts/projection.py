"""Footprint over time: a training run's emissions against those of the inference it enables."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.elementwise import Number, exp, log
from service.core.explanation import Formula
from service.core.interval import Interval, product, quotient, scale
from service.core.years import DAYS_PER_YEAR

#: Paths start at a ``Projection``.
PROJECTION = (
    Formula(
        "crossover_days",
        "log(1 + growth_per_day * training_gco2e / first_day_gco2e) / growth_per_day"
        " if growth_per_day != 0 else training_gco2e / first_day_gco2e",
        "time at which the integral of exponentially growing daily emissions equals the training's",
        "crossover_days",
    ),
)


@dataclass(frozen=True, slots=True)
class Projection:
    """When cumulative inference overtakes training. ``crossover_days`` is None if it never does."""

    training_gco2e: Interval
    first_day_gco2e: Interval
    growth_per_day: float
    crossover_days: Interval | None

    def cumulative_gco2e(self, day: Number) -> Interval:
        """Emissions of inference up to a day [gCO2e]."""
        return scale(self.first_day_gco2e, _integral(self.growth_per_day, day))


def projection(
    training_gco2e: Interval,
    requests_per_day: Interval,
    request_gco2e: Interval,
    growth_per_year_ratio: float,
) -> Projection:
    """Compare a training run with the inference that follows it.

    Parameters
    ----------
    training_gco2e
        Emissions of training [gCO2e].
    requests_per_day
        Requests on the first day [1/d].
    request_gco2e
        Emissions of a request [gCO2e].
    growth_per_year_ratio
        Growth rate of requests, compounded continuously: after a year there are ``e**rate`` times
        as many; negative for decline [1/year].

    Returns
    -------
    Projection
        With the day on which cumulative inference overtakes training; the interval follows from
        the independent spreads of the three figures.

    References
    ----------
    Wu et al., Sustainable AI, 2022, https://arxiv.org/abs/2111.00364 (training against inference).
    """
    first_day = product(requests_per_day, request_gco2e)
    growth = growth_per_year_ratio / DAYS_PER_YEAR
    ratio = quotient(training_gco2e, first_day)
    value, low, high = (_days(growth, part) for part in (ratio.value, ratio.low, ratio.high))
    crossover = None
    if value is not None and low is not None:
        # Where even the pessimistic end never crosses, the upper end is without bound.
        crossover = Interval(value, low, float("inf") if high is None else high)
    return Projection(training_gco2e, first_day, growth, crossover)


def _days(growth_per_day: float, ratio: Number) -> float | None:
    if growth_per_day == 0.0:
        return float(ratio)
    reached = 1.0 + growth_per_day * ratio
    return None if reached <= 0.0 else float(log(reached)) / growth_per_day


def _integral(growth_per_day: float, day: Number) -> Number:
    if growth_per_day == 0.0:
        return day
    return (exp(growth_per_day * day) - 1.0) / growth_per_day
