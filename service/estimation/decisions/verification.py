"""A chosen candidate, estimated once more as a single deployment, and held to the limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.decisions.requests import RecommendationRequest
from service.estimation.decisions.space import ResolvedSearch
from service.estimation.inference import inference_estimate
from service.estimation.inference_requests import InferenceRequest
from service.estimation.rejection import Rejected
from service.estimation.requests import (
    ParallelismRequest,
    PrecisionRequest,
    WorkloadRequest,
)

#: Warnings that say that a figure rests on other hardware's measurements, or on an assumption.
_WEAK = frozenset({"efficiency_not_measured", "power_not_measured", "assumed_figure"})

#: Parts of an estimate that an answer with several of them says once.
_SAID_ONCE = ("catalog_revision", "engine_version", "provenance")


@dataclass(frozen=True, slots=True)
class Verified:
    """The full estimate of a choice, its limits with margins, and how far it can be trusted."""

    estimate: dict[str, Any]
    limits: list[dict[str, Any]]
    confidence: str


def verified(
    candidate: Mapping[str, Any],
    search: ResolvedSearch,
    request: RecommendationRequest,
    snapshot: CatalogSnapshot,
) -> Verified | None:
    """The candidate as a single estimate, or None where that misses a limit.

    The search sizes replicas for steady load; the estimate lets requests arrive at random.
    """
    try:
        estimate = inference_estimate(_request(candidate, search, request), snapshot)
    except Rejected:
        return None
    table = _limits(estimate, candidate, search)
    if any(row["verdict"] == "fail" for row in (*table, *estimate["constraints"])):
        return None
    codes = {warning["code"] for warning in estimate["warnings"]}
    confidence = "low" if len(codes & _WEAK) > 1 else "medium" if codes & _WEAK else "high"
    parts = {name: estimate[name] for name in estimate if name not in _SAID_ONCE}
    return Verified(parts, table, confidence)


def _request(
    candidate: Mapping[str, Any], search: ResolvedSearch, request: RecommendationRequest
) -> InferenceRequest:
    demand = search.demand
    concurrency = demand.concurrency or (
        candidate["concurrency_per_replica"] * candidate["parallelism"]["data"]
    )
    return InferenceRequest(
        model=request.model if request.model is not None else candidate["model"],
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
        serving=request.serving,
        catalog_revision=request.catalog_revision,
        as_of=request.as_of,
    )


def _limits(
    estimate: Mapping[str, Any], candidate: Mapping[str, Any], search: ResolvedSearch
) -> list[dict[str, Any]]:
    """Every limit with the value that stands against it."""
    limits, latency = search.limits, estimate["latency"]
    year = (estimate["impacts"] or {}).get("per_year", {})
    price = search.usd_per_hour.get(candidate["accelerator"])
    memory = estimate["memory"]
    free = memory["headroom_bytes"]["value"] / memory["capacity_bytes"]
    checks: list[tuple[str, float | None, float | None, str]] = [
        ("headroom_ratio_at_least", -free, -limits.headroom_ratio_at_least, "-"),
        ("ttft_s", _value(latency, "ttft_s"), limits.ttft_s, "s"),
        ("tpot_s", _value(latency, "tpot_s"), limits.tpot_s, "s"),
        ("e2e_s", _value(latency, "e2e_s"), limits.e2e_s, "s"),
        ("task_s", _value(latency, "task_s"), limits.task_s, "s"),
        (
            "usd_per_hour",
            None if price is None else price * candidate["accelerator_count"],
            limits.usd_per_hour,
            "USD/h",
        ),
        (
            "kgco2e_per_year",
            _first(year.get("carbon"), ("total_gco2e", "operational_location_gco2e"), 1e-3),
            limits.kgco2e_per_year,
            "kgCO2e/year",
        ),
        (
            "l_per_year",
            _first(year.get("water"), ("total_l", "off_site_l"), 1.0),
            limits.l_per_year,
            "L/year",
        ),
    ]
    return [_row(*check) for check in checks if check[2] is not None]


def _row(name: str, value: float | None, limit: float | None, unit: str) -> dict[str, Any]:
    if value is None or limit is None:
        return {
            "name": name,
            "verdict": "unknown",
            "value": None,
            "limit": limit,
            "margin": None,
            "unit": unit,
        }
    sign = -1.0 if name.endswith("at_least") else 1.0
    return {
        "name": name,
        "verdict": "pass" if value <= limit else "fail",
        "value": sign * value,
        "limit": sign * limit,
        "margin": limit - value,
        "unit": unit,
    }


def _value(answer: Mapping[str, Any], name: str) -> float | None:
    found = answer.get(name)
    return None if found is None else float(found["value"])


def _first(
    figures: Mapping[str, Any] | None, names: tuple[str, ...], factor: float
) -> float | None:
    """The first of the figures that is known: a whole, else its largest part."""
    for name in names:
        found = (figures or {}).get(name)
        if found is not None:
            return float(found["value"]) * factor
    return None
