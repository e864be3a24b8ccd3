"""What would make an inference deployment fit."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import fields, replace
from math import inf

from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import ServingSettings
from service.core.engines import EngineRelease
from service.core.estimate.inference import with_tiers
from service.core.interval import Interval, at_most
from service.core.memory.inference.choices import over_choices
from service.core.memory.inference.memory import InferenceMemory, inference_memory
from service.core.memory.inference.tiers import InferenceTiers, inference_tiers
from service.core.otherwise import Other
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.inference.latency import inference_latency
from service.core.techniques.plan import Judgement
from service.core.techniques.registry import TECHNIQUES
from service.core.techniques.setup import InferenceSetup
from service.core.techniques.technique import InferenceChange, Technique
from service.estimation.inference.deployment import ComputedDeployment, ResolvedDeployment
from service.estimation.inference.tiers import ResolvedTiers, resolve_tiers
from service.estimation.layouts import check_division, check_parallelism
from service.estimation.mitigations import (
    USUAL_HOST_BYTES,
    Mitigations,
    mitigations,
    remembered,
)
from service.estimation.requests import OffloadRequest, ServingRequest
from service.estimation.resolution import Problems, check_pools

#: Every engine holds caches of so many bits.
_WHOLE_BITS = 16.0


def inference_mitigations(computed: ComputedDeployment, snapshot: CatalogSnapshot) -> Mitigations:
    """Changes and plans that make a deployment fit.

    Parameters
    ----------
    computed
        The deployment with its memory, which does not fit.
    snapshot
        The catalog, for what host memory is usual.
    """
    resolved = computed.resolved
    calibration = resolved.calibration
    around = resolved.tiers or _host_memory(resolved, snapshot)
    # Tiers that a request names say themselves how much they hold.
    host_capacity_bytes = USUAL_HOST_BYTES if resolved.tiers is None else inf
    known: dict[Hashable, InferenceMemory] = {}

    def memory_of(setup: InferenceSetup) -> InferenceMemory:
        name = _name(setup)
        if name not in known:
            known[name] = inference_memory(
                setup.deployment, setup.workload, setup.serving, calibration.runtime
            )
        return known[name]

    def judge(setup: InferenceSetup) -> Judgement[InferenceSetup] | None:
        if not _is_possible(setup, snapshot):
            return None
        found, tiers = memory_of(setup), None
        if setup.in_host_memory and around is not None:
            tiers = inference_tiers(found, around.value)
        total = _total_bytes(setup, found, resolved)
        return _judgement(setup, found, total, tiers, calibration.performance, host_capacity_bytes)

    def propose(setup: InferenceSetup) -> Iterator[tuple[Technique, Iterable[InferenceChange]]]:
        for technique in TECHNIQUES:
            if technique.inference is not None:
                yield technique, technique.inference(memory_of(setup))

    start = InferenceSetup(
        resolved.deployment,
        resolved.workload,
        resolved.serving,
        in_host_memory=resolved.tiers is not None,
    )
    return mitigations(start, remembered(judge, _name), propose)


def _total_bytes(
    setup: InferenceSetup, memory: InferenceMemory, resolved: ResolvedDeployment
) -> Interval:
    """All that a changed deployment holds, over choices that its request leaves open [B]."""
    changed = {
        name: getattr(setup.serving, name)
        for name in (one.name for one in fields(ServingSettings))
        if getattr(setup.serving, name) != getattr(resolved.serving, name)
    }
    others: dict[str, list[Other[InferenceMemory]]] = {}
    for one in resolved.left_open.choices:
        if one.sized:
            serving, runtime = replace(one.serving, **changed), one.calibration.runtime
            found = inference_memory(setup.deployment, setup.workload, serving, runtime)
            others.setdefault(one.setting, []).append(Other(found, one.share_ratio))
    return over_choices(memory, others).total_bytes


def _host_memory(resolved: ResolvedDeployment, snapshot: CatalogSnapshot) -> ResolvedTiers | None:
    """Host memory as a request gets it that asks for some without naming it."""
    accelerator, serving = resolved.deployment.accelerator, resolved.serving
    if accelerator.unified_memory:
        return None
    asked = ServingRequest(offload=OffloadRequest())
    release = EngineRelease(serving.engine, serving.engine_generation)
    return resolve_tiers(asked, accelerator, snapshot, Problems(), release)


def _name(setup: InferenceSetup) -> Hashable:
    """What may differ between setups of one plan."""
    deployment = setup.deployment
    changing = deployment.precision, deployment.parallelism, setup.workload, setup.serving
    return *changing, setup.in_host_memory


def _is_possible(setup: InferenceSetup, snapshot: CatalogSnapshot) -> bool:
    """Whether a request for the setup would be answered."""
    deployment, serving, problems = setup.deployment, setup.serving, Problems()
    layout, precision = deployment.parallelism, deployment.precision
    engine = snapshot.engines[serving.engine].value
    if not engine.reads(precision.weights.listed_id, serving.engine_generation):
        return False
    cache = precision.kv_cache
    if cache.bits_per_element < _WHOLE_BITS and not engine.caches.states(cache.id):
        return False
    check_parallelism(layout, deployment.architecture, problems)
    if serving.disaggregation is not None:
        check_pools(serving.disaggregation.prefill_replicas, layout, problems)
    if serving.speculation is not None and serving.speculation.architecture is not None:
        check_division(serving.speculation.architecture, layout, "", problems)
    return not problems.found


def _judgement(
    setup: InferenceSetup,
    memory: InferenceMemory,
    total: Interval,
    tiers: InferenceTiers | None,
    performance: PerformanceCalibration,
    host_capacity_bytes: float,
) -> Judgement[InferenceSetup]:
    deployment = setup.deployment
    accelerators = deployment.parallelism.accelerator_count
    headroom_bytes = float(memory.headroom_bytes.value)
    fits, outside_bytes = bool(memory.fits), 0.0
    if tiers is not None and not fits:
        deployment, performance = with_tiers(deployment, performance, tiers)
        fits = bool(tiers.fits)
        headroom_bytes = -float(tiers.unplaced_bytes.value)
        outside_bytes = sum(float(used.value) for used in tiers.used_bytes[1:])
        inside = memory.engine.sized(total.value - outside_bytes)
        total = at_most(inside, deployment.accelerator.memory_bytes)
    return Judgement(
        setup=setup,
        total_bytes=total,
        capacity_bytes=float(memory.capacity_bytes),
        headroom_bytes=headroom_bytes,
        host_bytes=outside_bytes,
        host_capacity_bytes=host_capacity_bytes,
        fits=fits,
        accelerators=accelerators,
        token_s=_token_s(replace(setup, deployment=deployment), performance),
    )


def _token_s(setup: InferenceSetup, performance: PerformanceCalibration) -> float:
    """Time for each output token with all requests that may run running, if they fit [s].

    Arrivals at a given rate would hide what a change costs until it saturates.
    """
    latency = inference_latency(
        setup.deployment,
        replace(setup.workload, requests_per_s=None),
        setup.serving,
        performance,
        max(setup.workload.concurrency / setup.deployment.parallelism.data, 1.0),
    )
    return float(1.0 / latency.output_tokens_per_s.value)
