"""All inference candidates of a search in all places, cut down to those that nothing beats."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from service.core.elementwise import FloatArray
from service.core.search.inference_candidates import InferenceCandidates, inference_candidates
from service.core.search.pooled_candidates import pooled_candidates
from service.core.search.progress import part_of
from service.core.search.rows import LeftOut, joined
from service.core.search.workloads import METRICS, Metric
from service.core.years import SECONDS_PER_YEAR
from service.estimation.progress import watcher
from service.estimation.recommendations.candidate_sets import CandidateTable
from service.estimation.recommendations.inference.space import ResolvedSearch
from service.estimation.recommendations.limit_tables import DEPLOYMENT_LIMITS
from service.estimation.recommendations.limits import CandidateFigures
from service.estimation.recommendations.metrics import MetricRows, Units
from service.estimation.recommendations.placement import SearchResult, search_result
from service.estimation.recommendations.search import EVALUATING_RATIO

_WH_PER_KWH = 1000.0
_PER_1K_TOKENS = 1000.0
#: Thousands of tokens of the million that costs are told of.
_THOUSANDS = 1000.0

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
    tables: list[tuple[InferenceCandidates, LeftOut, CandidateTable]] = []
    searched = zip(search.models, search.spaces, search.environments, strict=True)
    told, each = watcher(), EVALUATING_RATIO / len(search.models)
    for at, (entry, space, environment) in enumerate(searched):
        of_model = part_of(told, at * each, (at + 1) * each)
        rows, left = inference_candidates(entry.value, space, search.demand, environment, of_model)
        if search.pools:
            pooled = pooled_candidates(entry.value, space, search.demand, environment, rows)
            rows = joined(InferenceCandidates, [rows, pooled])
        tables.append((rows, left, _table(rows, at, search)))
    told(EVALUATING_RATIO)
    return search_result(tables, search, _units(search))


def latency_metric(rows: InferenceCandidates, search: ResolvedSearch) -> FloatArray:
    """What users wait for: a task of an agent, else one request [s]."""
    return rows.task_s if search.kind.id == "agentic" else rows.e2e_s


def _table(rows: InferenceCandidates, at: int, search: ResolvedSearch) -> CandidateTable:
    """Candidates of the model at a position, as limits and comparisons see them."""
    tensor = np.array([one.tensor for one in search.spaces[at].layouts], dtype=np.intp)
    site, rate = search.context.site, search.demand.requests_per_s
    carried = rows.requests_per_s if rate is None else np.full(len(rows), rate)
    return CandidateTable(
        MetricRows(
            offer=rows.offer,
            accelerators=rows.accelerators,
            sharing=tensor[rows.layout],
            filled=1.0 - np.minimum(rows.headroom_ratio, search.kind.headroom_target_ratio),
            memory_spread=rows.memory_spread_ratio,
            seconds=latency_metric(rows, search),
            seconds_spread=rows.latency_spread_ratio,
            it_wh=rows.it_wh,
            it_wh_spread=rows.it_wh_spread_ratio,
            accelerator_hours=rows.accelerator_hours,
            accelerator_hours_spread=rows.accelerator_hours_spread_ratio,
            beside_usd=rows.beside_usd,
            beside_kgco2e=rows.beside_kgco2e,
        ),
        CandidateFigures(
            sequence_tokens=np.full(len(rows), search.demand.sequence_tokens),
            headroom_ratio=rows.headroom_ratio,
            missing_replicas=rows.missing_replicas,
            accelerators=rows.accelerators,
            ttft_s=rows.held_ttft_s,
            tpot_s=rows.held_tpot_s,
            e2e_s=rows.held_e2e_s,
            task_s=rows.task_s,
            it_power_w=rows.power_w,
            rack_kw=None if site is None else site.rack_kw[rows.offer],
            noise_db=None if site is None else site.noise_db(rows.offer, rows.accelerators),
        ),
        # Those that arrive in a year, or as many as the deployment carries.
        carried * SECONDS_PER_YEAR,
        DEPLOYMENT_LIMITS,
        search.bounds(search.models[at].value),
    )


def _units(search: ResolvedSearch) -> Units:
    """What figures of a request are multiplied by to become metrics."""
    per_1k = _PER_1K_TOKENS / search.demand.output_tokens
    least = np.array([_LEAST[metric] for metric in METRICS])
    return Units(per_1k, per_1k, per_1k * _THOUSANDS, per_1k * _WH_PER_KWH, least)
