"""Configurations in places: all combinations, cut down to those that nothing beats.

A place enters only by factors of energy and by prices, so within places of the same offers and
prices, configurations that are beaten wherever they stand, and places that are beaten whatever
stands there, are set aside before the two are combined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.interval import Interval
from service.core.search.dominance import front
from service.core.search.places import Places, places
from service.core.search.rows import LeftOut, taken
from service.core.search.workloads import METRICS
from service.estimation.recommendations.exclusions import Exclusion, Exclusions
from service.estimation.recommendations.search_context import Ground, Lot, lots

#: Candidates closer than this share are near-ties: about the uncertainty that they have in common.
TOLERANCE_RATIO = 0.1

#: Water on site of a data centre whose own is unknown [L/kWh of IT energy]. Value: Shehabi et al.,
#: 2024 United States Data Center Energy Usage Report, LBNL-2001637, 2024 (66 billion litres for
#: 176 TWh in 2023); ends: closed loops, and The Green Grid's average of evaporative sites.
USUAL_WUE = Interval(0.36, 0.0, 1.8)

#: Name of the exclusion of accelerators that no cloud searched is known to rent out.
_NOT_OFFERED = "offered"

_WH_PER_KWH = 1000.0

#: Stands for an unknown price where candidates are compared: dearer than any known one.
_UNKNOWN_COST = 1e12


#: Candidates of a kind.
Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True)
class Rated:
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

    def chosen(self, rows: NDArray[Any]) -> Rated:
        """The given rows only."""
        return taken(self, rows)


@dataclass(frozen=True, slots=True)
class Bill:
    """What rows of a model, in places, emit, evaporate and cost for a unit of work [g, L, USD]."""

    rows: NDArray[np.intp]
    carbon_g: FloatArray
    water_l: FloatArray
    usd: FloatArray


#: A limit that is held against an array: its name, unit, values, and the most they may be.
Held = tuple[str, str, FloatArray, float | None]


@dataclass(frozen=True, slots=True)
class Contest:
    """Configurations of one model that compete for places.

    ``alive`` are the rows within the limits that do not depend on the place. ``hourly_limits``
    holds limits against given rows and the price of their hour [USD], ``limits`` against a bill.
    """

    rated: Rated
    alive: NDArray[np.intp]
    hourly_limits: Callable[[NDArray[np.intp], FloatArray], Iterable[Held]]
    limits: Callable[[Bill], Iterable[Held]]


@dataclass(frozen=True, slots=True)
class Sited:
    """Configurations in places that met all limits and that nothing beats.

    ``metrics`` and ``spreads`` have a row for each, columns as ``METRICS``; unknown costs are NaN.
    ``usd_per_hour`` is the price of all accelerators; ``model``, ``row`` and ``place`` say which.
    ``combined`` counts configurations times places before any was set aside.
    """

    metrics: FloatArray
    spreads: FloatArray
    usd_per_hour: FloatArray
    model: NDArray[np.intp]
    row: NDArray[np.intp]
    place: NDArray[np.intp]
    combined: int


@dataclass(frozen=True, slots=True)
class Found(Generic[Rows]):
    """Candidates of each model, what was left out of them, and what stands where.

    ``searched`` counts the candidates; ``exclusions`` say what the limits cost.
    """

    of_model: tuple[Rows, ...]
    left_out: tuple[LeftOut, ...]
    sited: Sited
    searched: int
    exclusions: tuple[Exclusion, ...]


def sited(
    contests: Sequence[Contest],
    ground: Ground,
    unit: tuple[float, float, float],
    excluded: Exclusions,
) -> Sited:
    """Combine what competes with all places.

    Parameters
    ----------
    contests
        By model.
    ground
        Places and prices.
    unit
        What carbon [g], water [L] and cost [USD] of a unit of work are multiplied by.
    excluded
        Takes note of what limits exclude.

    Returns
    -------
    Sited
        Empty if nothing meets the limits.
    """
    where = places([region.value for region in ground.regions], USUAL_WUE)
    factors = np.column_stack([where.carbon_g_per_kwh, where.water_l_per_kwh])
    known: NDArray[np.bool_] = np.all(np.isfinite(factors), axis=1)
    parts: list[_Part] = []
    combined = 0
    for model, contest in enumerate(contests):
        placed = np.zeros(len(ground.accelerators), dtype=bool)
        for lot in lots(ground):
            regions = lot.regions[known[lot.regions]]
            here = contest.alive[lot.placeable[contest.rated.offer[contest.alive]]]
            if not len(regions) or not len(here):
                continue
            placed |= lot.placeable
            combined += len(here) * len(regions)
            at = regions[front(factors[regions], TOLERANCE_RATIO)]
            parts.append(_part(model, contest, here, at, lot, where, ground, unit, excluded))
        lost = np.logical_not(placed[contest.rated.offer[contest.alive]])
        if lost.any():
            excluded.without_threshold(_NOT_OFFERED, int(lost.sum()))
    if not parts:
        nothing = np.empty(0, dtype=np.intp)
        none = np.empty((0, len(METRICS)))
        return Sited(none, none, np.empty(0), nothing, nothing, nothing, combined)
    metrics = np.concatenate([part.metrics for part in parts])
    kept = front(_comparable(metrics), TOLERANCE_RATIO)
    models = np.array([part.model for part in parts], dtype=np.intp)
    return Sited(
        metrics=metrics[kept],
        spreads=np.concatenate([part.spreads for part in parts])[kept],
        usd_per_hour=np.concatenate([part.usd_per_hour for part in parts])[kept],
        model=np.repeat(models, [len(part.row) for part in parts])[kept],
        row=np.concatenate([part.row for part in parts])[kept],
        place=np.concatenate([part.place for part in parts])[kept],
        combined=combined,
    )


@dataclass(frozen=True, slots=True)
class _Part:
    model: int
    metrics: FloatArray
    spreads: FloatArray
    usd_per_hour: FloatArray
    row: NDArray[np.intp]
    place: NDArray[np.intp]


def _part(
    model: int,
    contest: Contest,
    here: NDArray[np.intp],
    at: NDArray[np.intp],
    lot: Lot,
    where: Places,
    ground: Ground,
    unit: tuple[float, float, float],
    excluded: Exclusions,
) -> _Part:
    """One model in one lot, within the limits of place and price."""
    rated = contest.rated
    hourly = ground.prices.usd_per_hour(
        lot.rents, rated.offer[here], rated.accelerators[here], rated.tensor[here]
    )
    embodied = ground.embodied_g_per_hour
    affordable = _within(contest.hourly_limits(here, hourly), len(here), excluded)
    here, hourly = here[affordable], hourly[affordable]
    best = _unbeaten(rated.chosen(here), hourly, embodied)
    rows, hourly = here[best], hourly[best]

    row, place = np.repeat(rows, len(at)), np.tile(at, len(rows))
    usd_hour = np.repeat(hourly, len(at))
    one = rated.chosen(row)
    kwh = one.it_wh / _WH_PER_KWH
    bill = Bill(
        rows=row,
        carbon_g=kwh * where.carbon_g_per_kwh[place] + one.accelerator_hours * embodied[one.offer],
        water_l=kwh * where.water_l_per_kwh[place],
        usd=one.accelerator_hours / one.accelerators * usd_hour,
    )
    carbon, water, cost = unit
    metrics = np.column_stack(
        [one.filled, one.seconds, bill.carbon_g * carbon, bill.water_l * water, bill.usd * cost]
    )
    energy = np.log(one.it_wh_spread)
    spreads = np.column_stack(
        [
            one.memory_spread,
            one.seconds_spread,
            np.exp(np.hypot(energy, np.log(where.carbon_spread[place]))),
            np.exp(np.hypot(energy, np.log(where.water_spread[place]))),
            np.ones(len(row)),
        ]
    )
    alive = _within(contest.limits(bill), len(row), excluded)
    return _Part(model, metrics[alive], spreads[alive], usd_hour[alive], row[alive], place[alive])


def _within(held: Iterable[Held], count: int, excluded: Exclusions) -> NDArray[np.bool_]:
    alive = np.ones(count, dtype=bool)
    for name, unit, values, limit in held:
        if limit is not None:
            alive &= excluded.within(name, unit, values, limit, alive)
    return alive


def within_all(held: Iterable[Held], count: int, excluded: Exclusions) -> NDArray[np.intp]:
    """Rows within limits of which None does not limit; notes what each excludes."""
    return np.flatnonzero(_within(held, count, excluded))


def _unbeaten(rated: Rated, hourly: FloatArray, embodied: FloatArray) -> NDArray[np.intp]:
    """Rows that no other beats in any place: not in memory, time, energy, wear or money."""
    usd = rated.accelerator_hours / rated.accelerators * hourly
    columns = (
        rated.filled,
        rated.seconds,
        rated.it_wh,
        rated.accelerator_hours * embodied[rated.offer],
        np.nan_to_num(usd, nan=_UNKNOWN_COST),
    )
    return front(np.column_stack(columns), TOLERANCE_RATIO)


def _comparable(metrics: FloatArray) -> FloatArray:
    """Metrics with unknown costs as the dearest."""
    known = metrics.copy()
    cost = METRICS.index("cost")
    known[:, cost] = np.nan_to_num(known[:, cost], nan=_UNKNOWN_COST)
    return known
