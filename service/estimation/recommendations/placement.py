"""Candidates in regions: all combinations, cut down to those that nothing beats.

A place enters only by factors of energy and by prices, so within places of the same offers and
prices, configurations that are beaten wherever they stand, and places that are beaten whatever
stands there, are set aside before the two are combined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from service.core.deployment import Region
from service.core.elementwise import FloatArray
from service.core.impacts.footprint import Footprint, footprint
from service.core.interval import Interval, exact
from service.core.search.dominance import front
from service.core.search.regions import (
    in_regions,
    in_usual_site,
    making_of_rows,
    site_pue_of_rows,
)
from service.core.search.rows import LeftOut, taken
from service.core.search.workloads import METRICS
from service.estimation.recommendations.exclusions import Exclusion, Exclusions
from service.estimation.recommendations.limits import OFFERED
from service.estimation.recommendations.search_context import (
    RegionGroup,
    SearchContext,
    region_groups,
)

#: Candidates closer than this share are near-ties: about the uncertainty that they have in common.
TOLERANCE_RATIO = 0.1

_WH_PER_KWH = 1000.0

#: Stands for an unknown price where candidates are compared: dearer than any known one.
_UNKNOWN_COST = 1e12


#: Candidates of a kind.
Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True)
class MetricRows:
    """What configurations are compared by before they stand anywhere, one row each.

    ``tensor`` is the size of tensor-parallel groups, ``filled`` the share of memory filled beyond
    the target of headroom [-], ``seconds`` the time that counts [s]; energy of IT equipment and
    accelerator time are those of a unit of work [Wh, h]. ``*_spread`` is the ratio of the upper
    end of an interval to its value [-].
    """

    offer: NDArray[np.intp]
    accelerators: FloatArray
    tensor: NDArray[np.intp]
    filled: FloatArray
    memory_spread: FloatArray
    seconds: FloatArray
    seconds_spread: FloatArray
    it_wh: FloatArray
    it_wh_spread: FloatArray
    accelerator_hours: FloatArray
    accelerator_hours_spread: FloatArray

    def taken(self, rows: NDArray[Any]) -> MetricRows:
        """The given rows only."""
        return taken(self, rows)


@dataclass(frozen=True, slots=True)
class ImpactTotals:
    """What rows emit, evaporate and cost for a unit of work, by row, then region [g, L, USD]."""

    carbon_g: FloatArray
    water_l: FloatArray
    usd: FloatArray


@dataclass(frozen=True, slots=True)
class Units:
    """What figures of a unit of work are multiplied by to become metrics.

    ``carbon`` multiplies grams, ``water`` litres weighted by stress, ``cost`` dollars, ``energy``
    kilowatt-hours of the facility. ``least`` are the smallest amounts of the metrics that make a
    difference, as columns of ``METRICS``.
    """

    carbon: float
    water: float
    cost: float
    energy: float
    least: FloatArray


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Configurations of one model that compete for places.

    ``row_indices`` are the rows within the limits that do not depend on the place.
    ``within_price`` says which of given rows are within limits on the price of their hour [USD/h],
    ``within_region`` which of them are within those on totals in a region. Only with
    ``price_limited`` is there a limit on prices.
    """

    metrics: MetricRows
    row_indices: NDArray[np.intp]
    within_price: Callable[[NDArray[np.intp], FloatArray], NDArray[np.bool_]]
    within_region: Callable[[NDArray[np.intp], ImpactTotals], NDArray[np.bool_]]
    price_limited: bool


@dataclass(frozen=True, slots=True)
class PlacedCandidates:
    """Configurations in places that met all limits and that nothing beats.

    ``metrics`` and ``spreads`` have a row for each, columns as ``METRICS``; unknown costs are NaN.
    ``accelerators`` counts all replicas' and ``usd_per_hour`` is the price of all of them;
    ``model``, ``row``, ``offer`` and ``region`` say which. ``combined`` counts configurations times
    places before any was set aside.
    """

    metrics: FloatArray
    spreads: FloatArray
    accelerators: FloatArray
    usd_per_hour: FloatArray
    model: NDArray[np.intp]
    row: NDArray[np.intp]
    offer: NDArray[np.intp]
    region: NDArray[np.intp]
    units: Units
    combined: int


@dataclass(frozen=True, slots=True)
class SearchResult(Generic[Rows]):
    """Candidates of each model, what was left out of them, and what was placed where.

    ``searched`` counts the candidates; ``exclusions`` say what the limits cost.
    """

    by_model: tuple[Rows, ...]
    left_out: tuple[LeftOut, ...]
    placed: PlacedCandidates
    searched: int
    exclusions: tuple[Exclusion, ...]


def place_candidates(
    candidate_sets: Sequence[CandidateSet],
    context: SearchContext,
    units: Units,
    excluded: Exclusions,
) -> PlacedCandidates:
    """Combine what competes with all places.

    Parameters
    ----------
    candidate_sets
        By model.
    context
        Places and prices.
    units
        What figures of a unit of work are multiplied by.
    excluded
        Takes note of what limits exclude.

    Returns
    -------
    PlacedCandidates
        Empty if nothing meets the limits.
    """
    values = context.region_values()
    factors = np.array([_per_kwh(region, context) for region in values])
    known: NDArray[np.bool_] = np.all(np.isfinite(factors), axis=1)
    parts: list[_Part] = []
    combined = 0
    for model, candidates in enumerate(candidate_sets):
        has_region = np.zeros(len(context.accelerators), dtype=bool)
        worthwhile = _unbeaten_at_any_price(candidates.metrics, candidates.row_indices)
        for group in region_groups(context):
            regions = group.regions[known[group.regions]]
            offer = candidates.metrics.offer[candidates.row_indices]
            row_indices = candidates.row_indices[group.placeable[offer]]
            if not len(regions) or not len(row_indices):
                continue
            has_region |= group.placeable
            combined += len(row_indices) * len(regions)
            region_indices = regions[front(factors[regions], TOLERANCE_RATIO)]
            parts.append(
                _place_in_group(
                    model,
                    candidates,
                    row_indices,
                    worthwhile,
                    region_indices,
                    group,
                    [values[at] for at in region_indices],
                    context,
                    units,
                )
            )
        unplaced = np.logical_not(has_region[candidates.metrics.offer[candidates.row_indices]])
        if unplaced.any():
            excluded.without_threshold(OFFERED, int(unplaced.sum()))
    return _joined(parts, units, combined)


@dataclass(frozen=True, slots=True)
class _Part:
    model: int
    metrics: FloatArray
    spreads: FloatArray
    accelerators: FloatArray
    usd_per_hour: FloatArray
    row: NDArray[np.intp]
    offer: NDArray[np.intp]
    region: NDArray[np.intp]


def _joined(parts: Sequence[_Part], units: Units, combined: int) -> PlacedCandidates:
    """What was placed in all groups, cut down to what nothing beats."""
    if not parts:
        nothing = np.empty(0, dtype=np.intp)
        none, empty = np.empty((0, len(METRICS))), np.empty(0)
        return PlacedCandidates(
            none, none, empty, empty, nothing, nothing, nothing, nothing, units, combined
        )
    metrics = np.concatenate([part.metrics for part in parts])
    accelerators = np.concatenate([part.accelerators for part in parts])
    unbeaten = front(np.column_stack((_comparable(metrics), accelerators)), TOLERANCE_RATIO)
    models = np.array([part.model for part in parts], dtype=np.intp)
    return PlacedCandidates(
        metrics=metrics[unbeaten],
        spreads=np.concatenate([part.spreads for part in parts])[unbeaten],
        accelerators=accelerators[unbeaten],
        usd_per_hour=np.concatenate([part.usd_per_hour for part in parts])[unbeaten],
        model=np.repeat(models, [len(part.row) for part in parts])[unbeaten],
        row=np.concatenate([part.row for part in parts])[unbeaten],
        offer=np.concatenate([part.offer for part in parts])[unbeaten],
        region=np.concatenate([part.region for part in parts])[unbeaten],
        units=units,
        combined=combined,
    )


def _place_in_group(
    model: int,
    candidates: CandidateSet,
    row_indices: NDArray[np.intp],
    worthwhile: NDArray[np.bool_],
    region_indices: NDArray[np.intp],
    group: RegionGroup,
    regions: Sequence[Region],
    context: SearchContext,
    units: Units,
) -> _Part:
    """One model in one group of regions, within the limits of place and price."""
    before = candidates.metrics
    if not candidates.price_limited:
        # With a limit all are priced, so that what it excludes is counted in full.
        row_indices = row_indices[worthwhile[row_indices]]
    hourly = context.prices.usd_per_hour(
        group.rents,
        before.offer[row_indices],
        before.accelerators[row_indices],
        before.tensor[row_indices],
    )
    affordable = candidates.within_price(row_indices, hourly) & worthwhile[row_indices]
    row_indices, hourly = row_indices[affordable], hourly[affordable]
    best = _unbeaten(before.taken(row_indices), hourly, context.embodied_kgco2e)
    rows, hourly = row_indices[best], hourly[best]
    row, region = np.repeat(rows, len(region_indices)), np.tile(region_indices, len(rows))
    usd_hour = np.repeat(hourly, len(region_indices))
    totals, metrics, spreads = metrics_in_regions(
        before.taken(rows), hourly[:, np.newaxis], regions, context, units
    )
    within_limits = candidates.within_region(row, totals)
    return _Part(
        model,
        metrics[within_limits],
        spreads[within_limits],
        before.accelerators[row][within_limits],
        usd_hour[within_limits],
        row[within_limits],
        before.offer[row][within_limits],
        region[within_limits],
    )


def metrics_in_regions(
    rows: MetricRows,
    usd_per_hour: FloatArray,
    regions: Sequence[Region],
    context: SearchContext,
    units: Units,
) -> tuple[ImpactTotals, FloatArray, FloatArray]:
    """Totals, metrics and spreads of candidates in regions, by row, then region.

    Parameters
    ----------
    rows, usd_per_hour
        Candidates, and the price of all accelerators of each [USD/h]: one row a candidate, one
        column a region, or one for all of them.
    regions, context
        Where they stand, and what stands around accelerators.
    units
        What figures of a unit of work are multiplied by.
    """
    impacts = _impacts(rows, regions, context)
    count = len(rows.offer)
    hours = (rows.accelerator_hours / rows.accelerators).reshape(count, 1)
    usd = np.broadcast_to(hours * usd_per_hour, (count, len(regions)))
    many = rows.taken(np.repeat(np.arange(count), len(regions)))
    totals = ImpactTotals(
        carbon_g=np.asarray(impacts["carbon_g"].value),
        water_l=np.asarray(impacts["water_l"].value),
        usd=usd.ravel(),
    )
    metrics = (
        many.filled,
        many.seconds,
        totals.carbon_g * units.carbon,
        np.asarray(impacts["stressed_l"].value) * units.water,
        totals.usd * units.cost,
        np.asarray(impacts["facility_kwh"].value) * units.energy,
    )
    spreads = (
        many.memory_spread,
        many.seconds_spread,
        _spread(impacts["carbon_g"]),
        _spread(impacts["stressed_l"]),
        np.ones(len(many.offer)),
        _spread(impacts["facility_kwh"]),
    )
    return totals, np.column_stack(metrics), np.column_stack(spreads)


def _per_kwh(region: Region, context: SearchContext) -> tuple[float, ...]:
    """Operational carbon, water weighted by stress, and energy of a kWh of IT energy; NaN unknown.

    Twice: in the most and in the least efficient of the sites in which the accelerators' machines
    usually stand, between which any other one lies.
    """
    sites = [entry.value.platform.site_pue_ratio for entry in context.accelerators]
    found: list[float] = []
    for ratio in sorted({_value(min(sites, key=_value)), _value(max(sites, key=_value))}):
        there = in_usual_site(region, exact(ratio))
        one = footprint(exact(1.0), None, None, there, context.infrastructure)
        found += [
            np.nan if figure is None else float(figure.value)
            for figure in (
                one.operational_location_gco2e,
                one.water_stress_weighted_l,
                one.facility_energy_kwh,
            )
        ]
    return tuple(found)


def _value(figure: Interval) -> float:
    return float(figure.value)


def _impacts(
    rows: MetricRows, regions: Sequence[Region], context: SearchContext
) -> dict[str, Interval]:
    """Carbon, water and energy of a unit of work, by row, then region."""

    def read(one: Footprint) -> dict[str, Interval | None]:
        return {
            "carbon_g": one.total_location_gco2e,
            "water_l": one.water_total_l,
            "stressed_l": one.water_stress_weighted_l,
            "facility_kwh": one.facility_energy_kwh,
        }

    around = context.infrastructure
    kwh = _within_spread(rows.it_wh / _WH_PER_KWH, rows.it_wh_spread)
    hours = _within_spread(rows.accelerator_hours, rows.accelerator_hours_spread)
    made = making_of_rows(context.embodied_kgco2e, rows.offer, around)
    values = [entry.value for entry in context.accelerators]
    pue = site_pue_of_rows(values, rows.offer)
    return in_regions(kwh, hours, made, regions, around, read, pue)


def _within_spread(value: FloatArray, spread: FloatArray) -> Interval:
    return Interval(value, value / spread, value * spread)


def _spread(figure: Interval) -> FloatArray:
    """Ratio of the upper end to the value [-]; 1 where that is zero."""
    value, high = np.asarray(figure.value), np.asarray(figure.high)
    ratio: FloatArray = np.divide(high, value, out=np.ones(len(value)), where=value > 0.0)
    return ratio


def _unbeaten_at_any_price(metrics: MetricRows, row_indices: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Rows, of all, that none with the same accelerator beats, whatever an hour of it costs.

    Fewer accelerators for no more hours, in groups no larger, cost no more in any instances.
    """
    columns = np.column_stack(
        (
            metrics.filled,
            metrics.seconds,
            metrics.it_wh,
            metrics.accelerator_hours,
            metrics.accelerator_hours / metrics.accelerators,
            metrics.accelerators,
            metrics.tensor,
        )
    )
    found = np.zeros(len(columns), dtype=bool)
    offer = metrics.offer[row_indices]
    for at in np.unique(offer):
        mine = row_indices[offer == at]
        found[mine[front(columns[mine], TOLERANCE_RATIO)]] = True
    return found


def _unbeaten(
    metrics: MetricRows, hourly: FloatArray, embodied_kgco2e: Sequence[Interval]
) -> NDArray[np.intp]:
    """Rows that no other beats anywhere: not in memory, time, energy, wear, money or number."""
    embodied = np.array([one.value for one in embodied_kgco2e])
    usd = metrics.accelerator_hours / metrics.accelerators * hourly
    columns = (
        metrics.filled,
        metrics.seconds,
        metrics.it_wh,
        metrics.accelerator_hours * embodied[metrics.offer],
        np.nan_to_num(usd, nan=_UNKNOWN_COST),
        metrics.accelerators,
    )
    return front(np.column_stack(columns), TOLERANCE_RATIO)


def _comparable(metrics: FloatArray) -> FloatArray:
    """Metrics with unknown costs as the dearest."""
    known = metrics.copy()
    cost = METRICS.index("cost")
    known[:, cost] = np.nan_to_num(known[:, cost], nan=_UNKNOWN_COST)
    return known
