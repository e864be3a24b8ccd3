"""Use case: what to buy or rent, where, and configured how, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import EstimateWarning
from service.core.performance.kernels import met_activations
from service.core.search.inference_candidates import InferenceCandidates
from service.core.search.workloads import Metric
from service.estimation.answers import Parallelism
from service.estimation.comparison.figures import compared_figures
from service.estimation.detail import WHOLE, Detail
from service.estimation.inference.estimate import inference_estimate
from service.estimation.recommendations.against import INFERENCE_PLACES
from service.estimation.recommendations.answers import ImpliedLimit
from service.estimation.recommendations.inference.search import search_candidates
from service.estimation.recommendations.inference.space import ResolvedSearch, resolve_search
from service.estimation.recommendations.inference.verification import verified
from service.estimation.recommendations.limit_tables import DEPLOYMENT_LIMITS
from service.estimation.recommendations.placement import SearchResult
from service.estimation.recommendations.ranked import Subject
from service.estimation.recommendations.recommendation import Plan, recommendation
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.recommendations.verification import own_plan
from service.estimation.requests import SpeculativeRequest
from service.estimation.writing import written

#: Units of the metrics, of which less is better.
UNITS: Mapping[Metric, str] = {
    "headroom": "share of memory used",
    "latency": "s",
    "carbon": "gCO2e/1k output tokens",
    "water": "L/1k output tokens, weighted by water stress",
    "cost": "USD/1M output tokens",
    "energy": "Wh/1k output tokens",
}


def recommendation_answer(
    request: RecommendationRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> dict[str, Any]:
    """The best choice for each priority, the front it stands on, and what excluded the others.

    Raises
    ------
    Rejected
        If the request refers to unknown things, or asks for a kind that is decided elsewhere.
    """
    request, search, found, warnings = _searched(request, snapshot)
    placed = found.placed
    subject = Subject(
        units=UNITS,
        describe=lambda at: _description(at, search, found),
        verify=lambda candidate, at: verified(
            candidate,
            int(placed.offer[at]),
            search.tried[placed.model[at]].reference,
            _draft(at, search, found),
            search,
            request,
            snapshot,
        ),
        describe_miss=lambda model, row: _miss(model, row, search, found),
        describe_small=lambda model, small: _missing(
            *(model, small.offer, search.spaces[model].layouts[small.layout].least_accelerators),
            *(small.choice, small.layout, search),
        ),
    )
    baseline = own_plan(
        request.baseline, inference_estimate, DEPLOYMENT_LIMITS, search.limits, snapshot
    )
    answer = recommendation(
        search,
        found,
        subject,
        Plan(baseline, INFERENCE_PLACES, compared_figures),
        warnings,
        snapshot,
        implied_limits(request, search),
        detail,
    )
    by_rate = search.demand.requests_per_s is not None
    answer["searched"]["reserve_ratio"] = search.demand.reserve_ratio if by_rate else None
    return answer


def _searched(
    request: RecommendationRequest, snapshot: CatalogSnapshot
) -> tuple[
    RecommendationRequest, ResolvedSearch, SearchResult[InferenceCandidates], list[EstimateWarning]
]:
    """What was searched and found, and what to say of it.

    Without the times that the kind of workload asks for, where nothing keeps them and they alone
    stand in the way: nobody sent them.
    """
    search = resolve_search(request, snapshot)
    found = search_candidates(search)
    times = [one for one in implied_limits(request, search) if one["unit"] == "s"]
    if len(found.placed.row) or not times:
        return request, search, found, []
    limits = request.limits.model_copy(update={"implied": False})
    freed = request.model_copy(update={"limits": limits})
    without = resolve_search(freed, snapshot)
    found_without = search_candidates(without)
    if not len(found_without.placed.row):
        return request, search, found, []
    told = " and ".join(f"{one['field']} of {one['value']:g} s" for one in times)
    message = (
        f"nothing keeps what {search.kind.name} asks for ({told}), so that the choices are those "
        "without: give limits of your own to hold them to"
    )
    return freed, without, found_without, [EstimateWarning("implied_limits_left_out", message)]


def implied_limits(request: RecommendationRequest, search: ResolvedSearch) -> list[ImpliedLimit]:
    """Limits that the kind of workload sets, each with how to remove it."""
    kind, found = search.kind, list[ImpliedLimit]()
    for name, label in (("ttft_s", "time to the first token"), ("tpot_s", "time per output token")):
        most_s = getattr(search.limits, name)
        if most_s is None or getattr(request.limits, name) is not None:
            continue
        told = (
            f"{kind.name} asks for a {label} of at most {most_s:g} s; give limits.{name} for "
            "another, or limits.implied: false for none"
        )
        found.append({"field": f"limits.{name}", "value": most_s, "unit": "s", "in_words": told})
    sites = search.context.sites
    if sites.implied and sites.where is not None:
        told = (
            f"{kind.name} runs on hardware of the kinds {' and '.join(sites.where)}; give "
            "search.where for others, such as cloud"
        )
        found.append(
            {"field": "search.where", "value": list(sites.where), "unit": "", "in_words": told}
        )
    return found


def _shown_draft(requested: SpeculativeRequest | None) -> dict[str, Any] | None:
    if requested is None:
        return None
    model = requested.draft_model
    return {
        "draft_model": model if model is None or isinstance(model, str) else "inline",
        "draft_tokens": requested.draft_tokens,
        "acceptance_ratio": requested.acceptance_ratio,
    }


def _draft(
    at: int, search: ResolvedSearch, found: SearchResult[InferenceCandidates]
) -> SpeculativeRequest | None:
    """How a candidate decodes."""
    placed = found.placed
    return search.drafts[int(found.by_model[placed.model[at]].draft[placed.row[at]])]


def _description(
    at: int, search: ResolvedSearch, found: SearchResult[InferenceCandidates]
) -> dict[str, Any]:
    """A candidate as the search sees it."""
    placed = found.placed
    model, row = placed.model[at], placed.row[at]
    rows, space = found.by_model[model], search.spaces[model]
    precision = space.precisions[rows.precision[row]]
    offer = rows.offer[row]
    return {
        "engine": search.environments[model].serving.engine,
        "precision": {
            "weights": precision.weights.id,
            "kv_cache": precision.kv_cache.id,
            "activations": met_activations(
                precision,
                search.accelerators[offer].value,
                space.accelerators[offer].engine,
            ),
        },
        "weights_from": search.tried[model].origins[precision.weights.id],
        "parallelism": {
            **written(space.layouts[rows.layout[row]], Parallelism),
            "data": int(rows.replicas[row]),
        },
        "concurrency_per_replica": int(rows.concurrency_per_replica[row]),
        "speculative": _shown_draft(search.drafts[rows.draft[row]]),
        "disaggregated": bool(rows.pooled[row]),
        "uses_memory_tiers": bool(rows.spilled[row]),
        "headroom_ratio": float(rows.headroom_ratio[row]),
        "ttft_s": float(rows.ttft_s[row]),
        "tpot_s": float(rows.tpot_s[row]),
    }


def _miss(
    model: int, row: int, search: ResolvedSearch, found: SearchResult[InferenceCandidates]
) -> dict[str, Any]:
    """A row of the model at a position, which misses limits."""
    rows = found.by_model[model]
    return _missing(
        *(model, int(rows.offer[row]), int(rows.accelerators[row])),
        *(int(rows.precision[row]), int(rows.layout[row]), search),
    )


def _missing(
    model: int, offer: int, count: int, precision: int, layout: int, search: ResolvedSearch
) -> dict[str, Any]:
    """What misses limits, by its positions in the search."""
    space = search.spaces[model]
    return {
        "model": search.models[model].id,
        "accelerator": search.accelerators[offer].id,
        "accelerator_count": count,
        "weights": space.precisions[precision].weights.id,
        "tensor": space.layouts[layout].tensor,
        "pipeline": space.layouts[layout].pipeline,
    }
