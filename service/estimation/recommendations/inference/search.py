"""All inference candidates of a search in all places, cut down to those that nothing beats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.search.inference_candidates import InferenceCandidates, inference_candidates
from service.core.search.pooled_candidates import pooled_candidates
from service.core.search.rows import LeftOut, joined
from service.core.search.workloads import METRICS, Metric
from service.core.years import HOURS_PER_MONTH, SECONDS_PER_YEAR
from service.estimation.recommendations.exclusions import Exclusions
from service.estimation.recommendations.inference.limits import DEPLOYMENT_LIMITS, DeploymentFigures
from service.estimation.recommendations.inference.space import ResolvedSearch
from service.estimation.recommendations.limits import limit_checks
from service.estimation.recommendations.metrics import ImpactTotals, MetricRows, Units
from service.estimation.recommendations.placement import (
    CandidateSet,
    SearchResult,
    place_candidates,
)

GRAMS_PER_KG = 1000.0
_WH_PER_KWH = 1000.0
_PER_1K_TOKENS = 1000.0
#: Thousands of tokens of the million that costs are told of.
_THOUSANDS = 1000.0
_W_PER_KW = 1000.0

#: Amounts below which nobody tells candidates apart: a microsecond of a request, and a microgram, a
#: microlitre, a microdollar and a microwatt-hour of 1,000 output tokens.
_LEAST: Mapping[Metric, float] = MappingProxyType(
    {
        "headroom": 1e-3,
        "latency": 1e-6,
        "carbon": 1e-6,
        "water": 1e-6,
        "cost": 1e-3,
        "energy": 1e-6,
    }
)


def search_candidates(search: ResolvedSearch) -> SearchResult[InferenceCandidates]:
    """Search everything.

    Returns
    -------
    Found
        Whose ``placed`` is empty if nothing meets the limits. Its metrics: share of memory filled
        beyond the target of headroom [-], latency [s], carbon [g/1k output tokens], water weighted
        by stress [L/1k], cost [USD/1M], energy [Wh/1k].
    """
    by_model: list[InferenceCandidates] = []
    left_out: list[LeftOut] = []
    candidate_sets: list[CandidateSet] = []
    excluded = Exclusions()
    searched = zip(search.models, search.spaces, search.environments, strict=True)
    for at, (entry, space, environment) in enumerate(searched):
        rows, left = inference_candidates(entry.value, space, search.demand, environment)
        if search.pools:
            pooled = pooled_candidates(entry.value, space, search.demand, environment, rows)
            rows = joined(InferenceCandidates, [rows, pooled])
        by_model.append(rows)
        left_out.append(left)
        candidate_sets.append(_candidate_set(rows, left, at, search, excluded))
    units = inference_units(search)
    weights = np.array([search.weights[metric] for metric in METRICS])
    return SearchResult(
        by_model=tuple(by_model),
        left_out=tuple(left_out),
        placed=place_candidates(candidate_sets, search.context, units, weights, excluded),
        searched=sum(len(rows) for rows in by_model),
        exclusions=excluded.all(),
    )


def latency_metric(rows: InferenceCandidates, search: ResolvedSearch) -> FloatArray:
    """What users wait for: a task of an agent, else one request [s]."""
    return rows.task_s if search.kind.id == "agentic" else rows.e2e_s


def deployment_figures(rows: InferenceCandidates, search: ResolvedSearch) -> DeploymentFigures:
    """What limits are held against wherever a candidate stands, but for the memory left free."""
    site = search.context.site
    return DeploymentFigures(
        sequence_tokens=np.full(len(rows), search.demand.sequence_tokens),
        missing_replicas=rows.missing_replicas,
        accelerators=rows.accelerators,
        ttft_s=rows.held_ttft_s,
        tpot_s=rows.held_tpot_s,
        e2e_s=rows.held_e2e_s,
        task_s=rows.task_s,
        it_power_w=rows.power_w,
        rack_kw=None if site is None else site.rack_kw[rows.offer],
        noise_db=None if site is None else site.noise_db(rows.offer, rows.accelerators),
    )


def filled(rows: InferenceCandidates, search: ResolvedSearch) -> FloatArray:
    """Share of memory filled, no better below what the kind asks to stay free [-]."""
    return 1.0 - np.minimum(rows.headroom_ratio, search.kind.headroom_target_ratio)


def metric_rows(rows: InferenceCandidates, at: int, search: ResolvedSearch) -> MetricRows:
    """What candidates of the model at a position are compared by before they stand anywhere."""
    tensor = np.array([one.tensor for one in search.spaces[at].layouts], dtype=np.intp)
    return MetricRows(
        offer=rows.offer,
        accelerators=rows.accelerators,
        tensor=tensor[rows.layout],
        filled=filled(rows, search),
        memory_spread=rows.memory_spread_ratio,
        seconds=latency_metric(rows, search),
        seconds_spread=rows.latency_spread_ratio,
        it_wh=rows.it_wh,
        it_wh_spread=rows.it_wh_spread_ratio,
        accelerator_hours=rows.accelerator_hours,
        accelerator_hours_spread=rows.accelerator_hours_spread_ratio,
    )


def inference_units(search: ResolvedSearch) -> Units:
    """What figures of a request are multiplied by to become metrics."""
    per_1k = _PER_1K_TOKENS / search.demand.output_tokens
    least = np.array([_LEAST[metric] for metric in METRICS])
    return Units(per_1k, per_1k, per_1k * _THOUSANDS, per_1k * _WH_PER_KWH, least)


def _candidate_set(
    rows: InferenceCandidates, left: LeftOut, at: int, search: ResolvedSearch, excluded: Exclusions
) -> CandidateSet:
    yearly = yearly_requests(rows, search)
    bounds = search.bounds(search.models[at].value)

    def within(figures: DeploymentFigures, count: int, places: int = 1) -> NDArray[np.bool_]:
        checks = limit_checks(DEPLOYMENT_LIMITS, figures, bounds)
        return excluded.within_limits(checks, count, places)

    def within_price(
        row_indices: NDArray[np.intp], usd_per_hour: FloatArray, places: int
    ) -> NDArray[np.bool_]:
        figures = DeploymentFigures(
            usd_per_hour=usd_per_hour, usd_per_month=usd_per_hour * HOURS_PER_MONTH
        )
        return within(figures, len(row_indices), places)

    def within_region(row_indices: NDArray[np.intp], totals: ImpactTotals) -> NDArray[np.bool_]:
        times = yearly[row_indices]
        kilograms = totals.carbon_g * times / GRAMS_PER_KG
        hours = rows.accelerator_hours[row_indices] / rows.accelerators[row_indices]
        figures = DeploymentFigures(
            kgco2e_per_year=kilograms,
            l_per_year=totals.water_l * times,
            facility_power_w=totals.facility_kwh / hours * _W_PER_KW,
        )
        return within(figures, len(row_indices))

    figures = replace(deployment_figures(rows, search), headroom_ratio=rows.headroom_ratio)
    row_indices = np.flatnonzero(within(figures, len(rows)))
    excluded.left_out(left)
    metrics = metric_rows(rows, at, search)
    limited = any(bounds.get(name) is not None for name in ("usd_per_hour", "usd_per_month"))
    return CandidateSet(metrics, row_indices, within_price, within_region, limited)


def yearly_requests(rows: InferenceCandidates, search: ResolvedSearch) -> FloatArray:
    """Requests of a year: those that arrive, or as many as the deployment carries."""
    rate = search.demand.requests_per_s
    carried = rows.requests_per_s if rate is None else np.full(len(rows), rate)
    return carried * (SECONDS_PER_YEAR)
