"""Candidates in regions: all combinations, cut down to those that may be chosen.

A place enters only by factors of energy and by prices, so configurations that are beaten wherever
they stand, and of places of the same offers and prices those that are beaten whatever stands there,
are set aside before the two are combined. Of what is left, those that come first for any priority
are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.impacts.footprint import footprint
from service.core.interval import exact
from service.core.search.dominance import front
from service.core.search.ranking import shortlist
from service.core.search.regions import (
    in_usual_site,
    scarce_water,
)
from service.core.search.rows import LeftOut, joined, taken
from service.core.search.workloads import METRICS
from service.estimation.recommendations.candidate_sets import (
    CandidateSet,
    CandidateTable,
    candidate_set,
)
from service.estimation.recommendations.exclusions import Exclusion, Exclusions
from service.estimation.recommendations.limits import OFFERED
from service.estimation.recommendations.metrics import (
    MetricRows,
    Units,
    metrics_in_places,
)
from service.estimation.recommendations.search import Search
from service.estimation.recommendations.search_context import (
    RegionGroup,
    SearchContext,
    region_groups,
)

#: Candidates closer than this share are near-ties: about the uncertainty that they have in common.
TOLERANCE_RATIO = 0.1

#: Candidates kept for each priority: of those that can stand in the same places at the same prices,
#: and of all.
_KEPT_OF_GROUP = 40
_KEPT_OF_ALL = 400

#: Candidates in places that are compared at once; bounds memory.
_JUDGED_AT_ONCE = 200_000

#: Stands for an unknown price where candidates are compared: dearer than any known one.
_UNKNOWN_COST = 1e12


#: Candidates of a kind.
Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True)
class PlacedCandidates:
    """Configurations in places that met all limits and that nothing beats.

    ``metrics`` and ``spreads`` have a row for each, columns as ``METRICS``; unknown costs are NaN.
    ``accelerators`` counts all replicas', ``held`` those that are paid for: whole instances, or
    boards. ``usd_per_hour`` is the price of all of them, of which ``fixed_usd_per_hour`` does not
    depend on what they draw; ``beside_kgco2e`` is the making of memory beside the machine of each
    accelerator [kgCO2e]; ``model``, ``row``, ``offer``
    and ``region`` say which. ``combined`` counts ``configurations`` within the limits of no place
    times places before any was set aside.
    """

    metrics: FloatArray
    spreads: FloatArray
    accelerators: FloatArray
    held: FloatArray
    usd_per_hour: FloatArray
    fixed_usd_per_hour: FloatArray
    beside_kgco2e: FloatArray
    model: NDArray[np.intp]
    row: NDArray[np.intp]
    offer: NDArray[np.intp]
    region: NDArray[np.intp]
    units: Units
    combined: int
    configurations: int

    @property
    def idle(self) -> NDArray[np.bool_]:
        """Where some of what is paid for stands idle, which no footprint counts."""
        return self.held > self.accelerators


@dataclass(frozen=True, slots=True)
class SearchResult(Generic[Rows]):
    """Candidates of each model, what was left out of them, and what was placed where.

    ``tables`` are the candidates as limits and comparisons see them; ``searched`` counts them, and
    ``exclusions`` say what the limits cost.
    """

    by_model: tuple[Rows, ...]
    tables: tuple[CandidateTable, ...]
    left_out: tuple[LeftOut, ...]
    placed: PlacedCandidates
    searched: int
    exclusions: tuple[Exclusion, ...]


def search_result(
    tables: Iterable[tuple[Rows, LeftOut, CandidateTable]], search: Search, units: Units
) -> SearchResult[Rows]:
    """Candidates of each model, sifted by the limits and combined with all places.

    Parameters
    ----------
    tables
        Candidates of each model, what was left out of them, and how they are seen.
    search
        Has the places and the weights.
    units
        What figures of a unit of work are multiplied by.
    """
    excluded = Exclusions()
    found = tuple(tables)
    candidate_sets = [candidate_set(table, left, excluded) for _, left, table in found]
    weights = np.array([search.weights[metric] for metric in METRICS])
    placed = place_candidates(candidate_sets, search.context, units, weights, excluded)
    return SearchResult(
        by_model=tuple(rows for rows, _, _ in found),
        tables=tuple(table for _, _, table in found),
        left_out=tuple(left for _, left, _ in found),
        placed=placed,
        searched=sum(len(table.metrics.offer) for _, _, table in found),
        exclusions=excluded.all(),
    )


def place_candidates(
    candidate_sets: Sequence[CandidateSet],
    context: SearchContext,
    units: Units,
    weights: FloatArray,
    excluded: Exclusions,
) -> PlacedCandidates:
    """Combine what competes with all places, and keep what may be chosen.

    Parameters
    ----------
    candidate_sets
        By model.
    context
        Places and prices.
    units
        What figures of a unit of work are multiplied by.
    weights
        Of the metrics, in the order of ``METRICS``.
    excluded
        Takes note of what limits exclude, from here on in places.

    Returns
    -------
    PlacedCandidates
        Empty if nothing meets the limits.
    """
    scarce = scarce_water(context.region_values)
    factors = _per_kwh(context)
    known: NDArray[np.bool_] = np.all(np.isfinite(factors), axis=1)
    excluded.of_places()
    pool = _pool(candidate_sets)
    per_offer = np.bincount(pool.metrics.offer, minlength=len(context.accelerators))
    has_region = np.zeros(len(context.accelerators), dtype=bool)
    parts: list[_Part] = []
    standing: list[_Standing] = []
    combined = 0

    def judge() -> None:
        """Compare what was combined so far where it stands, and keep what may be chosen."""
        placed = _within_limits(candidate_sets, pool, joined(_Standing, standing), context, units)
        for rows in np.split(np.arange(len(placed.group)), _ends(placed.group)):
            part = placed.taken(rows)
            parts.append(part.taken(_shortlist(part, scarce, weights, units, _KEPT_OF_GROUP)))
        standing.clear()

    for number, group in enumerate(region_groups(context)):
        regions = group.regions[known[group.regions]]
        placeable = int(per_offer[group.placeable].sum())
        if not len(regions) or not placeable:
            continue
        has_region |= group.placeable
        combined += placeable * len(regions)
        # Water that is scarce is no matter of degree.
        judged: FloatArray = np.column_stack((factors[regions], scarce[regions]))
        if group.own and context.prices.owning is not None:
            local = context.prices.owning.electricity_usd_per_kwh[regions]
            judged = np.column_stack((judged, np.nan_to_num(local, nan=_UNKNOWN_COST)))
        chosen = regions[front(judged, TOLERANCE_RATIO)]
        standing.append(
            _in_group(candidate_sets, pool, chosen, len(regions), number, group, context)
        )
        if sum(len(one.at) for one in standing) >= _JUDGED_AT_ONCE:
            judge()
    if standing:
        judge()
    nowhere = int(per_offer[np.logical_not(has_region)].sum())
    if nowhere:
        excluded.without_threshold(OFFERED, nowhere)
    return _joined(parts, scarce, weights, units, combined, len(pool.row) - nowhere)


@dataclass(frozen=True, slots=True)
class _Pool:
    """Rows of all models that are within the limits of no place, below one another.

    ``worthwhile`` are those that none with the same accelerator beats at any price.
    """

    metrics: MetricRows
    row: NDArray[np.intp]
    model: NDArray[np.intp]
    worthwhile: NDArray[np.bool_]


def _pool(candidate_sets: Sequence[CandidateSet]) -> _Pool:
    tables = [one.table.metrics.taken(one.row_indices) for one in candidate_sets]
    counts = [len(one.row_indices) for one in candidate_sets]
    return _Pool(
        joined(MetricRows, tables),
        np.concatenate([one.row_indices for one in candidate_sets]),
        np.repeat(np.arange(len(candidate_sets), dtype=np.intp), counts),
        np.concatenate([_unbeaten_at_any_price(table) for table in tables]),
    )


@dataclass(frozen=True, slots=True)
class _Standing:
    """Rows of the pool, each in a region, with the price of an hour and what that pays for.

    ``group`` is the number of the group of regions, ``own`` says where hardware is one's own.
    """

    at: NDArray[np.intp]
    region: NDArray[np.intp]
    group: NDArray[np.intp]
    own: NDArray[np.bool_]
    fixed_usd_per_hour: FloatArray
    held: FloatArray


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of the pool in regions, within all limits."""

    metrics: FloatArray
    spreads: FloatArray
    accelerators: FloatArray
    held: FloatArray
    usd_per_hour: FloatArray
    fixed_usd_per_hour: FloatArray
    beside_kgco2e: FloatArray
    model: NDArray[np.intp]
    row: NDArray[np.intp]
    offer: NDArray[np.intp]
    region: NDArray[np.intp]
    group: NDArray[np.intp]

    def taken(self, rows: NDArray[Any]) -> _Part:
        """The given rows only."""
        return taken(self, rows)


def _joined(
    parts: Sequence[_Part],
    scarce: NDArray[np.bool_],
    weights: FloatArray,
    units: Units,
    combined: int,
    configurations: int,
) -> PlacedCandidates:
    """What was placed in all groups, cut down to what may be chosen and nothing beats."""
    if not parts:
        nothing = np.empty(0, dtype=np.intp)
        none, empty = np.empty((0, len(METRICS))), np.empty(0)
        return PlacedCandidates(
            *(none, none, empty, empty, empty, empty, empty, nothing, nothing, nothing, nothing),
            *(units, combined, configurations),
        )
    every = joined(_Part, parts)
    kept = every.taken(_shortlist(every, scarce, weights, units, _KEPT_OF_ALL))
    idle = kept.held > kept.accelerators
    columns = (_comparable(kept.metrics), kept.held, 1.0 * scarce[kept.region], 1.0 * idle)
    best = kept.taken(front(np.column_stack(columns), TOLERANCE_RATIO))
    columns_of_best = {
        field.name: getattr(best, field.name) for field in fields(best) if field.name != "group"
    }
    return PlacedCandidates(
        **columns_of_best, units=units, combined=combined, configurations=configurations
    )


def _shortlist(
    part: _Part, scarce: NDArray[np.bool_], weights: FloatArray, units: Units, most: int
) -> NDArray[np.intp]:
    idle = part.held > part.accelerators
    return shortlist(
        *(part.metrics, part.spreads, part.held, scarce[part.region], idle),
        *(weights, units.least, most),
    )


def _in_group(
    candidate_sets: Sequence[CandidateSet],
    pool: _Pool,
    region_indices: NDArray[np.intp],
    places: int,
    number: int,
    group: RegionGroup,
    context: SearchContext,
) -> _Standing:
    """All models in one group of regions, within the limits of price where rent is all of it."""
    at = np.flatnonzero(group.placeable[pool.metrics.offer])
    limited = _price_limited(candidate_sets)
    if not limited:
        # With a limit all are priced, so that what it excludes is counted in full.
        at = at[pool.worthwhile[at]]
    fixed, held = _paid_for(pool.metrics.taken(at), group, context)
    if limited:
        affordable = pool.worthwhile[at]
        if not group.own:
            affordable = affordable & _by_model(
                pool,
                at,
                lambda one, rows, mine: one.within_price(rows, fixed[mine], places),
                candidate_sets,
            )
        at, fixed, held = at[affordable], fixed[affordable], held[affordable]
    each = np.repeat(np.arange(len(at)), len(region_indices))
    return _Standing(
        at[each],
        np.tile(region_indices, len(at)),
        np.full(len(each), number),
        np.full(len(each), group.own),
        fixed[each],
        held[each],
    )


def _price_limited(candidate_sets: Sequence[CandidateSet]) -> bool:
    return any(one.table.price_limited for one in candidate_sets)


def _within_limits(
    candidate_sets: Sequence[CandidateSet],
    pool: _Pool,
    standing: _Standing,
    context: SearchContext,
    units: Units,
) -> _Part:
    """What is within the limits of place and price where it stands."""
    rows = pool.metrics.taken(standing.at)
    fixed = standing.fixed_usd_per_hour
    metered = context.prices.metered_usd_per_kwh(rows.offer, standing.region)
    totals, metrics, spreads = metrics_in_places(
        rows, fixed, metered, standing.region, context, units
    )
    hourly = totals.usd / (rows.accelerator_hours / rows.accelerators)
    found = np.arange(len(rows.offer))
    if _price_limited(candidate_sets):
        # What they draw depends on the place, and so does the price of an hour of one's own.
        own = np.flatnonzero(standing.own)
        within = np.logical_not(standing.own)
        within[own] = _by_model(
            pool,
            standing.at[own],
            lambda one, rows, mine: one.within_price(rows, hourly[own[mine]], 1),
            candidate_sets,
        )
        found = found[within]
    found = found[
        _by_model(
            pool,
            standing.at[found],
            lambda one, rows, mine: one.within_region(rows, taken(totals, found[mine])),
            candidate_sets,
        )
    ]
    at = standing.at[found]
    return _Part(
        metrics[found],
        spreads[found],
        rows.accelerators[found],
        standing.held[found],
        hourly[found],
        fixed[found],
        rows.beside_kgco2e[found],
        pool.model[at],
        pool.row[at],
        rows.offer[found],
        standing.region[found],
        standing.group[found],
    )


def _ends(group: NDArray[np.intp]) -> NDArray[np.intp]:
    """Where the rows of one group of regions end and those of the next begin."""
    return np.flatnonzero(np.diff(group)) + 1


def _paid_for(
    rows: MetricRows, group: RegionGroup, context: SearchContext
) -> tuple[FloatArray, FloatArray]:
    """What an hour of each row costs in a group's regions without electricity of one's own.

    And how many accelerators that pays for.
    """
    if group.own:
        return context.prices.owned(rows.offer, rows.accelerators, rows.beside_usd)
    return context.prices.rented(group.rents, rows.offer, rows.accelerators, rows.sharing)


def _by_model(
    pool: _Pool,
    at: NDArray[np.intp],
    within: Callable[[CandidateSet, NDArray[np.intp], NDArray[np.intp]], NDArray[np.bool_]],
    candidate_sets: Sequence[CandidateSet],
) -> NDArray[np.bool_]:
    """Which rows of the pool are within the limits of their models."""
    found = np.zeros(len(at), dtype=bool)
    models = pool.model[at]
    for model, candidates in enumerate(candidate_sets):
        mine = np.flatnonzero(models == model)
        if len(mine):
            found[mine] = within(candidates, pool.row[at[mine]], mine)
    return found


def _per_kwh(context: SearchContext) -> FloatArray:
    """Operational carbon, water weighted by stress, and energy of a kWh of IT energy; NaN unknown.

    By region, as often as there are sites in which the accelerators' machines usually stand.
    """
    sites = {entry.value.platform.site: None for entry in context.accelerators}
    found: list[FloatArray] = []
    for site in sites:
        every = in_usual_site(context.stacked_regions, site)
        one = footprint(exact(1.0), None, None, every, context.infrastructure)
        found += [
            np.full(len(context.regions), np.nan) if figure is None else np.asarray(figure.value)
            for figure in (
                one.operational_location_gco2e,
                one.water_stress_weighted_l,
                one.facility_energy_kwh,
            )
        ]
    by_site: FloatArray = np.column_stack(found)
    return by_site


def _unbeaten_at_any_price(metrics: MetricRows) -> NDArray[np.bool_]:
    """Rows that none with the same accelerator beats, whatever an hour of it costs.

    Fewer accelerators for no more hours, in groups no larger, cost no more in any instances.
    """
    columns: FloatArray = np.column_stack(
        (
            metrics.filled,
            metrics.seconds,
            metrics.it_wh,
            metrics.accelerator_hours,
            metrics.accelerator_hours / metrics.accelerators,
            metrics.accelerators,
            metrics.sharing,
            metrics.beside_usd * metrics.accelerators,
            metrics.beside_kgco2e * metrics.accelerators,
        )
    )
    found = np.zeros(len(columns), dtype=bool)
    for at in np.unique(metrics.offer):
        mine = np.flatnonzero(metrics.offer == at)
        found[mine[front(columns[mine], TOLERANCE_RATIO)]] = True
    return found


def _comparable(metrics: FloatArray) -> FloatArray:
    """Metrics with unknown costs as the dearest."""
    known = metrics.copy()
    cost = METRICS.index("cost")
    known[:, cost] = np.nan_to_num(known[:, cost], nan=_UNKNOWN_COST)
    return known
