"""All candidates of a search in all places, cut down to those that nothing beats."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.impact.infrastructure import HOURS_PER_YEAR
from service.core.interval import Interval
from service.core.planning.dominance import front
from service.core.planning.inference_candidates import Candidates, candidates
from service.core.planning.passes import TooSmall
from service.core.planning.places import Places, places
from service.core.planning.workloads import METRICS
from service.estimation.decisions.requests import LimitsRequest
from service.estimation.decisions.space import ResolvedSearch

#: Candidates closer than this share are near-ties: about the uncertainty that they have in common.
TOLERANCE_RATIO = 0.1

#: Water on site of a data centre whose own is unknown [L/kWh of IT energy]. Value: Shehabi et al.,
#: 2024 United States Data Center Energy Usage Report, LBNL-2001637, 2024 (66 billion litres for
#: 176 TWh in 2023); ends: closed loops, and The Green Grid's average of evaporative sites.
USUAL_WUE = Interval(0.36, 0.0, 1.8)

_GRAMS_PER_KG = 1000.0
_WH_PER_KWH = 1000.0
_PER_1K_TOKENS = 1000.0


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A limit and how many candidates it excluded; ``nearest`` came closest, with its value.

    ``threshold`` is None where there is nothing to come close to.
    """

    limit: str
    threshold: float | None
    unit: str
    excluded: int
    nearest_value: float | None


@dataclass(frozen=True, slots=True)
class Field:
    """Candidates in places that met all limits and that nothing beats.

    ``metrics`` and ``spreads`` have a row for each, columns as ``METRICS``: share of memory
    filled beyond the target of headroom [-], latency [s], carbon [g/1k output tokens], water
    [L/1k], cost [USD/1k]; unknown costs are NaN. ``row``, ``place`` and ``model`` say which.
    """

    of_model: tuple[Candidates, ...]
    metrics: FloatArray
    spreads: FloatArray
    model: NDArray[np.intp]
    row: NDArray[np.intp]
    place: NDArray[np.intp]
    searched: int
    combined: int
    exclusions: tuple[Exclusion, ...]
    too_small: tuple[tuple[TooSmall, ...], ...]

    def __len__(self) -> int:
        return len(self.row)


def field(search: ResolvedSearch) -> Field:
    """Search everything.

    Returns
    -------
    Field
        Empty if nothing meets the limits.
    """
    where = places([region.value for region in search.regions], USUAL_WUE)
    hourly = hourly_usd(search)
    parts: list[tuple[FloatArray, FloatArray, NDArray[np.intp], NDArray[np.intp]]] = []
    of_model: list[Candidates] = []
    small: list[tuple[TooSmall, ...]] = []
    excluded: dict[str, Exclusion] = {}
    models: list[int] = []
    searched = combined = 0
    for entry, space in zip(search.models, search.spaces, strict=True):
        found, lacking = candidates(entry.value, space, search.demand, search.around)
        of_model.append(found)
        small.append(lacking)
        searched += len(found)
        alive = _limited(found, search, hourly, excluded, len(lacking))
        # Within what can stand in the same places, configurations and places compare apart.
        for placeable in np.unique(search.placeable, axis=0):
            alike = (search.placeable == placeable).all(axis=1)
            here = alive[alike[found.offer[alive]]]
            factors = np.column_stack([where.carbon_g_per_kwh, where.water_l_per_kwh])
            known = np.flatnonzero(np.isfinite(factors).all(axis=1) & placeable)
            if not len(known):
                _nowhere(len(here), excluded)
                continue
            rows = here[_unbeaten(found.chosen(here), search, hourly)]
            at = known[front(factors[known], TOLERANCE_RATIO)]
            combined += len(here) * len(known)
            parts.append(_combined(found, rows, at, where, search, hourly, excluded))
            models.append(len(of_model) - 1)
    if not parts:
        nothing = np.empty(0, dtype=np.intp)
        none = np.empty((0, len(METRICS)))
        parts, models = [(none, none, nothing, nothing)], [0]
    sizes = [len(part[0]) for part in parts]
    metrics = np.concatenate([part[0] for part in parts])
    kept = front(_comparable(metrics), TOLERANCE_RATIO)
    model = np.repeat(np.array(models, dtype=np.intp), sizes)
    return Field(
        of_model=tuple(of_model),
        metrics=metrics[kept],
        spreads=np.concatenate([part[1] for part in parts])[kept],
        model=model[kept],
        row=np.concatenate([part[2] for part in parts])[kept],
        place=np.concatenate([part[3] for part in parts])[kept],
        searched=searched,
        combined=combined,
        exclusions=tuple(excluded.values()),
        too_small=tuple(small),
    )


def hourly_usd(search: ResolvedSearch) -> FloatArray:
    """Price of an hour of each accelerator; NaN where none is known [USD/h]."""
    return np.array([search.usd_per_hour.get(entry.id, np.nan) for entry in search.accelerators])


def latency_metric(found: Candidates, search: ResolvedSearch) -> FloatArray:
    """What users wait for: a task of an agent, else one request [s]."""
    calls = search.demand.calls_per_task if search.kind.id == "agentic" else 1
    return found.e2e_s * calls


def filled(found: Candidates, search: ResolvedSearch) -> FloatArray:
    """Share of memory filled, no better below what the kind asks to stay free [-]."""
    return 1.0 - np.minimum(found.headroom_ratio, search.kind.headroom_target_ratio)


def _limited(
    found: Candidates,
    search: ResolvedSearch,
    hourly: FloatArray,
    excluded: dict[str, Exclusion],
    too_small: int,
) -> NDArray[np.intp]:
    """Rows within the limits that do not depend on the place."""
    limits = search.limits
    prices = hourly[found.offer] * found.accelerators
    checks = (
        ("headroom_ratio_at_least", "-", -found.headroom_ratio, -limits.headroom_ratio_at_least),
        ("ttft_s", "s", found.ttft_s, limits.ttft_s),
        ("tpot_s", "s", found.tpot_s, limits.tpot_s),
        ("e2e_s", "s", found.e2e_s, limits.e2e_s),
        ("task_s", "s", found.e2e_s * search.demand.calls_per_task, limits.task_s),
        ("it_power_w", "W", found.power_w, limits.it_power_w),
        ("usd_per_hour", "USD/h", np.nan_to_num(prices, nan=inf), limits.usd_per_hour),
    )
    alive = np.ones(len(found), dtype=bool)
    for name, unit, values, limit in checks:
        if limit is not None:
            alive &= _within(name, unit, values, limit, alive, excluded)
    if too_small:
        memory = excluded["headroom_ratio_at_least"]
        excluded["headroom_ratio_at_least"] = Exclusion(
            memory.limit, memory.threshold, memory.unit, memory.excluded + too_small, None
        )
    return np.flatnonzero(alive)


def _within(
    name: str,
    unit: str,
    values: FloatArray,
    limit: float,
    alive: NDArray[np.bool_],
    excluded: dict[str, Exclusion],
) -> NDArray[np.bool_]:
    """Which values are within a limit; notes how many of the living are not."""
    within = np.asarray(values <= limit)
    lost = np.logical_and(alive, np.logical_not(within))
    sign = -1.0 if name.endswith("at_least") else 1.0
    known = excluded.get(name)
    nearest = [] if known is None or known.nearest_value is None else [sign * known.nearest_value]
    nearest += [float(values[lost].min())] if lost.any() else []
    found = min(nearest, default=inf)
    count = int(lost.sum()) + (known.excluded if known is not None else 0)
    shown = sign * found if np.isfinite(found) else None
    excluded[name] = Exclusion(name, sign * limit, unit, count, shown)
    return within


def _unbeaten(found: Candidates, search: ResolvedSearch, hourly: FloatArray) -> NDArray[np.intp]:
    """Rows that no other beats in any place: not in memory, time, energy, wear or money."""
    columns = (
        filled(found, search),
        latency_metric(found, search),
        found.it_wh,
        found.accelerator_hours * embodied_g_per_hour(search)[found.offer],
        np.nan_to_num(found.accelerator_hours * hourly[found.offer], nan=_UNKNOWN_COST),
    )
    return front(np.column_stack(columns), TOLERANCE_RATIO)


#: Stands for an unknown price where candidates are compared: dearer than any known one.
_UNKNOWN_COST = 1e12


def embodied_g_per_hour(search: ResolvedSearch) -> FloatArray:
    """Making of each accelerator with its share of the server, over its life [g/h]."""
    around = search.around.infrastructure
    known = [around.embodied_kgco2e(entry.value) for entry in search.accelerators]
    # Where nobody has published a figure, the largest known one is taken: never the best guess.
    most = max((figure.value for figure in known if figure is not None), default=0.0)
    life_h = around.hardware_life_years.value * HOURS_PER_YEAR
    return np.array(
        [(most if one is None else one.value) * _GRAMS_PER_KG / life_h for one in known]
    )


def _nowhere(count: int, excluded: dict[str, Exclusion]) -> None:
    """Note candidates that no place searched is known to offer."""
    known = excluded.get(_NOT_OFFERED)
    before = 0 if known is None else known.excluded
    excluded[_NOT_OFFERED] = Exclusion(_NOT_OFFERED, None, "-", before + count, None)


#: Name of the exclusion of accelerators that no cloud searched is known to rent out.
_NOT_OFFERED = "offered"


def _combined(
    found: Candidates,
    rows: NDArray[np.intp],
    at: NDArray[np.intp],
    where: Places,
    search: ResolvedSearch,
    hourly: FloatArray,
    excluded: dict[str, Exclusion],
) -> tuple[FloatArray, FloatArray, NDArray[np.intp], NDArray[np.intp]]:
    """Metrics and spreads of rows in places of known factors, within the limits of the place."""
    row, place = np.repeat(rows, len(at)), np.tile(at, len(rows))
    kwh = found.it_wh[row] / _WH_PER_KWH
    offer = found.offer[row]
    carbon = kwh * where.carbon_g_per_kwh[place]
    carbon += found.accelerator_hours[row] * embodied_g_per_hour(search)[offer]
    water = kwh * where.water_l_per_kwh[place]
    cost = found.accelerator_hours[row] * hourly[offer]
    per_1k = _PER_1K_TOKENS / search.demand.output_tokens
    chosen = found.chosen(row)
    metrics = np.column_stack(
        [
            filled(chosen, search),
            latency_metric(chosen, search),
            carbon * per_1k,
            water * per_1k,
            cost * per_1k,
        ]
    )
    energy = np.log(found.it_wh_spread[row])
    spreads = np.column_stack(
        [
            found.memory_spread[row],
            found.latency_spread[row],
            np.exp(np.hypot(energy, np.log(where.carbon_spread[place]))),
            np.exp(np.hypot(energy, np.log(where.water_spread[place]))),
            np.ones(len(row)),
        ]
    )
    alive = np.ones(len(row), dtype=bool)
    yearly = yearly_requests(found, row, search)
    limits: LimitsRequest = search.limits
    for name, unit, values, limit in (
        ("kgco2e_per_year", "kgCO2e/year", carbon * yearly / _GRAMS_PER_KG, limits.kgco2e_per_year),
        ("l_per_year", "L/year", water * yearly, limits.l_per_year),
    ):
        if limit is not None:
            alive &= _within(name, unit, values, limit, alive, excluded)
    return metrics[alive], spreads[alive], row[alive], place[alive]


def yearly_requests(
    found: Candidates, row: NDArray[np.intp], search: ResolvedSearch
) -> FloatArray | float:
    """Requests of a year: those that arrive, or as many as the deployment carries."""
    seconds = HOURS_PER_YEAR * 3600.0
    rate = search.demand.requests_per_s
    return rate * seconds if rate is not None else found.requests_per_s[row] * seconds


def _comparable(metrics: FloatArray) -> FloatArray:
    """Metrics with unknown costs as the dearest."""
    known = metrics.copy()
    cost = METRICS.index("cost")
    known[:, cost] = np.nan_to_num(known[:, cost], nan=_UNKNOWN_COST)
    return known
