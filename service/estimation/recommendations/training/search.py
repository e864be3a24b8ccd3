"""All training candidates of a search in all places, cut down to those that nothing beats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.performance.training.run import SECONDS_PER_DAY
from service.core.search.rows import LeftOut
from service.core.search.training_candidates import TrainingCandidates, training_candidates
from service.core.search.workloads import METRICS, Metric
from service.core.years import HOURS_PER_MONTH
from service.estimation.recommendations.exclusions import Exclusions
from service.estimation.recommendations.limits import (
    MAKES_PROGRESS,
    limit_checks,
)
from service.estimation.recommendations.metrics import ImpactTotals, MetricRows, Units
from service.estimation.recommendations.placement import (
    CandidateSet,
    SearchResult,
    place_candidates,
)
from service.estimation.recommendations.training.limits import RUN_LIMITS, RunFigures
from service.estimation.recommendations.training.space import ResolvedTrainingSearch

KG_PER_GRAM = 1e-3
_W_PER_KW = 1000.0

#: Amounts below which nobody tells runs apart: an hour, which renting, loading and a first look at
#: the loss take anyway; a gram, a millilitre, a cent, a watt-hour.
_LEAST: Mapping[Metric, float] = MappingProxyType(
    {
        "headroom": 1e-3,
        "latency": 3600.0,
        "carbon": 1e-3,
        "water": 1e-3,
        "cost": 1e-2,
        "energy": 1e-3,
    }
)
UNITS = Units(KG_PER_GRAM, 1.0, 1.0, 1.0, np.array([_LEAST[metric] for metric in METRICS]))


def search_training_candidates(search: ResolvedTrainingSearch) -> SearchResult[TrainingCandidates]:
    """Search everything.

    Returns
    -------
    Found
        Whose ``placed`` is empty if nothing meets the limits. Its metrics: share of memory filled
        beyond the target of headroom [-], time of the run [s], and its carbon [kg], water weighted
        by stress [L], cost [USD] and energy [kWh].
    """
    by_model: list[TrainingCandidates] = []
    left_out: list[LeftOut] = []
    candidate_sets: list[CandidateSet] = []
    excluded = Exclusions()
    for at, (entry, space) in enumerate(zip(search.models, search.spaces, strict=True)):
        rows, left = training_candidates(entry.value, space, search.demand, search.environment)
        by_model.append(rows)
        left_out.append(left)
        candidate_sets.append(_candidate_set(rows, left, at, search, excluded))
    weights = np.array([search.weights[metric] for metric in METRICS])
    return SearchResult(
        by_model=tuple(by_model),
        left_out=tuple(left_out),
        placed=place_candidates(candidate_sets, search.context, UNITS, weights, excluded),
        searched=sum(len(rows) for rows in by_model),
        exclusions=excluded.all(),
    )


def run_figures(rows: TrainingCandidates, search: ResolvedTrainingSearch) -> RunFigures:
    """What limits are held against wherever a run stands, but for the memory left free."""
    site = search.context.site
    return RunFigures(
        sequence_tokens=np.full(len(rows), search.demand.sequence_tokens),
        host_memory_bytes=rows.host_bytes,
        tier_memory_bytes=rows.tier_bytes,
        days=rows.wall_s / SECONDS_PER_DAY,
        it_power_w=rows.power_w,
        rack_kw=None if site is None else site.rack_kw[rows.offer],
        noise_db=None if site is None else site.noise_db(rows.offer, rows.accelerators),
    )


def metric_rows(rows: TrainingCandidates, at: int, search: ResolvedTrainingSearch) -> MetricRows:
    """What runs of the model at a position are compared by before they stand anywhere."""
    tensor = np.array([one.tensor for one in search.spaces[at].layouts], dtype=np.intp)
    return MetricRows(
        offer=rows.offer,
        accelerators=rows.accelerators,
        tensor=tensor[rows.layout],
        filled=1.0 - np.minimum(rows.headroom_ratio, search.kind.headroom_target_ratio),
        memory_spread=rows.memory_spread_ratio,
        seconds=rows.wall_s,
        seconds_spread=rows.wall_spread_ratio,
        it_wh=rows.it_wh,
        it_wh_spread=rows.it_wh_spread_ratio,
        accelerator_hours=rows.accelerator_hours,
        accelerator_hours_spread=rows.wall_spread_ratio,
    )


def _candidate_set(
    rows: TrainingCandidates,
    left: LeftOut,
    at: int,
    search: ResolvedTrainingSearch,
    excluded: Exclusions,
) -> CandidateSet:
    hours = rows.accelerator_hours / np.maximum(rows.accelerators, 1.0)
    bounds = search.bounds(search.models[at].value)

    def within(figures: RunFigures, count: int, places: int = 1) -> NDArray[np.bool_]:
        return excluded.within_limits(limit_checks(RUN_LIMITS, figures, bounds), count, places)

    figures = replace(run_figures(rows, search), headroom_ratio=rows.headroom_ratio)
    row_indices = np.flatnonzero(within(figures, len(rows)))
    ending = np.isfinite(rows.wall_s[row_indices])
    if not ending.all():
        excluded.without_threshold(MAKES_PROGRESS, int(len(row_indices) - ending.sum()))
        row_indices = row_indices[ending]
    excluded.left_out(left)

    def within_price(
        row_indices: NDArray[np.intp], usd_per_hour: FloatArray, places: int
    ) -> NDArray[np.bool_]:
        figures = RunFigures(
            usd=usd_per_hour * hours[row_indices],
            usd_per_hour=usd_per_hour,
            usd_per_month=usd_per_hour * HOURS_PER_MONTH,
        )
        return within(figures, len(row_indices), places)

    def within_region(row_indices: NDArray[np.intp], totals: ImpactTotals) -> NDArray[np.bool_]:
        figures = RunFigures(
            kgco2e=totals.carbon_g * KG_PER_GRAM,
            litres=totals.water_l,
            facility_power_w=totals.facility_kwh / hours[row_indices] * _W_PER_KW,
        )
        return within(figures, len(row_indices))

    return CandidateSet(
        metric_rows(rows, at, search),
        row_indices,
        within_price,
        within_region,
        any(bounds.get(name) is not None for name in ("usd", "usd_per_hour", "usd_per_month")),
    )
