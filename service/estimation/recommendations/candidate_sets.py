"""Candidates of one model as limits and comparisons see them, whatever they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.search.rows import LeftOut
from service.core.years import HOURS_PER_MONTH
from service.estimation.recommendations.exclusions import Exclusions
from service.estimation.recommendations.limits import (
    MAKES_PROGRESS,
    Bounds,
    CandidateFigures,
    Limit,
    LimitCheck,
    limit_checks,
)
from service.estimation.recommendations.metrics import ImpactTotals, MetricRows

_GRAMS_PER_KG = 1000.0
_W_PER_KW = 1000.0
#: Limits that are on prices.
_PRICES = ("usd", "usd_per_hour", "usd_per_month")


@dataclass(frozen=True, slots=True)
class CandidateTable:
    """Candidates of one model: what they are compared by, and limits with their figures.

    ``figures`` hold wherever a candidate stands. ``units_of_work`` are those that limits on
    emissions and water count: requests of a year, or the one run [-].
    """

    metrics: MetricRows
    figures: CandidateFigures
    units_of_work: FloatArray
    limits: Sequence[Limit]
    bounds: Bounds

    @property
    def hours(self) -> FloatArray:
        """Time that all accelerators of a candidate take for a unit of work [h]."""
        found: FloatArray = self.metrics.accelerator_hours / np.maximum(
            self.metrics.accelerators, 1.0
        )
        return found

    @property
    def price_limited(self) -> bool:
        """Whether there is a limit on prices."""
        return any(self.bounds.get(name) is not None for name in _PRICES)

    def checks(self, figures: CandidateFigures) -> list[LimitCheck]:
        """The limits that are set and apply to figures of candidates."""
        return list(limit_checks(self.limits, figures, self.bounds))

    def priced(self, rows: NDArray[np.intp], usd_per_hour: FloatArray) -> CandidateFigures:
        """What given rows cost at a price of an hour of all accelerators [USD/h]."""
        return CandidateFigures(
            usd=usd_per_hour * self.hours[rows],
            usd_per_hour=usd_per_hour,
            usd_per_month=usd_per_hour * HOURS_PER_MONTH,
        )

    def in_place(self, rows: NDArray[np.intp], totals: ImpactTotals) -> CandidateFigures:
        """What given rows emit, take and draw, by totals of a unit of work in their places."""
        return replace(
            self.footprint(rows, totals.carbon_g, totals.water_l),
            facility_power_w=totals.facility_kwh / self.hours[rows] * _W_PER_KW,
        )

    def footprint(
        self, rows: NDArray[np.intp], carbon_g: FloatArray, water_l: FloatArray
    ) -> CandidateFigures:
        """What given rows emit and take, that a unit of work emits and takes so much of [g, L]."""
        times = self.units_of_work[rows]
        return CandidateFigures(kgco2e=carbon_g * times / _GRAMS_PER_KG, litres=water_l * times)


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Candidates of one model that compete for places.

    ``row_indices`` are the rows within the limits that depend on no place; ``excluded`` takes note
    of what others exclude.
    """

    table: CandidateTable
    row_indices: NDArray[np.intp]
    excluded: Exclusions

    def within_price(
        self, rows: NDArray[np.intp], usd_per_hour: FloatArray, places: int
    ) -> NDArray[np.bool_]:
        """Which of given rows are within limits on the price of their hour in so many places."""
        checks = self.table.checks(self.table.priced(rows, usd_per_hour))
        return self.excluded.within_limits(checks, len(rows), places)

    def within_region(self, rows: NDArray[np.intp], totals: ImpactTotals) -> NDArray[np.bool_]:
        """Which of given rows are within those on totals of a unit of work in a region."""
        table = self.table
        return self.excluded.within_limits(table.checks(table.in_place(rows, totals)), len(rows))


def candidate_set(table: CandidateTable, left: LeftOut, excluded: Exclusions) -> CandidateSet:
    """The candidates within the limits that depend on no place; notes what excludes the others."""
    count = len(table.metrics.offer)
    rows = np.flatnonzero(excluded.within_limits(table.checks(table.figures), count))
    ending = np.isfinite(table.metrics.seconds[rows])
    if not ending.all():
        excluded.without_threshold(MAKES_PROGRESS, int(len(rows) - ending.sum()))
        rows = rows[ending]
    excluded.left_out(left)
    return CandidateSet(table, rows, excluded)
