"""Use case: what to train on, where, and how, by deadline and budget, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import EstimateWarning
from service.core.performance.training.run import SECONDS_PER_DAY
from service.core.search.kernels import trains
from service.core.search.training_candidates import TrainingCandidates
from service.core.search.workloads import Metric
from service.estimation.answers import Parallelism
from service.estimation.comparison.figures import run_figures
from service.estimation.costs.price_remarks import ON_DEMAND_AT_ONCE
from service.estimation.detail import WHOLE, Detail
from service.estimation.recommendations.against import TRAINING_PLACES
from service.estimation.recommendations.answers import ImpliedLimit
from service.estimation.recommendations.limit_tables import RUN_LIMITS
from service.estimation.recommendations.placement import SearchResult
from service.estimation.recommendations.ranked import Subject
from service.estimation.recommendations.recommendation import Plan, recommendation
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest
from service.estimation.recommendations.training.search import search_training_candidates
from service.estimation.recommendations.training.space import (
    LONGEST_RUN_MONTHS,
    ResolvedTrainingSearch,
    resolve_training_search,
    within_searched,
)
from service.estimation.recommendations.training.verification import verified_run
from service.estimation.recommendations.verification import own_plan
from service.estimation.training.estimate import training_estimate
from service.estimation.training.lengths import length_warnings
from service.estimation.writing import written

#: Units of the metrics, of which less is better.
TRAINING_UNITS: Mapping[Metric, str] = {
    "headroom": "share of memory used",
    "latency": "s",
    "carbon": "kgCO2e",
    "water": "L, weighted by water stress",
    "cost": "USD",
    "energy": "kWh",
}


def training_recommendation_answer(
    request: TrainingRecommendationRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> dict[str, Any]:
    """The best run for each priority, the front it stands on, and what excluded the others.

    Raises
    ------
    Rejected
        If the request refers to unknown things, or no known metric has any weight.
    """
    given, asked = request.trained, request
    search, found, request = _searched(within_searched(request, snapshot), snapshot)
    placed = found.placed
    subject = Subject(
        units=TRAINING_UNITS,
        describe=lambda at: _description(at, search, found),
        verify=lambda candidate, at: verified_run(
            candidate,
            int(placed.offer[at]),
            request.asked_models[placed.model[at]],
            search,
            request,
            snapshot,
        ),
        describe_miss=lambda model, row: _miss(model, row, search, found),
        describe_small=lambda model, small: _missing(
            model, small.offer, small.choice, small.layout, search
        ),
    )
    baseline = own_plan(request.baseline, training_estimate, RUN_LIMITS, search.limits, snapshot)
    answer = recommendation(
        search,
        found,
        subject,
        Plan(baseline, TRAINING_PLACES, run_figures),
        [
            *length_warnings(given, request.trained.sequence_length),
            *_warnings(request, search),
            *_offload_warnings(given.offload, request),
        ],
        snapshot,
        implied_run_limits(asked, search, request),
        detail,
    )
    return answer | {"global_batch_size": search.demand.global_batch_sequences}


def on_demand(request: TrainingRecommendationRequest) -> TrainingRecommendationRequest | None:
    """The request with no more accelerators than is had on demand, if nobody says how many.

    None where somebody does, or where hardware is not rented at list prices.
    """
    asked = request.search
    said = {"max_accelerators", "accelerator_counts"} & asked.model_fields_set
    if said or not request.list_prices or not request.limits.implied:
        return None
    fewer = asked.model_copy(update={"max_accelerators": ON_DEMAND_AT_ONCE})
    return request.model_copy(update={"search": fewer})


def implied_run_limits(
    request: TrainingRecommendationRequest,
    search: ResolvedTrainingSearch,
    searched: TrainingRecommendationRequest,
) -> list[ImpliedLimit]:
    """How long runs are worth it, where nobody says how long one may take; and what is had."""
    found: list[ImpliedLimit] = []
    most = searched.search.max_accelerators
    if most < request.search.max_accelerators:
        told = (
            f"no more than {most} accelerators, as more are rarely had on demand and these meet "
            "your limits; give search.max_accelerators for more, or limits.days for a run that "
            "takes them"
        )
        found.append(
            {
                "field": "search.max_accelerators",
                "value": float(most),
                "unit": "accelerators",
                "in_words": told,
            }
        )
    days = search.limits.days
    if days is None or request.limits.days is not None:
        return found
    told = (
        f"runs of more than {LONGEST_RUN_MONTHS:g} months are overtaken by later ones on better "
        "hardware and with better methods; give limits.days for another limit, or limits.implied: "
        "false for none"
    )
    return [
        *found,
        {"field": "limits.days", "value": days, "unit": "days", "in_words": told},
    ]


def _leaves_fp8_out(request: TrainingRecommendationRequest, search: ResolvedTrainingSearch) -> bool:
    """Whether weights could be trained in fp8, too, on something that is searched."""
    if "full" not in request.trained.methods or request.search.precisions is not None:
        return False
    tried = {one.precision.weights.id for space in search.spaces for one in space.variants}
    return "fp8" not in tried and any(
        trains(entry.value, "fp8") for entry in search.context.accelerators
    )


def _sends_to_experts(search: ResolvedTrainingSearch) -> bool:
    """Whether runs are searched in which experts are on other accelerators."""
    return any(layout.expert > 1 for space in search.spaces for layout in space.layouts)


def _searched(
    request: TrainingRecommendationRequest, snapshot: CatalogSnapshot
) -> tuple[ResolvedTrainingSearch, SearchResult[TrainingCandidates], TrainingRecommendationRequest]:
    """What was searched and found.

    No more than is had on demand, where that meets the limits and nobody says how many; and states
    outside accelerators where nothing fits without.
    """
    fewer = on_demand(request)
    if fewer is not None:
        search = resolve_training_search(fewer, snapshot)
        found = search_training_candidates(search)
        if len(found.placed.row) and not search.context.sites.bought_only:
            return search, found, fewer
    search = resolve_training_search(request, snapshot)
    found = search_training_candidates(search)
    if request.trained.offload is not None or any(
        bool(np.any(rows.headroom_ratio >= 0.0)) for rows in found.by_model
    ):
        return search, found, request
    run = request.trained.model_copy(update={"offload": True})
    request = request.model_copy(update={"training": run, "run": None})
    search = resolve_training_search(request, snapshot)
    return search, search_training_candidates(search), request


def _warnings(
    request: TrainingRecommendationRequest, search: ResolvedTrainingSearch
) -> list[EstimateWarning]:
    """What the caller left open and may want to say."""
    found: list[EstimateWarning] = []
    batch = search.demand.global_batch_sequences
    length = request.trained.sequence_length
    if request.trained.global_batch_size is None:
        found.append(
            EstimateWarning(
                "global_batch_assumed",
                f"{batch} sequences per step ({batch * length} tokens) are assumed. This decides "
                "how many accelerators can share a step: state your own",
            )
        )
    if _leaves_fp8_out(request, search):
        found.append(
            EstimateWarning(
                "fp8_not_tried",
                "weights are trained in bf16, as in most published runs; fp8 is faster on some of "
                "the accelerators searched, but few publish runs of it (DeepSeek-V3's is one): "
                'give search.precisions ["bf16", "fp8"] to compare both',
            )
        )
    if request.trained.expert_overlap_ratio is None and _sends_to_experts(search):
        found.append(
            EstimateWarning(
                "expert_messages_as_usual",
                "messages to experts on other accelerators are assumed to overlap with computation "
                "as people have the framework do it, and otherwise no more than other messages do; "
                "if yours are sent once per machine, or while another micro-batch is computed "
                "(DeepEP, DualPipe), give training.expert_dispatch and "
                "training.expert_overlap_ratio",
            )
        )
    if len(request.trained.methods) > 1 or len(request.trained.optimizers) > 1:
        found.append(
            EstimateWarning(
                "methods_learn_differently",
                "methods and optimizers are compared by memory, time and footprint for the same "
                "tokens, but they do not learn the same from them",
            )
        )
    return found


def _offload_warnings(
    given: bool | None, request: TrainingRecommendationRequest
) -> list[EstimateWarning]:
    """That states were put elsewhere because nothing fitted, if so."""
    if given is not None or not request.trained.offload:
        return []
    return [
        EstimateWarning(
            "offload_tried",
            "nothing fits with optimizer states on the accelerators: states in host memory, on "
            "drives and in the memory tier that you name were tried, too",
        )
    ]


def _description(
    at: int, search: ResolvedTrainingSearch, found: SearchResult[TrainingCandidates]
) -> dict[str, Any]:
    """A candidate as the search sees it."""
    placed = found.placed
    model, row = placed.model[at], placed.row[at]
    rows, space = found.by_model[model], search.spaces[model]
    variant, layout = space.variants[rows.variant[row]], space.layouts[rows.layout[row]]
    settings = variant.settings
    return {
        "precision": {
            "weights": variant.precision.weights.id,
            "activations": variant.precision.activations.id,
        },
        "parallelism": written(layout, Parallelism),
        "training": {
            "method": settings.method,
            "optimizer": settings.optimizer,
            "zero_stage": settings.zero_stage,
            "activation_checkpointing": settings.activation_checkpointing,
            "micro_batch_size": int(rows.micro_batch_size[row]),
            "gradient_accumulation_steps": int(rows.gradient_accumulation_steps[row]),
            "pipeline_schedule": settings.pipeline_schedule,
            "virtual_stages": settings.virtual_stages,
            "offload_optimizer": settings.offload.optimizer,
        },
        "headroom_ratio": float(rows.headroom_ratio[row]),
        "step_s": float(rows.step_s[row]),
        "days": float(rows.wall_s[row] / SECONDS_PER_DAY),
        "mfu_ratio": float(rows.mfu_ratio[row]),
        "accelerator_hours": float(rows.accelerator_hours[row]),
    }


def _miss(
    model: int, row: int, search: ResolvedTrainingSearch, found: SearchResult[TrainingCandidates]
) -> dict[str, Any]:
    """A row of the model at a position, which misses limits."""
    rows = found.by_model[model]
    return _missing(
        *(model, int(rows.offer[row]), int(rows.variant[row]), int(rows.layout[row]), search)
    )


def _missing(
    model: int, offer: int, variant_at: int, layout_at: int, search: ResolvedTrainingSearch
) -> dict[str, Any]:
    """What misses limits, by its positions in the search."""
    space = search.spaces[model]
    variant, layout = space.variants[variant_at], space.layouts[layout_at]
    return {
        "model": search.models[model].id,
        "accelerator": search.context.accelerators[offer].id,
        "accelerator_count": layout.accelerator_count,
        "weights": variant.precision.weights.id,
        "method": variant.settings.method,
        "zero_stage": variant.settings.zero_stage,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
    }
