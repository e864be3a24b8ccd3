"""A chosen candidate, estimated once more as a single deployment, and held to the limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.choices import (
    Verified,
    first_known,
    limit_row,
    verified_estimate,
)
from service.estimation.recommendations.inference.space import ResolvedSearch
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.rejection import Rejected
from service.estimation.requests import (
    CostRequest,
    ModelReference,
    ParallelismRequest,
    PrecisionRequest,
    SpeculativeRequest,
    WorkloadRequest,
)


def verified(
    candidate: Mapping[str, Any],
    model: ModelReference,
    draft: SpeculativeRequest | None,
    search: ResolvedSearch,
    request: RecommendationRequest,
    snapshot: CatalogSnapshot,
) -> Verified | None:
    """The candidate as a single estimate, or None where that misses a limit.

    The search sizes replicas for steady load; the estimate lets requests arrive at random.
    """
    try:
        estimate = inference_estimate(_request(candidate, model, draft, search, request), snapshot)
    except Rejected:
        return None
    return verified_estimate(estimate, _limits(estimate, candidate, search))


def _request(
    candidate: Mapping[str, Any],
    model: ModelReference,
    draft: SpeculativeRequest | None,
    search: ResolvedSearch,
    request: RecommendationRequest,
) -> InferenceRequest:
    demand = search.demand
    concurrency = demand.concurrency or (
        candidate["concurrency_per_replica"] * candidate["parallelism"]["data"]
    )
    return InferenceRequest(
        model=model,
        precision=PrecisionRequest(**candidate["precision"]),
        accelerator=candidate["accelerator"],
        accelerator_count=candidate["accelerator_count"],
        parallelism=ParallelismRequest(**candidate["parallelism"]),
        region=candidate["region"],
        workload=WorkloadRequest(
            input_tokens=int(demand.input_tokens),
            output_tokens=int(demand.output_tokens),
            concurrency=int(concurrency),
            requests_per_s=demand.requests_per_s,
            prefix_cached_ratio=demand.prefix_cached_ratio,
            calls_per_task=demand.calls_per_task,
        ),
        serving=request.serving.model_copy(update={"speculative": draft}),
        cost=CostRequest(
            usd_per_accelerator_hour=search.context.prices.own_usd_per_hour.get(
                candidate["accelerator"]
            )
        ),
        catalog_revision=request.catalog_revision,
        as_of=request.as_of,
    )


def _limits(
    estimate: Mapping[str, Any], candidate: Mapping[str, Any], search: ResolvedSearch
) -> list[dict[str, Any]]:
    """Every limit with the value that stands against it."""
    limits, latency = search.limits, estimate["latency"]
    year = (estimate["impacts"] or {}).get("per_year", {})
    memory = estimate["memory"]
    free = memory["headroom_bytes"]["value"] / memory["capacity_bytes"]
    if candidate["uses_memory_tiers"]:
        # What lies outside leaves the accelerator full, and no more than that.
        free = max(free, 0.0)
    checks: list[tuple[str, float | None, float | None, str]] = [
        ("headroom_ratio_at_least", -free, -limits.headroom_ratio_at_least, "-"),
        ("ttft_s", _value(latency, "ttft_s"), limits.ttft_s, "s"),
        ("tpot_s", _value(latency, "tpot_s"), limits.tpot_s, "s"),
        ("e2e_s", _value(latency, "e2e_s"), limits.e2e_s, "s"),
        ("task_s", _value(latency, "task_s"), limits.task_s, "s"),
        (
            "usd_per_hour",
            candidate["usd_per_hour"],
            limits.usd_per_hour,
            "USD/h",
        ),
        (
            "kgco2e_per_year",
            first_known(year.get("carbon"), ("total_gco2e", "operational_location_gco2e"), 1e-3),
            limits.kgco2e_per_year,
            "kgCO2e/year",
        ),
        (
            "l_per_year",
            first_known(year.get("water"), ("total_l", "off_site_l"), 1.0),
            limits.l_per_year,
            "L/year",
        ),
        ("it_power_w", first_known(estimate["energy"], ("it_power_w",)), limits.it_power_w, "W"),
    ]
    return [limit_row(*check) for check in checks if check[2] is not None]


def _value(answer: Mapping[str, Any], name: str) -> float | None:
    found = answer.get(name)
    return None if found is None else float(found["value"])
