"""A chosen run, estimated once more as a single one, and held to the limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.recommendations.choices import (
    Verified,
    first_known,
    limit_row,
    verified_estimate,
)
from service.estimation.recommendations.training.requests import (
    TrainingRecommendationRequest,
    settings_of,
)
from service.estimation.recommendations.training.space import ResolvedTrainingSearch
from service.estimation.rejection import Rejected
from service.estimation.requests import (
    CostRequest,
    ModelReference,
    ParallelismRequest,
    PrecisionRequest,
)
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest, TrainingOffloadRequest


def verified_run(
    candidate: Mapping[str, Any],
    model: ModelReference,
    search: ResolvedTrainingSearch,
    request: TrainingRecommendationRequest,
    snapshot: CatalogSnapshot,
) -> Verified | None:
    """The candidate as a single estimate, or None where that misses a limit."""
    try:
        estimate = training_estimate(_request(candidate, model, search, request), snapshot)
    except Rejected:
        return None
    return verified_estimate(estimate, _limits(estimate, candidate, search))


def _request(
    candidate: Mapping[str, Any],
    model: ModelReference,
    search: ResolvedTrainingSearch,
    request: TrainingRecommendationRequest,
) -> EstimateTrainingRequest:
    chosen = candidate["training"]
    settings = settings_of(request.run).model_copy(
        update={name: chosen[name] for name in chosen if name != "offload_optimizer"}
        | {
            "offload": TrainingOffloadRequest(
                optimizer=chosen["offload_optimizer"],
                host_memory_bytes=request.run.host_memory_bytes,
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
        training=settings,
        cost=CostRequest(
            usd_per_accelerator_hour=search.context.prices.own_usd_per_hour.get(
                candidate["accelerator"]
            )
        ),
        catalog_revision=request.catalog_revision,
        as_of=request.as_of,
    )


def _limits(
    estimate: Mapping[str, Any], candidate: Mapping[str, Any], search: ResolvedTrainingSearch
) -> list[dict[str, Any]]:
    """Every limit with the value that stands against it."""
    limits, memory = search.limits, estimate["memory"]
    run = estimate["latency"]["run"]
    whole = (estimate["impacts"] or {}).get("run") or {}
    days = first_known(run, ("days",))
    hourly = candidate["usd_per_hour"]
    free = memory["headroom_bytes"]["value"] / memory["capacity_bytes"]
    checks: tuple[tuple[str, float | None, float | None, str], ...] = (
        ("headroom_ratio_at_least", -free, -limits.headroom_ratio_at_least, "-"),
        ("days", days, limits.days, "d"),
        ("usd", None if None in (hourly, days) else hourly * days * 24.0, limits.usd, "USD"),
        (
            "kgco2e",
            first_known(whole.get("carbon"), ("total_gco2e", "operational_location_gco2e"), 1e-3),
            limits.kgco2e,
            "kgCO2e",
        ),
        ("litres", first_known(whole.get("water"), ("total_l", "off_site_l")), limits.litres, "L"),
        ("it_power_w", first_known(estimate["energy"], ("it_power_w",)), limits.it_power_w, "W"),
    )
    return [limit_row(*check) for check in checks if check[2] is not None]
