"""All training candidates of a search in all places, cut down to those that nothing beats."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.performance.training.run import SECONDS_PER_DAY
from service.core.search.rows import LeftOut
from service.core.search.training_candidates import TrainingCandidates, training_candidates
from service.estimation.recommendations.exclusions import Exclusions
from service.estimation.recommendations.placement import (
    CandidateMetrics,
    CandidateSet,
    ImpactTotals,
    LimitCheck,
    SearchResult,
    place_candidates,
    rows_within,
)
from service.estimation.recommendations.training.space import ResolvedTrainingSearch

KG_PER_GRAM = 1e-3

#: Name of the exclusion of runs that failures keep from any progress.
_NEVER_ENDS = "makes_progress"


def search_training_candidates(search: ResolvedTrainingSearch) -> SearchResult[TrainingCandidates]:
    """Search everything.

    Returns
    -------
    Found
        Whose ``placed`` is empty if nothing meets the limits. Its metrics: share of memory filled
        beyond the target of headroom [-], time of the run [s], and its carbon [kg], water [L] and
        cost [USD].
    """
    by_model: list[TrainingCandidates] = []
    left_out: list[LeftOut] = []
    candidate_sets: list[CandidateSet] = []
    excluded = Exclusions()
    for at, (entry, space) in enumerate(zip(search.models, search.spaces, strict=True)):
        found, left = training_candidates(entry.value, space, search.demand, search.around)
        by_model.append(found)
        left_out.append(left)
        candidate_sets.append(_candidate_set(found, left, at, search, excluded))
    return SearchResult(
        by_model=tuple(by_model),
        left_out=tuple(left_out),
        placed=place_candidates(candidate_sets, search.context, (KG_PER_GRAM, 1.0, 1.0), excluded),
        searched=sum(len(found) for found in by_model),
        exclusions=excluded.all(),
    )


def _candidate_set(
    found: TrainingCandidates,
    left: LeftOut,
    at: int,
    search: ResolvedTrainingSearch,
    excluded: Exclusions,
) -> CandidateSet:
    tensor = np.array([one.tensor for one in search.spaces[at].layouts], dtype=np.intp)
    longest = search.models[at].value.max_position_embeddings
    limits = search.limits
    hours = found.accelerator_hours / np.maximum(found.accelerators, 1.0)
    tokens = np.full(len(found), search.demand.sequence_tokens)
    row_indices = rows_within(
        (
            ("context_length", "tokens", tokens, longest),
            (
                "headroom_ratio_at_least",
                "-",
                -found.headroom_ratio,
                -limits.headroom_ratio_at_least,
            ),
            ("host_memory_bytes", "B", found.host_bytes, search.host_memory_bytes),
            ("days", "d", found.wall_s / SECONDS_PER_DAY, limits.days),
            ("it_power_w", "W", found.power_w, limits.it_power_w),
        ),
        len(found),
        excluded,
    )
    ending = np.isfinite(found.wall_s[row_indices])
    if not ending.all():
        excluded.without_threshold(_NEVER_ENDS, int(len(row_indices) - ending.sum()))
        row_indices = row_indices[ending]
    excluded.left_out(left)

    def limits_of(totals: ImpactTotals) -> Iterable[LimitCheck]:
        yield ("kgco2e", "kgCO2e", totals.carbon_g * KG_PER_GRAM, limits.kgco2e)
        yield ("litres", "L", totals.water_l, limits.litres)

    def hourly_limits(rows: NDArray[np.intp], usd_per_hour: FloatArray) -> Iterable[LimitCheck]:
        usd = usd_per_hour * hours[rows]
        yield ("usd", "USD", np.nan_to_num(usd, nan=inf), limits.usd)

    return CandidateSet(
        CandidateMetrics(
            offer=found.offer,
            accelerators=found.accelerators,
            tensor=tensor[found.layout],
            filled=1.0 - np.minimum(found.headroom_ratio, search.kind.headroom_target_ratio),
            memory_spread=found.memory_spread,
            seconds=found.wall_s,
            seconds_spread=found.wall_spread,
            it_wh=found.it_wh,
            it_wh_spread=found.it_wh_spread,
            accelerator_hours=found.accelerator_hours,
            accelerator_hours_spread=found.wall_spread,
        ),
        row_indices,
        hourly_limits,
        limits_of,
    )
