"""Use cases about inference: memory, latency, and everything in one answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.costs import COSTS, HOURS_PER_YEAR
from service.core.deployment import Region
from service.core.elementwise import Number
from service.core.explanation import EstimateWarning, Step, explain
from service.core.interval import Interval
from service.core.performance.inference import open_load
from service.core.performance.inference.formulas import LATENCY
from service.estimation import answers
from service.estimation.answers import FitCertainty, Grounds, figure, frame, grounds
from service.estimation.compliance.check import check_rules
from service.estimation.costs.estimate import Costs, costs, hourly, resolve_prices, served_costs
from service.estimation.impacts.estimate import DeploymentImpacts, deployment_impacts
from service.estimation.inference.answers import (
    Burst,
    CacheRoom,
    InferenceAnswer,
    Latency,
    LatencyFigures,
    LatencyInferenceAnswer,
    Memory,
    MemoryInferenceAnswer,
    MemoryParts,
    MemoryRoom,
    Percentiles,
)
from service.estimation.inference.constraints import constraints
from service.estimation.inference.deployment import (
    ComputedDeployment,
    compute_deployment,
)
from service.estimation.inference.echo import echo
from service.estimation.inference.goodput import goodput_answer, resolve_limits
from service.estimation.inference.mitigations import inference_mitigations
from service.estimation.inference.placement import placement
from service.estimation.inference.requests import InferenceRequest
from service.estimation.learning.deployments import calibration_used, learnt_deployment
from service.estimation.learning.learnt import learnt_steps
from service.estimation.mitigations import NOTHING_TO_CHANGE
from service.estimation.platforms import sited
from service.estimation.requests import (
    CostRequest,
    DeploymentRequest,
    LatencyInferenceRequest,
    MemoryInferenceRequest,
)
from service.estimation.resolution import Problems, resolve_region
from service.estimation.writing import written

#: Figures of tokens, which are null where nothing is generated, and formulas of them.
_NOTHING_GENERATED: Any = dict.fromkeys(
    (
        "tpot_s",
        "output_tokens_per_s_per_user",
        "output_tokens_per_s_per_accelerator",
        "output_tokens_per_s",
        "decode",
    )
)
_OF_GENERATION = frozenset(
    {
        "tpot_s",
        "output_tokens_per_s",
        "decode_step_s",
        "decode_arithmetic_intensity",
        "decode_ridge_point",
    }
)


def inference_memory_answer(
    request: MemoryInferenceRequest, snapshot: CatalogSnapshot
) -> MemoryInferenceAnswer:
    """Memory per accelerator of an inference deployment, and what fits."""
    computed = _compute(request, snapshot)
    return {
        **frame(snapshot.revision),
        "deployment": echo(computed.resolved),
        **_memory(computed, snapshot),
        **_grounds(request, snapshot, computed, computed.memory_steps),
    }


def inference_latency_answer(
    request: LatencyInferenceRequest, snapshot: CatalogSnapshot
) -> LatencyInferenceAnswer:
    """Latency, throughput and bottlenecks of an inference deployment."""
    computed = _compute(request, snapshot)
    return {
        **frame(snapshot.revision),
        "deployment": echo(computed.resolved),
        "fits": computed.fits,
        **_latency(computed),
        **_grounds(request, snapshot, computed, lambda: _latency_steps(computed)),
    }


def inference_estimate(
    request: InferenceRequest, snapshot: CatalogSnapshot, *, advise: bool = True
) -> InferenceAnswer:
    """Memory, latency, energy and impacts of an inference deployment in one answer.

    Parameters
    ----------
    request
        The deployment.
    snapshot
        The catalog.
    advise
        Whether to look for what would make it fit, where it does not. That takes many times as
        long as the rest.
    """
    problems = Problems()
    year = request.period.year
    region = problems.attempt("/region", lambda: resolve_region(request.region, snapshot, year))
    computed = compute_deployment(learnt_deployment(request, snapshot, problems))
    limits = resolve_limits(request.limits, computed, problems)
    problems.stop_if_any()
    place = sited(problems.resolved(region), computed.resolved.machine, request.facility, snapshot)
    region = place.region
    impacts = deployment_impacts(computed, region, request.period)
    costed = _costs(computed, region, request.cost, impacts, snapshot)
    facts = request.compliance
    rules = None if facts is None else check_rules(facts, region, snapshot)

    def steps() -> tuple[Step, ...]:
        return (
            *computed.memory_steps(),
            *_latency_steps(computed),
            *impacts.steps(),
            *explain(costed, COSTS),
            *(rules.steps if rules is not None else ()),
        )

    warnings = (*computed.warnings, *impacts.warnings, *costed.prices.warnings)
    entries = [("regions", region), *costed.prices.entries]
    if rules is not None:
        warnings += rules.warnings
        entries += rules.entries
    return {
        **frame(snapshot.revision),
        "deployment": {**echo(computed.resolved), "region": region.id},
        "memory": _memory(computed, snapshot, advise=advise),
        "latency": _latency(computed),
        "facility": place.facility,
        "goodput": goodput_answer(computed, limits),
        "energy": impacts.energy,
        "impacts": impacts.impacts,
        "cost": served_costs(
            costed,
            computed.latency.requests_per_s,
            float(computed.resolved.workload.output_tokens) if computed.generates else None,
            request.period,
        ),
        "constraints": constraints(computed),
        "compliance": None if rules is None else rules.answer,
        **_grounds(request, snapshot, computed, steps, warnings, entries),
    }


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
    return compute_deployment(learnt_deployment(request, snapshot, Problems()))


def _grounds(
    request: DeploymentRequest,
    snapshot: CatalogSnapshot,
    computed: ComputedDeployment,
    steps: Callable[[], Iterable[Step]],
    warnings: Iterable[EstimateWarning] | None = None,
    placed: Iterable[tuple[str, Entry[Any]]] = (),
) -> Grounds:
    resolved = computed.resolved
    return grounds(
        snapshot,
        computed.warnings if warnings is None else warnings,
        [*resolved.entries(), *placed],
        (lambda: (*learnt_steps(resolved.learnt), *steps())) if request.explain else None,
        calibration_used(request, resolved),
    )


def _memory(
    computed: ComputedDeployment, snapshot: CatalogSnapshot, *, advise: bool = True
) -> Memory:
    memory = computed.memory
    advised = advise and not computed.fits
    return {
        **written(memory, MemoryParts),
        "fits": computed.fits,
        **written(computed.tiers or memory, FitCertainty),
        **written(memory, MemoryRoom),
        "weights_by_class_bytes": {
            kind.value: float(size) for kind, size in memory.weights_by_class_bytes.items() if size
        },
        **_cache_room(computed),
        "placement": None if computed.tiers is None else placement(computed.tiers),
        **(inference_mitigations(computed, snapshot) if advised else NOTHING_TO_CHANGE),
    }


def _cache_room(computed: ComputedDeployment) -> CacheRoom:
    room: CacheRoom = written(computed.memory, CacheRoom)
    if computed.generates:
        return room
    return {**room, "kv_cache_capacity_tokens": None, "max_concurrency": None}


def _latency(computed: ComputedDeployment) -> Latency:
    latency, load = computed.latency, computed.latency.load
    figures = written(latency, LatencyFigures)
    if not computed.generates:
        figures = {**figures, **_NOTHING_GENERATED}
    return {
        **figures,
        "load": None
        if load is None
        else {
            "utilisation_ratio": float(load.utilisation_ratio),
            "saturated": bool(load.saturated),
            "ttft_s": None if load.saturated else _percentiles(load.ttft_s, latency.ttft_s),
            "tpot_s": _percentiles(load.tpot_s, latency.tpot_s) if computed.generates else None,
            "e2e_s": None if load.saturated else _percentiles(load.e2e_s, latency.e2e_s),
        },
        "burst": _burst(computed),
    }


def _burst(computed: ComputedDeployment) -> Burst | None:
    """What requests see that come all at once; None where they do not."""
    latency, burst = computed.latency, computed.latency.burst
    if burst is None:
        return None
    rate, makespan_s = latency.requests_per_s, float(burst.makespan_s)
    return {
        "makespan_s": figure(
            Interval(
                makespan_s,
                makespan_s * rate.value / rate.high,
                makespan_s * rate.value / rate.low,
            )
        ),
        "waves": float(burst.waves_before) + 1.0,
        "ttft_s": _percentiles(burst.ttft_s, latency.ttft_s),
        "tpot_s": _percentiles(burst.tpot_s, latency.tpot_s) if computed.generates else None,
        "e2e_s": _percentiles(burst.e2e_s, latency.e2e_s),
    }


def _latency_steps(computed: ComputedDeployment) -> tuple[Step, ...]:
    """How the latency came about; nothing of tokens where none are generated."""
    formulas = LATENCY
    if not computed.generates:
        formulas = tuple(one for one in LATENCY if one.name not in _OF_GENERATION)
    return explain(computed.estimate, formulas)


def _percentiles(found: open_load.Percentiles, like: Interval) -> Percentiles:
    """Percentiles over requests, each with the relative interval of the mean."""

    def around(value: Number) -> answers.Interval:
        return figure(
            Interval(value, value * like.low / like.value, value * like.high / like.value)
        )

    return {"p50": around(found.p50), "p95": around(found.p95), "p99": around(found.p99)}
