"""All inference candidates of a search in all places, cut down to those that nothing beats."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.impacts.infrastructure import HOURS_PER_YEAR
from service.core.search.inference_candidates import Candidates, candidates
from service.core.search.rows import LeftOut
from service.estimation.recommendations.exclusions import Exclusions
from service.estimation.recommendations.inference.space import ResolvedSearch
from service.estimation.recommendations.placement import (
    CandidateMetrics,
    CandidateSet,
    ImpactTotals,
    LimitCheck,
    SearchResult,
    place_candidates,
    rows_within,
)

_GRAMS_PER_KG = 1000.0
_PER_1K_TOKENS = 1000.0


def search_candidates(search: ResolvedSearch) -> SearchResult[Candidates]:
    """Search everything.

    Returns
    -------
    Found
        Whose ``placed`` is empty if nothing meets the limits. Its metrics: share of memory filled
        beyond the target of headroom [-], latency [s], carbon [g/1k output tokens], water
        [L/1k], cost [USD/1k].
    """
    by_model: list[Candidates] = []
    left_out: list[LeftOut] = []
    candidate_sets: list[CandidateSet] = []
    excluded = Exclusions()
    for at, (entry, space) in enumerate(zip(search.models, search.spaces, strict=True)):
        found, left = candidates(entry.value, space, search.demand, search.around)
        by_model.append(found)
        left_out.append(left)
        candidate_sets.append(_candidate_set(found, left, at, search, excluded))
    per_1k = _PER_1K_TOKENS / search.demand.output_tokens
    return SearchResult(
        by_model=tuple(by_model),
        left_out=tuple(left_out),
        placed=place_candidates(candidate_sets, search.context, (per_1k, per_1k, per_1k), excluded),
        searched=sum(len(found) for found in by_model),
        exclusions=excluded.all(),
    )


def latency_metric(found: Candidates, search: ResolvedSearch) -> FloatArray:
    """What users wait for: a task of an agent, else one request [s]."""
    calls = search.demand.calls_per_task if search.kind.id == "agentic" else 1
    return found.e2e_s * calls


def filled(found: Candidates, search: ResolvedSearch) -> FloatArray:
    """Share of memory filled, no better below what the kind asks to stay free [-]."""
    return 1.0 - np.minimum(found.headroom_ratio, search.kind.headroom_target_ratio)


def _candidate_set(
    found: Candidates, left: LeftOut, at: int, search: ResolvedSearch, excluded: Exclusions
) -> CandidateSet:
    limits, demand = search.limits, search.demand
    longest = search.most_tokens(search.models[at].value)
    tokens = np.full(len(found), demand.input_tokens + demand.output_tokens)
    tensor = np.array([one.tensor for one in search.spaces[at].layouts], dtype=np.intp)
    yearly = _yearly_requests(found, search)

    def hourly_limits(_: NDArray[np.intp], usd_per_hour: FloatArray) -> Iterable[LimitCheck]:
        yield ("usd_per_hour", "USD/h", np.nan_to_num(usd_per_hour, nan=inf), limits.usd_per_hour)

    def limits_of(totals: ImpactTotals) -> Iterable[LimitCheck]:
        times = yearly[totals.rows]
        kilograms = totals.carbon_g * times / _GRAMS_PER_KG
        yield ("kgco2e_per_year", "kgCO2e/year", kilograms, limits.kgco2e_per_year)
        yield ("l_per_year", "L/year", totals.water_l * times, limits.l_per_year)

    row_indices = rows_within(
        (
            ("context_length", "tokens", tokens, longest),
            (
                "headroom_ratio_at_least",
                "-",
                -found.headroom_ratio,
                -limits.headroom_ratio_at_least,
            ),
            ("ttft_s", "s", found.ttft_s, limits.ttft_s),
            ("tpot_s", "s", found.tpot_s, limits.tpot_s),
            ("e2e_s", "s", found.e2e_s, limits.e2e_s),
            ("task_s", "s", found.e2e_s * demand.calls_per_task, limits.task_s),
            ("it_power_w", "W", found.power_w, limits.it_power_w),
        ),
        len(found),
        excluded,
    )
    excluded.left_out(left)
    metrics = CandidateMetrics(
        offer=found.offer,
        accelerators=found.accelerators,
        tensor=tensor[found.layout],
        filled=filled(found, search),
        memory_spread=found.memory_spread,
        seconds=latency_metric(found, search),
        seconds_spread=found.latency_spread,
        it_wh=found.it_wh,
        it_wh_spread=found.it_wh_spread,
        accelerator_hours=found.accelerator_hours,
        accelerator_hours_spread=found.accelerator_hours_spread,
    )
    return CandidateSet(metrics, row_indices, hourly_limits, limits_of)


def _yearly_requests(found: Candidates, search: ResolvedSearch) -> FloatArray:
    """Requests of a year: those that arrive, or as many as the deployment carries."""
    rate = search.demand.requests_per_s
    carried = found.requests_per_s if rate is None else np.full(len(found), rate)
    return carried * (HOURS_PER_YEAR * 3600.0)
