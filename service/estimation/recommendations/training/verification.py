"""A chosen run, estimated once more as a single one, and held to the limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.memory.training.settings import Place
from service.core.performance.training.run import SECONDS_PER_DAY
from service.estimation.costs.estimate import run_shares
from service.estimation.inference.echo import power_limit
from service.estimation.launching.answers import RunStart
from service.estimation.launching.training import run_start_of
from service.estimation.recommendations.limit_tables import RUN_LIMITS, free_ratio
from service.estimation.recommendations.training.requests import (
    RunRequest,
    TrainingRecommendationRequest,
    settings_of,
    tier_offload_of,
)
from service.estimation.recommendations.training.space import ResolvedTrainingSearch
from service.estimation.recommendations.verification import (
    Verified,
    asked_cost,
    asked_rules,
    estimate_metrics,
    held_candidate,
    prices_told,
    verified_estimate,
)
from service.estimation.references import ModelReference
from service.estimation.rejection import Rejected
from service.estimation.requests import ParallelismRequest, PrecisionRequest
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest, TrainingOffloadRequest
from service.estimation.training.shard_groups import GROUPED


def verified_run(
    candidate: Mapping[str, Any],
    offer: int,
    model: ModelReference,
    search: ResolvedTrainingSearch,
    request: TrainingRecommendationRequest,
    snapshot: CatalogSnapshot,
) -> Verified | None:
    """The candidate as a single estimate, or None where that misses a limit."""
    asked = _request(candidate, model, search, request, snapshot)
    try:
        estimate = training_estimate(asked, snapshot)
    except Rejected:
        return None
    limits = held_candidate(candidate, offer, search, estimate, RUN_LIMITS)
    speed, free = estimate["latency"], free_ratio(estimate, candidate)
    run, impacts = speed.get("run"), estimate["impacts"]
    days = None if run is None else run["days"]
    work = None if impacts is None else impacts.get("run")
    hours = None if work is None else work["accelerator_hours"]
    if days is None or work is None or hours is None:
        return None
    figures = {
        "headroom_ratio": free,
        "step_s": speed["step_s"]["value"],
        "days": days["value"],
        "mfu_ratio": speed["mfu_ratio"]["value"],
        "accelerator_hours": hours["value"],
        **prices_told(estimate, candidate),
    }
    time_s = (days["value"] * SECONDS_PER_DAY, days["high"] * SECONDS_PER_DAY)
    accelerator = search.context.accelerators[offer]
    host = accelerator.value.platform.accelerators_of_a_host
    together = float(run_shares(candidate["accelerator_count"], host))
    sharing = max(candidate["parallelism"]["tensor"], together)
    metrics = estimate_metrics(search.kind, candidate, offer, sharing, free, estimate, time_s, work)
    return verified_estimate(
        asked,
        estimate,
        limits,
        figures,
        metrics,
        accelerator,
        lambda: {"start": _start(estimate["deployment"], candidate, offer, search, snapshot)},
    )


def _start(
    run: Mapping[str, Any],
    candidate: Mapping[str, Any],
    offer: int,
    search: ResolvedTrainingSearch,
    snapshot: CatalogSnapshot,
) -> RunStart | None:
    """How to start a run as it was estimated."""
    model = next(one.value for one in search.models if one.id == candidate["model"])
    return run_start_of(
        run["training"]["framework"],
        run,
        model.layer_count,
        search.demand.global_batch_sequences,
        search.context.accelerators[offer].value,
        snapshot,
    )


def _offload(place: Place, run: RunRequest) -> TrainingOffloadRequest:
    """Where a candidate keeps optimizer states."""
    return tier_offload_of(run) if place == "tier" else TrainingOffloadRequest(optimizer=place)


def _request(
    candidate: Mapping[str, Any],
    model: ModelReference,
    search: ResolvedTrainingSearch,
    request: TrainingRecommendationRequest,
    snapshot: CatalogSnapshot,
) -> EstimateTrainingRequest:
    chosen = candidate["training"]
    groups = {}
    untold = snapshot.find("engines", request.trained.framework).value.recipes.unless_told
    if GROUPED in untold and request.trained.data_parallel_shard_degree is None:
        # Searches divide among all ranks what nobody says is divided among fewer.
        groups[GROUPED] = candidate["parallelism"]["data"]
    settings = settings_of(request.trained).model_copy(
        update={name: chosen[name] for name in chosen if name != "offload_optimizer"}
        | groups
        | {
            "offload": _offload(chosen["offload_optimizer"], request.trained).model_copy(
                update={"host_memory_bytes": request.trained.host_memory_bytes}
            )
        }
    )
    return EstimateTrainingRequest(
        model=model,
        precision=PrecisionRequest(**candidate["precision"]),
        accelerator=candidate["accelerator"],
        accelerator_count=candidate["accelerator_count"],
        parallelism=ParallelismRequest(**candidate["parallelism"]),
        region=candidate["region"],
        platform=request.platform,
        power_limit_w=next(
            power_limit(one.value)
            for one in search.context.accelerators
            if one.id == candidate["accelerator"]
        ),
        facility=request.facility,
        training=settings,
        cost=asked_cost(request, candidate, search.context),
        compliance=asked_rules(search.limits.compliance),
        catalog_revision=request.catalog_revision,
        as_of=request.as_of,
    )
