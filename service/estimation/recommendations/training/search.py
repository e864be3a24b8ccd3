"""All training candidates of a search in all places, cut down to those that nothing beats."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from service.core.elementwise import FloatArray
from service.core.interval import exact
from service.core.memory.inference.tier_costs import provided_bytes
from service.core.memory.training.settings import OffloadTier
from service.core.memory.transfers import of_size
from service.core.performance.training.run import SECONDS_PER_DAY
from service.core.search.progress import part_of
from service.core.search.rows import LeftOut
from service.core.search.training_candidates import TrainingCandidates, training_candidates
from service.core.search.workloads import METRICS, Metric
from service.estimation.costs.estimate import run_shares
from service.estimation.progress import watcher
from service.estimation.recommendations.candidate_sets import CandidateTable
from service.estimation.recommendations.limit_tables import RUN_LIMITS
from service.estimation.recommendations.limits import CandidateFigures
from service.estimation.recommendations.metrics import MetricRows, Units
from service.estimation.recommendations.placement import SearchResult, search_result
from service.estimation.recommendations.search import EVALUATING_RATIO
from service.estimation.recommendations.training.space import ResolvedTrainingSearch

_KG_PER_GRAM = 1e-3

#: Amounts below which nobody tells runs apart: a day, by which capacity for training is reserved
#: (AWS, EC2 Capacity Blocks for ML: durations in whole days); a gram, a millilitre, a cent, a
#: watt-hour.
_LEAST: Mapping[Metric, float] = MappingProxyType(
    {
        "headroom": 1e-3,
        "latency": SECONDS_PER_DAY,
        "carbon": 1e-3,
        "water": 1e-3,
        "cost": 1e-2,
        "energy": 1e-3,
    }
)
_UNITS = Units(_KG_PER_GRAM, 1.0, 1.0, 1.0, np.array([_LEAST[metric] for metric in METRICS]))


def search_training_candidates(search: ResolvedTrainingSearch) -> SearchResult[TrainingCandidates]:
    """Search everything.

    Returns
    -------
    Found
        Whose ``placed`` is empty if nothing meets the limits. Its metrics: share of memory filled
        beyond the target of headroom [-], time of the run [s], and its carbon [kg], water weighted
        by stress [L], cost [USD] and energy [kWh].
    """
    tables: list[tuple[TrainingCandidates, LeftOut, CandidateTable]] = []
    told, each = watcher(), EVALUATING_RATIO / len(search.models)
    for at, (entry, space) in enumerate(zip(search.models, search.spaces, strict=True)):
        of_model = part_of(told, at * each, (at + 1) * each)
        rows, left = training_candidates(
            entry.value, space, search.demand, search.environment, of_model
        )
        tables.append((rows, left, run_table(rows, at, search)))
    told(EVALUATING_RATIO)
    return search_result(tables, search, _UNITS)


def _beside(rows: TrainingCandidates, tier: OffloadTier | None, name: str) -> FloatArray:
    """What an accelerator's part of a memory tier beside its machine comes to, by the gigabyte."""
    per_gb = None if tier is None else getattr(tier.worth, name)
    if tier is None or per_gb is None or not tier.beside_machine:
        return np.zeros(len(rows))
    held = provided_bytes(tier.capacity_bytes, exact(rows.tier_bytes)).value
    found: FloatArray = np.where(rows.tier_bytes > 0.0, of_size(per_gb, held).value, 0.0)
    return found


def run_table(rows: TrainingCandidates, at: int, search: ResolvedTrainingSearch) -> CandidateTable:
    """Runs of the model at a position, as limits and comparisons see them."""
    tensor = np.array([one.tensor for one in search.spaces[at].layouts], dtype=np.intp)
    site = search.context.site
    hosts = np.array(
        [one.value.platform.accelerators_of_a_host for one in search.context.accelerators]
    )
    together = run_shares(rows.accelerators, hosts[rows.offer])
    return CandidateTable(
        MetricRows(
            offer=rows.offer,
            accelerators=rows.accelerators,
            sharing=np.maximum(tensor[rows.layout], together).astype(np.intp),
            filled=1.0 - np.minimum(rows.headroom_ratio, search.kind.headroom_target_ratio),
            memory_spread=rows.memory_spread_ratio,
            seconds=rows.wall_s,
            seconds_spread=rows.wall_spread_ratio,
            it_wh=rows.it_wh,
            it_wh_spread=rows.it_wh_spread_ratio,
            accelerator_hours=rows.accelerator_hours,
            accelerator_hours_spread=rows.wall_spread_ratio,
            beside_usd=_beside(rows, search.tier, "price_usd_per_gb"),
            beside_kgco2e=_beside(rows, search.tier, "embodied_kgco2e_per_gb"),
        ),
        CandidateFigures(
            sequence_tokens=np.full(len(rows), search.demand.sequence_tokens),
            headroom_ratio=rows.headroom_ratio,
            host_memory_bytes=rows.host_bytes,
            tier_memory_bytes=rows.tier_bytes,
            days=rows.wall_s / SECONDS_PER_DAY,
            it_power_w=rows.power_w,
            rack_kw=None if site is None else site.rack_kw[rows.offer],
            noise_db=None if site is None else site.noise_db(rows.offer, rows.accelerators),
        ),
        np.ones(len(rows)),
        RUN_LIMITS,
        search.bounds(search.models[at].value),
    )
