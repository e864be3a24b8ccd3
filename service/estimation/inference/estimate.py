"""Use cases about inference: memory, latency, and everything in one answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from service.catalog.entries import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.costs import HOURS_PER_YEAR
from service.core.deployment import Region
from service.core.explanation import EstimateWarning, Step
from service.core.interval import Interval
from service.core.memory.inference.memory import InferenceMemory
from service.core.performance.inference.latency import InferenceLatency, Phase
from service.core.performance.inference.open_load import Percentiles
from service.core.performance.inference.steps import latency_steps
from service.estimation.answers import (
    explanation,
    figure,
    frame,
    known_figure,
    provenance,
    warning_entries,
)
from service.estimation.compliance.check import check_rules
from service.estimation.costs.estimate import Costs, costs, hourly, resolve_prices, served_costs
from service.estimation.impacts.estimate import DeploymentImpacts, deployment_impacts
from service.estimation.inference.constraints import constraints
from service.estimation.inference.deployment import (
    ComputedDeployment,
    compute_deployment,
    echo,
    resolve_deployment,
)
from service.estimation.inference.mitigations import inference_remedies
from service.estimation.inference.requests import InferenceRequest
from service.estimation.inference.tiers import tiers_figures
from service.estimation.mitigations import NOTHING_TO_CHANGE
from service.estimation.requests import (
    CostRequest,
    DeploymentRequest,
    LatencyInferenceRequest,
    MemoryInferenceRequest,
)
from service.estimation.resolution import Problems, resolve_region


def inference_memory_answer(
    request: MemoryInferenceRequest, snapshot: CatalogSnapshot
) -> dict[str, Any]:
    """Memory per accelerator of an inference deployment, and what fits.

    Raises
    ------
    Rejected
        If the request refers to unknown things or asks for the impossible.
    """
    computed = _compute(request, snapshot)
    answer = frame(snapshot.revision)
    answer |= {"deployment": echo(computed.resolved)}
    answer |= _memory(computed, snapshot)
    return _finish(answer, request, snapshot, computed, computed.memory_steps)


def inference_latency_answer(
    request: LatencyInferenceRequest, snapshot: CatalogSnapshot
) -> dict[str, Any]:
    """Latency, throughput and bottlenecks of an inference deployment.

    Raises
    ------
    Rejected
        If the request refers to unknown things or asks for the impossible.
    """
    computed = _compute(request, snapshot)
    answer = frame(snapshot.revision)
    answer |= {"deployment": echo(computed.resolved), "fits": computed.fits}
    answer |= _latency(computed.latency)
    return _finish(answer, request, snapshot, computed, lambda: _latency_steps(computed))


def inference_estimate(request: InferenceRequest, snapshot: CatalogSnapshot) -> dict[str, Any]:
    """Memory, latency, energy and impacts of an inference deployment in one answer.

    Raises
    ------
    Rejected
        If the request refers to unknown things or asks for the impossible.
    """
    problems = Problems()
    year = request.period.year
    region = problems.attempt("/region", lambda: resolve_region(request.region, snapshot, year))
    computed = compute_deployment(resolve_deployment(request, snapshot, problems))
    region = problems.resolved(region)
    impacts = deployment_impacts(computed, region, request.period)
    costed = _costs(computed, region, request.cost, impacts, snapshot)
    facts = request.compliance
    rules = None if facts is None else check_rules(facts, region, snapshot)
    answer = frame(snapshot.revision)
    answer |= {
        "deployment": echo(computed.resolved) | {"region": region.id},
        "memory": _memory(computed, snapshot),
        "latency": _latency(computed.latency),
        "energy": impacts.energy,
        "impacts": impacts.impacts,
        "cost": served_costs(
            costed,
            computed.latency.requests_per_s,
            float(computed.resolved.workload.output_tokens),
            request.period,
        ),
        "constraints": constraints(computed),
        "compliance": None if rules is None else rules.answer,
    }

    def steps() -> tuple[Step, ...]:
        return (
            *computed.memory_steps(),
            *_latency_steps(computed),
            *impacts.steps(),
            *costed.steps,
            *(rules.steps if rules is not None else ()),
        )

    warnings = (*computed.warnings, *impacts.warnings, *costed.prices.warnings)
    entries = [("regions", region), *costed.prices.entries]
    if rules is not None:
        warnings += rules.warnings
        entries += rules.entries
    return _finish(answer, request, snapshot, computed, steps, warnings, entries)


def _costs(
    computed: ComputedDeployment,
    region: Entry[Region],
    asked: CostRequest,
    impacts: DeploymentImpacts,
    snapshot: CatalogSnapshot,
) -> Costs:
    resolved = computed.resolved
    prices = resolve_prices(
        asked,
        resolved.accelerator,
        resolved.deployment.parallelism,
        region,
        resolved.calibration.infrastructure.hardware_life_years,
        snapshot,
    )
    year = None if impacts.impacts is None else impacts.impacts["per_year"]
    return costs(
        prices,
        None if year is None else hourly(year["facility_energy_kwh"], HOURS_PER_YEAR),
        None if year is None else hourly(year["carbon"]["total_gco2e"], HOURS_PER_YEAR),
    )


def _compute(request: DeploymentRequest, snapshot: CatalogSnapshot) -> ComputedDeployment:
    return compute_deployment(resolve_deployment(request, snapshot, Problems()))


def _latency_steps(computed: ComputedDeployment) -> Any:
    return latency_steps(
        computed.latency,
        computed.estimate.deployment,
        computed.resolved.workload,
        computed.estimate.calibration,
    )


def _finish(
    answer: dict[str, Any],
    request: DeploymentRequest,
    snapshot: CatalogSnapshot,
    computed: ComputedDeployment,
    steps: Callable[[], Iterable[Step]],
    warnings: Iterable[EstimateWarning] | None = None,
    placed: Iterable[tuple[str, Entry[Any]]] = (),
) -> dict[str, Any]:
    answer["warnings"] = warning_entries(computed.warnings if warnings is None else warnings)
    answer["provenance"] = provenance(snapshot, [*computed.resolved.entries(snapshot), *placed])
    if request.explain:
        answer["explanation"] = explanation(steps())
    return answer


def _memory(computed: ComputedDeployment, snapshot: CatalogSnapshot) -> dict[str, Any]:
    memory: InferenceMemory = computed.memory
    resolved = computed.resolved
    return {
        "weights_bytes": figure(memory.weights),
        "kv_cache_bytes": figure(memory.kv_cache),
        "activations_bytes": figure(memory.activations),
        "runtime_bytes": figure(memory.runtime),
        "libraries_bytes": figure(memory.engine.libraries(resolved.deployment.parallelism)),
        "total_bytes": figure(memory.total),
        "capacity_bytes": float(memory.capacity_bytes),
        "usable_bytes": float(memory.usable_bytes),
        "fits": computed.fits,
        "fits_certainty": str((computed.tiers or memory).fits_certainty),
        "headroom_bytes": figure(memory.headroom),
        "shortfall_bytes": figure(memory.shortfall),
        "weights_by_class_bytes": {
            kind.value: float(size) for kind, size in memory.weights_by_class.items() if size
        },
        "kv_cache_bytes_per_token": float(memory.kv_cache_bytes_per_token),
        "kv_cache_budget_bytes": figure(memory.kv_cache_budget),
        "kv_cache_capacity_tokens": figure(memory.kv_cache_capacity_tokens),
        "max_concurrency": known_figure(memory.max_concurrency),
        "max_context_tokens": known_figure(memory.max_context_tokens),
        "draft_model_bytes": float(memory.draft_bytes),
        "placement": None if computed.tiers is None else tiers_figures(computed.tiers),
        **(NOTHING_TO_CHANGE if computed.fits else inference_remedies(computed, snapshot)),
    }


def _latency(latency: InferenceLatency) -> dict[str, Any]:
    load = latency.load
    return {
        "ttft_s": figure(latency.ttft_s),
        "tpot_s": figure(latency.tpot_s),
        "e2e_s": figure(latency.e2e_s),
        "task_s": figure(latency.task_s),
        "output_tokens_per_s_per_user": figure(latency.output_tokens_per_s_per_user),
        "output_tokens_per_s_per_accelerator": figure(latency.output_tokens_per_s_per_accelerator),
        "output_tokens_per_s": figure(latency.output_tokens_per_s),
        "requests_per_s": figure(latency.requests_per_s),
        "saturation_requests_per_s": figure(latency.saturation_requests_per_s),
        "running_sequences_per_replica": float(latency.running_sequences),
        "waiting_requests": float(latency.waiting_requests),
        "prefill": _phase(latency.prefill),
        "decode": _phase(latency.decode),
        "load": None
        if load is None
        else {
            "utilisation_ratio": float(load.utilisation_ratio),
            "saturated": bool(load.saturated),
            "ttft_s": _percentiles(load.ttft_s, latency.ttft_s),
            "e2e_s": _percentiles(load.e2e_s, latency.e2e_s),
        },
    }


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "bottleneck": phase.bottleneck,
        "step_s": float(phase.step_s),
        "compute_bound_s": float(phase.compute_bound_s),
        "memory_bound_s": float(phase.memory_bound_s),
        "interconnect_s": float(phase.interconnect_s),
        "overhead_s": float(phase.overhead_s),
        "arithmetic_intensity_flop_per_byte": float(phase.arithmetic_intensity_flop_per_byte),
        "ridge_point_flop_per_byte": float(phase.ridge_point_flop_per_byte),
    }


def _percentiles(percentiles: Percentiles | None, like: Interval) -> dict[str, Any] | None:
    """Percentiles over requests, each with the relative interval of the mean."""
    if percentiles is None:
        return None

    def around(value: float) -> dict[str, float]:
        return figure(
            Interval(value, value * like.low / like.value, value * like.high / like.value)
        )

    return {
        "p50": around(percentiles.p50),
        "p95": around(percentiles.p95),
        "p99": around(percentiles.p99),
    }
