"""A chosen candidate, estimated once more as a single deployment, and held to the limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.number_formats import NUMBER_FORMATS
from service.estimation.inference.echo import power_limit
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.launching.answers import Start
from service.estimation.launching.command import start_of
from service.estimation.recommendations.inference.engines import engine_to_name
from service.estimation.recommendations.inference.space import ResolvedSearch
from service.estimation.recommendations.limit_tables import DEPLOYMENT_LIMITS, free_ratio
from service.estimation.recommendations.requests import RecommendationRequest
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
from service.estimation.requests import (
    DisaggregatedRequest,
    ParallelismRequest,
    PrecisionRequest,
    SpeculativeRequest,
    WorkloadRequest,
)
from service.estimation.resolution import resolve_precision


def verified(
    candidate: Mapping[str, Any],
    offer: int,
    model: ModelReference,
    draft: SpeculativeRequest | None,
    search: ResolvedSearch,
    request: RecommendationRequest,
    snapshot: CatalogSnapshot,
) -> Verified | None:
    """The candidate as a single estimate, or None where that misses a limit."""
    asked = _request(candidate, model, draft, search, request, snapshot)
    try:
        estimate = inference_estimate(asked, snapshot)
    except Rejected:
        return None
    impacts = estimate["impacts"]
    if impacts is None:
        return None
    limits = held_candidate(candidate, offer, search, estimate, DEPLOYMENT_LIMITS)
    latency, free = estimate["latency"], free_ratio(estimate, candidate)
    time = latency["task_s" if search.kind.id == "agentic" else "e2e_s"]
    first = latency["ttft_s"]
    if first is None or time is None:
        # Requests arrive faster than it serves them.
        return None
    figures = {
        "headroom_ratio": free,
        "ttft_s": first["value"],
        **prices_told(estimate, candidate),
    }
    if latency["tpot_s"] is not None:
        figures["tpot_s"] = latency["tpot_s"]["value"]
    metrics = estimate_metrics(
        search.kind,
        candidate,
        offer,
        candidate["parallelism"]["tensor"],
        free,
        estimate,
        (time["value"], time["high"]),
        impacts["per_request"],
    )
    return verified_estimate(
        asked,
        estimate,
        limits,
        figures,
        metrics,
        search.context.accelerators[offer],
        lambda: {"start": _start(estimate, candidate, offer, model, search, snapshot)},
    )


def _start(
    estimate: Mapping[str, Any],
    candidate: Mapping[str, Any],
    offer: int,
    named: ModelReference,
    search: ResolvedSearch,
    snapshot: CatalogSnapshot,
) -> Start | None:
    """How to start a deployment as it was estimated, of the checkpoint that was asked for."""
    accelerator = search.accelerators[offer].value
    model = next(one.value for one in search.models if one.id == candidate["model"])
    release = candidate["weights_from"].get("release")
    shipped = resolve_precision(PrecisionRequest(), model)
    deployment = estimate["deployment"]
    return start_of(
        snapshot.engines[deployment["serving"]["engine"]],
        estimate,
        _checkpoint(named) or deployment["model"],
        deployment["precision"]["weights"] if release else shipped.weights.id,
        model,
        accelerator,
    )


def _checkpoint(named: ModelReference) -> str | None:
    """The repository that a request names a model by, which may be a tuned one of many alike."""
    if not isinstance(named, str) or "/" not in named:
        return None
    return named.removeprefix("hf:")


def _precision(formats: Mapping[str, Any]) -> PrecisionRequest:
    """Formats as requests name them: those of a checkpoint alone have no name."""
    named = formats["weights"] if formats["weights"] in NUMBER_FORMATS else None
    return PrecisionRequest(**{**formats, "weights": named})


def _request(
    candidate: Mapping[str, Any],
    model: ModelReference,
    draft: SpeculativeRequest | None,
    search: ResolvedSearch,
    request: RecommendationRequest,
    snapshot: CatalogSnapshot,
) -> InferenceRequest:
    accelerator = next(
        one.value for one in search.accelerators if one.id == candidate["accelerator"]
    )
    model_type = next(one.value.model_type for one in search.models if one.id == candidate["model"])
    concurrency = search.demand.concurrency or (
        candidate["concurrency_per_replica"] * candidate["parallelism"]["data"]
    )
    return InferenceRequest(
        model=model,
        precision=_precision(candidate["precision"]),
        accelerator=candidate["accelerator"],
        accelerator_count=candidate["accelerator_count"],
        parallelism=ParallelismRequest(**candidate["parallelism"]),
        region=candidate["region"],
        platform=request.platform,
        power_limit_w=power_limit(accelerator),
        facility=request.facility,
        workload=WorkloadRequest(
            **request.workload.model_dump() | {"concurrency": int(concurrency)}
        ),
        serving=request.serving.model_copy(
            update={
                "engine": engine_to_name(
                    request.serving,
                    candidate["engine"],
                    accelerator,
                    candidate["precision"]["weights"],
                    model_type,
                    snapshot,
                ),
                "speculative": draft,
                # What stays empty is not bought.
                "memory_tiers": request.serving.memory_tiers
                if candidate["uses_memory_tiers"]
                else (),
                "disaggregated": DisaggregatedRequest() if candidate["disaggregated"] else None,
            }
        ),
        cost=asked_cost(request, candidate, search.context),
        compliance=asked_rules(search.limits.compliance),
        catalog_revision=request.catalog_revision,
        as_of=request.as_of,
    )
