"""Use cases about inference: memory, latency, and everything in one answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.costs import COSTS
from service.core.deployment import Region
from service.core.elementwise import plain
from service.core.explanation import EstimateWarning, Step, explain
from service.core.interval import Interval
from service.core.memory.inference.tier_costs import tiers_price_usd
from service.core.performance.inference.burst import Burst as CoreBurst
from service.core.performance.inference.formulas import LATENCY
from service.core.performance.inference.latency import InferenceLatency
from service.core.performance.inference.load_ends import percentile_s
from service.core.years import HOURS_PER_YEAR
from service.estimation import answers
from service.estimation.answers import FitCertainty, Grounds, figure, frame, grounds, known_figure
from service.estimation.compliance.check import check_rules
from service.estimation.concerns import OF_ALL, OF_MEMORY, OF_TIMES, Concern
from service.estimation.costs.estimate import Costs, costs, hourly, resolve_prices, served_costs
from service.estimation.costs.price_remarks import OF_ONE_PERSON, use_warnings
from service.estimation.detail import WHOLE, Detail
from service.estimation.impacts.estimate import DeploymentImpacts, deployment_impacts
from service.estimation.impacts.one_at_a_time import load_warnings
from service.estimation.inference.answers import (
    Burst,
    CacheByClass,
    CacheRoom,
    InferenceAnswer,
    InFlight,
    Latency,
    LatencyFigures,
    LatencyInferenceAnswer,
    LatencyPhases,
    LatencyRates,
    LatencyVerdicts,
    Memory,
    MemoryByClass,
    MemoryHeld,
    MemoryInferenceAnswer,
    MemoryParts,
    MemoryRoom,
    OverNetwork,
    Percentiles,
    Shortfall,
    TaskTime,
)
from service.estimation.inference.constraints import constraints
from service.estimation.inference.deployment import ComputedDeployment
from service.estimation.inference.echo import echo
from service.estimation.inference.goodput import goodput_answer, resolve_limits
from service.estimation.inference.mitigations import inference_mitigations
from service.estimation.inference.placement import placement
from service.estimation.inference.requests import PlacedRequest
from service.estimation.inference.spilling import computed_deployment
from service.estimation.learning.deployments import calibration_used
from service.estimation.learning.learnt import learnt_steps
from service.estimation.mitigations import NOTHING_TO_CHANGE
from service.estimation.platforms import sited
from service.estimation.remarks import remarking
from service.estimation.requests import CostRequest, DeploymentRequest, LatencyInferenceRequest
from service.estimation.resolution import Problems, placed_id, resolve_region
from service.estimation.writing import written

#: Figures of tokens, which are null where nothing is generated, and formulas of them.
_OF_TOKENS = (
    "tpot_s",
    "output_tokens_per_s_per_user",
    "output_tokens_per_s_per_accelerator",
    "output_tokens_per_s",
    "decode",
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
    request: DeploymentRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> MemoryInferenceAnswer:
    """Memory per accelerator of an inference deployment, and what fits."""
    computed = _compute(request, snapshot)
    return {
        **frame(snapshot.revision),
        "deployment": echo(computed.resolved, detail),
        **_memory(computed, snapshot, detail),
        **_grounds(
            *(request, snapshot, computed, computed.memory_steps, computed.warnings),
            detail=detail,
            # What would make it fit is told with what it does to times.
            concern=OF_ALL if detail.has("remedies") and not computed.fits else OF_MEMORY,
        ),
    }


def inference_latency_answer(
    request: DeploymentRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> LatencyInferenceAnswer:
    """Latency, throughput and bottlenecks of an inference deployment."""
    computed = _compute(request, snapshot)
    return {
        **frame(snapshot.revision),
        "deployment": echo(computed.resolved, detail),
        "fits": computed.fits,
        **_latency(computed, _round_trip_s(request), detail),
        **_grounds(
            *(request, snapshot, computed, lambda: _latency_steps(computed), computed.warnings),
            detail=detail,
            concern=OF_TIMES,
        ),
    }


@remarking(InferenceAnswer)
def inference_estimate(
    request: PlacedRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> InferenceAnswer:
    """Memory, latency, energy and impacts of an inference deployment in one answer.

    Parameters
    ----------
    request
        The deployment.
    snapshot
        The catalog.
    detail
        How much is told. What would make it fit, where it does not, takes many times as long as
        the rest.
    """
    problems = Problems()
    year = request.period.year
    region = problems.attempt("/region", lambda: resolve_region(request.region, snapshot, year))
    computed = computed_deployment(request, snapshot, problems)
    limits = resolve_limits(request.limits, computed, problems)
    problems.stop_if_any()
    place = sited(problems.resolved(region), computed.resolved.machine, request.facility, snapshot)
    region = place.region
    impacts = deployment_impacts(computed, region, request.period, detail=detail)
    costed = deployment_costs(computed, region, request.cost, impacts, snapshot)
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

    loaded = () if impacts.energy is None else load_warnings(request.workload, computed)
    warnings = (*computed.warnings, *loaded, *impacts.warnings, *costed.prices.warnings)
    warnings += tuple(_use_warnings(computed, costed))
    entries = [("regions", region), *costed.prices.entries]
    if rules is not None:
        warnings += rules.warnings
        entries += rules.entries
    return {
        **frame(snapshot.revision),
        "deployment": {**echo(computed.resolved, detail), "region": placed_id(region)},
        "memory": _memory(computed, snapshot, detail),
        "latency": _latency(computed, request.network_round_trip_s, detail),
        "facility": place.facility,
        "goodput": goodput_answer(computed, limits),
        "energy": impacts.energy,
        "impacts": impacts.impacts,
        "cost": served_costs(
            costed,
            computed.latency.requests_per_s,
            plain(computed.resolved.workload.output_tokens) if computed.generates else None,
            request.period,
            detail,
        ),
        "constraints": constraints(computed),
        "compliance": None if rules is None else rules.answer,
        **_grounds(request, snapshot, computed, steps, warnings, entries, detail),
    }


def _use_warnings(computed: ComputedDeployment, costed: Costs) -> Iterator[EstimateWarning]:
    """At which use the cost of a token by a person's own machine holds."""
    owned, resolved = costed.owned, computed.resolved
    workload = resolved.workload
    if owned is None or not computed.generates or workload.requests_per_s is not None:
        return
    if resolved.deployment.accelerator.platform.kind not in OF_ONE_PERSON:
        return
    yield from use_warnings(
        plain(owned.hardware_usd_per_hour.value),
        plain(owned.electricity_usd_per_hour.value),
        plain(computed.latency.requests_per_s.value) * plain(workload.output_tokens),
    )


def deployment_costs(
    computed: ComputedDeployment,
    region: Entry[Region],
    asked: CostRequest,
    impacts: DeploymentImpacts,
    snapshot: CatalogSnapshot,
    life_years: Interval | None = None,
) -> Costs:
    """Costs by the hour of a computed deployment.

    Parameters
    ----------
    computed, region, impacts
        What runs where, and what it draws and emits.
    asked
        Prices that the caller states.
    snapshot
        Has the others.
    life_years
        How long hardware is kept [year]; if None, the usual life of servers.
    """
    resolved = computed.resolved
    prices = resolve_prices(
        asked,
        resolved.accelerator,
        resolved.deployment.parallelism,
        region,
        life_years or resolved.calibration.infrastructure.hardware_life_years,
        snapshot,
        None if computed.tiers is None else tiers_price_usd(computed.tiers),
    )
    year = None if impacts.impacts is None else impacts.impacts["per_year"]
    return costs(
        prices,
        None if year is None else hourly(year["facility_energy_kwh"], HOURS_PER_YEAR),
        None if year is None else hourly(year["carbon"]["total_gco2e"], HOURS_PER_YEAR),
    )


def _compute(request: DeploymentRequest, snapshot: CatalogSnapshot) -> ComputedDeployment:
    return computed_deployment(request, snapshot, Problems())


def _grounds(
    request: DeploymentRequest,
    snapshot: CatalogSnapshot,
    computed: ComputedDeployment,
    steps: Callable[[], Iterable[Step]],
    warnings: Iterable[EstimateWarning],
    placed: Iterable[tuple[str, Entry[Any]]] = (),
    detail: Detail = WHOLE,
    concern: Concern = OF_ALL,
) -> Grounds:
    resolved = computed.resolved
    explained = request.explain or detail.has("explanation")
    return grounds(
        snapshot,
        concern.warnings(warnings),
        concern.entries((*resolved.entries(), *placed)),
        (lambda: (*learnt_steps(resolved.learnt), *steps())) if explained else None,
        calibration_used(request, resolved),
        detail,
        detail.untold | concern.untold,
    )


def _memory(computed: ComputedDeployment, snapshot: CatalogSnapshot, detail: Detail) -> Memory:
    memory, room = computed.memory, computed.estimate.room
    told: Any = {
        **written(memory, MemoryParts),
        "fits": computed.fits,
        **written(computed.tiers or memory, FitCertainty),
        **written(room, MemoryRoom),
        **_cache_room(computed),
    }
    if detail.has("memory.by_class") or not computed.fits:
        told |= written(room, Shortfall)
    if detail.has("memory.by_class"):
        told |= {
            **written(memory, MemoryByClass),
            **written(room, MemoryHeld),
            **written(memory, CacheByClass),
            "weights_by_class_bytes": {
                kind.value: float(size)
                for kind, size in memory.weights_by_class_bytes.items()
                if size
            },
            "placement": None if computed.tiers is None else placement(computed.tiers),
        }
    if detail.has("remedies"):
        told |= NOTHING_TO_CHANGE if computed.fits else inference_mitigations(computed, snapshot)
    found: Memory = told
    return found


def _cache_room(computed: ComputedDeployment) -> CacheRoom:
    room: CacheRoom = written(computed.estimate.room, CacheRoom)
    if computed.generates:
        return room
    return {**room, "kv_cache_capacity_tokens": None, "max_concurrency": None}


def _latency(
    computed: ComputedDeployment, network_round_trip_s: float | None, detail: Detail
) -> Latency:
    latency, load = computed.latency, computed.latency.load
    # A phase without its times is one all the same.
    every = detail.has("latency.breakdown")
    phases: Any = LatencyPhases if every else LatencyVerdicts
    figures: Any = {**written(latency, LatencyFigures), **written(latency, phases)}
    if every:
        figures |= {**written(latency, LatencyRates), "in_flight": _in_flight(computed)}
    if every or computed.resolved.workload.calls_per_task != 1:
        figures |= written(latency, TaskTime)
    if not computed.generates:
        figures |= {name: None for name in _OF_TOKENS if name in figures}
    found: Latency = figures | {
        "over_network": None
        if network_round_trip_s is None
        else _over_network(computed, network_round_trip_s),
        "load": None
        if load is None
        else {
            "utilisation_ratio": plain(load.utilisation_ratio),
            "saturated": bool(load.saturated),
            "ttft_s": None if latency.endless else percentile_figures(latency, "ttft_s", every),
            "tpot_s": percentile_figures(latency, "tpot_s", every) if computed.generates else None,
            "e2e_s": None if latency.endless else percentile_figures(latency, "e2e_s", every),
        },
        "burst": _burst(computed, every),
    }
    return found


def _round_trip_s(request: DeploymentRequest) -> float | None:
    """The network between users and the service, where a question has one [s]."""
    return request.network_round_trip_s if isinstance(request, LatencyInferenceRequest) else None


def _over_network(computed: ComputedDeployment, round_trip_s: float) -> OverNetwork:
    """Times with a round trip for each request; the service itself is not slowed by it."""
    latency, calls = computed.latency, computed.resolved.workload.calls_per_task

    def later(time: Interval | None, trips: int) -> answers.Interval | None:
        if time is None:
            return None
        extra = round_trip_s * trips
        return known_figure(Interval(time.value + extra, time.low + extra, time.high + extra))

    return {
        "network_round_trip_s": round_trip_s,
        "ttft_s": later(latency.ttft_s, 1),
        "e2e_s": later(latency.e2e_s, 1),
        "task_s": later(latency.task_s, calls),
    }


def _percentiles(computed: ComputedDeployment, *, every: bool) -> InFlight:
    """Percentiles over requests of all times."""
    latency = computed.latency
    return {
        "ttft_s": percentile_figures(latency, "ttft_s", every),
        "tpot_s": percentile_figures(latency, "tpot_s", every) if computed.generates else None,
        "e2e_s": percentile_figures(latency, "e2e_s", every),
    }


def _in_flight(computed: ComputedDeployment) -> InFlight | None:
    """What requests see of which as many are always in flight; None where they come otherwise."""
    latency = computed.latency
    if latency.load is not None or latency.burst is not None:
        return None
    return _percentiles(computed, every=True)


def _burst(computed: ComputedDeployment, every: bool) -> Burst | None:
    """What requests see that come all at once; None where they do not."""
    latency, burst = computed.latency, computed.latency.burst
    if burst is None:
        return None
    return {
        "makespan_s": figure(makespan(latency.requests_per_s, burst)),
        "waves": plain(burst.waves_before) + 1.0,
        **_percentiles(computed, every=every),
    }


def makespan(rate: Interval, burst: CoreBurst) -> Interval:
    """Time until all requests that came at once are answered, as uncertain as their rate [s]."""
    value = plain(burst.makespan_s)
    return Interval(value, value * rate.value / rate.high, value * rate.value / rate.low)


def _latency_steps(computed: ComputedDeployment) -> tuple[Step, ...]:
    """How the latency came about; nothing of tokens where none are generated."""
    formulas = LATENCY
    if not computed.generates:
        formulas = tuple(one for one in LATENCY if one.name not in _OF_GENERATION)
    return explain(computed.estimate, formulas)


def percentile_figures(latency: InferenceLatency, time: str, every: bool = True) -> Percentiles:
    """Percentiles over requests of a time by its name: all, or the high ones."""

    def percentile(share: str) -> answers.Interval:
        return figure(percentile_s(latency, time, share))

    told: Percentiles = {"p95": percentile("p95"), "p99": percentile("p99")}
    if every:
        told["p50"] = percentile("p50")
    return told
