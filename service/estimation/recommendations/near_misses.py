"""When nothing meets the limits: what comes closest, and what would have to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, isfinite, log10
from typing import Any, TypeAlias

import numpy as np

from service.core.deployment import Region
from service.core.elementwise import FloatArray
from service.core.interval import Interval
from service.core.search.rows import TooSmall
from service.estimation.recommendations.answers import MustChange
from service.estimation.recommendations.candidate_sets import CandidateTable
from service.estimation.recommendations.limits import (
    HEADROOM,
    MEMORY,
    CandidateFigures,
    LimitCheck,
)
from service.estimation.recommendations.metrics import MetricRows, Units, metrics_in_places
from service.estimation.recommendations.placement import SearchResult
from service.estimation.recommendations.requests import MOST_ACCELERATORS
from service.estimation.recommendations.search_context import SearchContext

#: How far past its limits something is, and what it is with what must change.
Miss: TypeAlias = tuple[float, dict[str, Any]]
_MOST_LISTED = 5
_BYTES_PER_GB = 1e9
#: What lacks no more than this has room for its weights, and runs too many sequences.
_NOTHING_BYTES = 1e6
#: Fields of limits that an object of the request sets.
_FIELDS = {
    "max_accelerators": "search.max_accelerators",
    "rack_kw": "limits.site.rack_kw",
    "noise_db": "limits.site.noise.at_most_db",
    "facility_power_w": "limits.site.facility_power_w",
}
#: The limit that counts the replicas missing for the load.
_LOAD = "carries_the_load"
#: Looked at in each table, as several may be of the same accelerator.
_MOST_TRIED = 20 * _MOST_LISTED


def least_violating(
    found: SearchResult[Any],
    context: SearchContext,
    describe: Callable[[int, int], dict[str, Any]],
    describe_small: Callable[[int, TooSmall], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Candidates by how far they are past their limits, each with what must change.

    Prices are the lowest known of each accelerator; with a limit of carbon or water, all figures
    are those of the place, of those open to the accelerator, where a kWh takes least of it.

    Parameters
    ----------
    found, context
        What was searched and found.
    describe, describe_small
        Say what a row of the model at a position is, and what had not even room for what it always
        must hold.
    """
    misses: list[Miss] = []
    for at, (table, left) in enumerate(zip(found.tables, found.left_out, strict=True)):
        if len(table.metrics.offer):
            misses += _past_limits(
                table,
                context,
                found.placed.units,
                lambda row, at=at: describe(at, row),  # type: ignore[misc]
            )
        else:
            misses += _beyond_memory(
                left.too_small,
                context,
                lambda small, at=at: describe_small(at, small),  # type: ignore[misc]
            )
    return _nearest(misses)


def _nearest(misses: Iterable[Miss]) -> list[dict[str, Any]]:
    """What is past its limits by least, one for each accelerator and number of them."""
    listed: dict[tuple[Any, ...], dict[str, Any]] = {}
    for _, miss in sorted(misses, key=lambda miss: miss[0]):
        listed.setdefault((miss["accelerator"], miss["accelerator_count"]), miss)
        if len(listed) == _MOST_LISTED:
            break
    return list(listed.values())


def _past_limits(
    table: CandidateTable,
    context: SearchContext,
    units: Units,
    describe: Callable[[int], dict[str, Any]],
) -> list[Miss]:
    """Rows by how far they are past their limits, each with what must change."""
    offer, every = table.metrics.offer, np.arange(len(table.metrics.offer))
    figures, usd_per_hour = _where_they_suit(table, context, units)
    known = np.nan_to_num(usd_per_hour, nan=np.inf)
    priced = table.priced(every, known)
    figures = replace(
        figures,
        headroom_ratio=None,
        **{name: getattr(priced, name) for name in ("usd", "usd_per_hour", "usd_per_month")},
    )
    checks = table.checks(figures)
    headroom = np.asarray(table.figures.headroom_ratio)
    lacking_ratio = np.maximum((table.bounds[HEADROOM] or 0.0) - headroom, 0.0)
    memory_bytes = context.memory_bytes()[offer]
    past = lacking_ratio.copy()
    for check in checks:
        values, most = check.values, check.most
        past += np.maximum(values / most - 1.0, 0.0) if most > 0.0 else values > 0.0
    missing_replicas = table.figures.missing_replicas
    if missing_replicas is not None:
        # With as many replicas as carry the load, other figures and the price are known, too.
        carries = np.isfinite(past) & (missing_replicas <= 0.0)
        past[(missing_replicas > 0.0) & carries.any()] = np.inf
    found = []
    for row in np.argsort(past, kind="stable")[:_MOST_TRIED]:
        if not np.isfinite(past[row]):
            break
        missed = [check for check in checks if check.values[row] > check.most]
        changes: list[MustChange] = [
            {
                "limit": check.limit.name,
                "value": float(check.values[row]),
                "must_fall_by": float(check.values[row] - check.most),
            }
            for check in missed
        ]
        told = [_in_words(check, float(check.values[row])) for check in missed]
        if lacking_ratio[row] > 0.0:
            missing = float(lacking_ratio[row] * memory_bytes[row])
            changes.append(_more_memory(float(memory_bytes[row]), missing))
            told.append(_memory_in_words(missing))
        price = float(usd_per_hour[row])
        what = describe(int(row)) | {"must_change": changes}
        found.append((float(past[row]), _told(what, told, price if np.isfinite(price) else None)))
    return found


def _where_they_suit(
    table: CandidateTable, context: SearchContext, units: Units
) -> tuple[CandidateFigures, FloatArray]:
    """Figures of rows that limits are held against, and prices of an hour, NaN where unknown."""
    rows, carbon = table.metrics, _is_limited(table, "kgco2e")
    if not carbon and not _is_limited(table, "litres"):
        return table.figures, context.prices.least_usd_per_hour(rows.offer, rows.accelerators)
    there = _in_least_places(rows, context, units, of_water=not carbon)
    emitted = table.footprint(np.arange(len(rows.offer)), there.carbon_g, there.water_l)
    figures = replace(table.figures, kgco2e=emitted.kgco2e, litres=emitted.litres)
    return figures, there.usd_per_hour


def _is_limited(table: CandidateTable, figure: str) -> bool:
    return any(
        table.bounds.get(limit.name) is not None for limit in table.limits if limit.figure == figure
    )


@dataclass(frozen=True, slots=True)
class _InPlaces:
    """Rows in the place of each accelerator that suits a limit best.

    An hour of all accelerators [USD/h], NaN where no price is known, and carbon and water of a
    unit of work [g, L].
    """

    usd_per_hour: FloatArray
    carbon_g: FloatArray
    water_l: FloatArray


def _in_least_places(
    rows: MetricRows, context: SearchContext, units: Units, *, of_water: bool
) -> _InPlaces:
    """Each row where, of the places that its accelerator may stand in, a kWh takes least.

    Parameters
    ----------
    rows, context, units
        What is compared where.
    of_water
        Whether that is least water rather than least carbon.
    """
    regions, count = context.region_values, len(rows.offer)
    per_kwh = np.array([_water_per_kwh(one) if of_water else _gco2e(one) for one in regions])
    found = _InPlaces(*(np.full(count, np.nan) for _ in range(3)))
    for at in np.unique(rows.offer):
        mine = np.flatnonzero(rows.offer == at)
        open_to = np.flatnonzero(context.placeable[at])
        place = int(open_to[np.argmin(per_kwh[open_to])]) if len(open_to) else 0
        some, there = rows.taken(mine), np.full(len(mine), place)
        free = np.zeros(len(mine))
        with np.errstate(invalid="ignore"):
            # Runs that never end take all there is.
            totals, _, _ = metrics_in_places(some, free, free, there, context, units)
        found.carbon_g[mine], found.water_l[mine] = totals.carbon_g, totals.water_l
        prices = context.prices
        if context.sites.own[place]:
            kw = totals.facility_kwh / (some.accelerator_hours / some.accelerators)
            metered = prices.metered_usd_per_kwh(some.offer, there) * kw
            lost, _ = prices.owned(some.offer, some.accelerators, some.beside_usd)
            found.usd_per_hour[mine] = metered + lost
        else:
            found.usd_per_hour[mine] = prices.usd_per_hour(
                prices.rents[place], some.offer, some.accelerators, some.sharing
            )
    return found


def _gco2e(region: Region) -> float:
    """Carbon of a kWh of IT equipment [g]."""
    return _or_inf(region.grid_gco2e_per_kwh) * _or_inf(region.pue_ratio)


def _water_per_kwh(region: Region) -> float:
    """Water of a kWh of IT equipment [L]."""
    off_site = _or_inf(region.ewif_l_per_kwh) * _or_inf(region.pue_ratio)
    return _or_inf(region.wue_l_per_kwh) + off_site


def _or_inf(figure: Interval | None) -> float:
    return float("inf") if figure is None else float(figure.value)


def _beyond_memory(
    small: Sequence[TooSmall],
    context: SearchContext,
    describe: Callable[[TooSmall], dict[str, Any]],
) -> list[Miss]:
    """What does not even hold what it always must, by how much it lacks."""
    found = []
    for one in sorted(small, key=lambda one: one.lacking_bytes)[:_MOST_TRIED]:
        memory = float(context.accelerators[one.offer].value.memory_bytes)
        changes = [_more_memory(memory, one.lacking_bytes)]
        told = _told(
            describe(one) | {"must_change": changes}, [_memory_in_words(one.lacking_bytes)], None
        )
        found.append((1.0 + one.lacking_bytes / memory, told))
    return found


def _more_memory(memory_bytes: float, missing_bytes: float) -> MustChange:
    return {"limit": MEMORY.name, "value": memory_bytes, "must_rise_by": missing_bytes}


def _told(
    what: dict[str, Any], changes: Sequence[str], usd_per_hour: float | None
) -> dict[str, Any]:
    """A near miss with its price, and what would have to change, in a sentence."""
    price = "" if usd_per_hour is None else f", from {usd_per_hour:.3g} USD/h,"
    told = (
        f"{what['accelerator_count']} × {what['accelerator']} with {what['model']} in "
        f"{what['weights']}{price} would do if {' and '.join(changes)}"
    )
    return what | {"usd_per_hour": usd_per_hour, "in_words": told if changes else ""}


def _in_words(check: LimitCheck, signed: float) -> str:
    """What a limit would have to be, in the field of the request that sets it."""
    sign, limit = check.limit.sign, check.limit
    unit = "" if limit.unit == "-" else f" {limit.unit}"
    # Past the figure, so that the limit that is told lets it through.
    needed = sign * _up(signed)
    if limit.name == _LOAD:
        return f"it had {needed:g} more {'replica' if needed == 1.0 else 'replicas'}"
    field = limit.name if not limit.requested else f"limits.{limit.name}"
    if limit.name == "max_accelerators":
        unit = ""
    told = (
        f"{_FIELDS.get(field, field)} were {needed:g}{unit} instead of {sign * check.most:g}{unit}"
    )
    if limit.name == "max_accelerators" and needed > MOST_ACCELERATORS:
        told += f" (a search takes {MOST_ACCELERATORS} at most: divide the load)"
    return told


def _memory_in_words(missing_bytes: float) -> str:
    if missing_bytes < _NOTHING_BYTES:
        return "each accelerator had room for as many sequences"
    return f"each accelerator had {_up(missing_bytes / _BYTES_PER_GB):g} GB more memory"


def _up(value: float) -> float:
    """A figure of three digits that is no smaller."""
    if value == 0.0 or not isfinite(value):
        return value
    step = 10.0 ** (floor(log10(abs(value))) - 2)
    return float(f"{ceil(value / step) * step:.6g}")
