"""Passes of the array path: configurations of one structure, evaluated together.

Structure (formats, layout) is fixed within a pass; accelerators, the number of sequences that a
replica runs at once and the number of replicas vary over its rows. Every pass uses the formulas
that single estimates use, and keeps their intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from service.core.architecture.model import ModelArchitecture
from service.core.deployment import (
    Accelerator,
    Deployment,
    InferenceWorkload,
    Parallelism,
    Precision,
    ServingSettings,
    Speculation,
)
from service.core.elementwise import FloatArray
from service.core.impacts.energy import (
    DeploymentPower,
    RequestEnergy,
    deployment_power,
    request_energy,
)
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval, exact
from service.core.memory.inference.memory import InferenceMemory, inference_memory, stage_plans
from service.core.memory.inference.runtime import RuntimeOverheads
from service.core.memory.inference.tiers import Offload, SharedTier
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.inference.latency import InferenceLatency, Usage, inference_latency
from service.core.performance.step import peak_flops_per_s
from service.core.search.kernels import has_kernels
from service.core.search.rows import TooSmall
from service.core.search.stack import (
    stackable,
    stacked_accelerator,
    stacked_calibration,
    stacked_interval,
)
from service.core.search.tiers import Tiered, host_link_bytes_per_s, with_decode_spread, with_tiers

#: Sequences that a replica may run at once, as they are tried.
CONCURRENCY_GRID = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


@dataclass(frozen=True, slots=True)
class Offer:
    """An accelerator that may be chosen, with what is measured of its family."""

    accelerator: Accelerator
    calibration: PerformanceCalibration


@dataclass(frozen=True, slots=True)
class Demand:
    """What the deployment has to carry.

    ``requests_per_s`` over all replicas [1/s], or else ``concurrency`` requests always in flight;
    with neither, one replica works as hard as it can.
    """

    input_tokens: float
    output_tokens: float
    requests_per_s: float | None
    concurrency: float | None
    prefix_cached_ratio: float = 0.0
    calls_per_task: int = 1


@dataclass(frozen=True, slots=True)
class Draft:
    """Speculative decoding, or none.

    ``log_sigma`` is what not knowing the acceptance adds to the spread of decoding.
    """

    speculation: Speculation | None = None
    log_sigma: float = 0.0

    def divides(self, layout: Parallelism) -> bool:
        """Whether a draft model can be divided as the model is."""
        model = None if self.speculation is None else self.speculation.architecture
        return model is None or (
            layout.pipeline <= model.layer_count
            and all(count % layout.tensor == 0 for count in model.query_head_counts)
        )


@dataclass(frozen=True, slots=True)
class Space:
    """What is combined; layouts are those of one replica.

    ``native_only`` leaves out formats that an accelerator does not multiply: they would run
    widened, if an engine has such kernels at all. ``drafts`` are ways to decode.
    ``concurrencies`` are the sequences that a replica runs at once, ``accelerator_counts`` the
    sizes of whole deployments: with them, replicas are as many as there is room for, without them
    as many as the demand takes.
    """

    precisions: Sequence[Precision]
    layouts: Sequence[Parallelism]
    offers: Sequence[Offer]
    most_accelerators: int
    native_only: bool = True
    concurrencies: Sequence[int] = CONCURRENCY_GRID
    accelerator_counts: Sequence[int] | None = None
    drafts: Sequence[Draft] = (Draft(),)

    def replica_counts(self, layout: Parallelism) -> tuple[int, ...] | None:
        """Replicas of a layout that the counts of accelerators come to; None where demand says."""
        if self.accelerator_counts is None:
            return None
        ranks = layout.replica_accelerators
        return tuple(count // ranks for count in self.accelerator_counts if count % ranks == 0)


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around the accelerators: engine settings, measured overheads, other memory.

    ``tiers`` take what has no room in the accelerator, and what ``offload`` moves out regardless.
    """

    serving: ServingSettings
    runtime: RuntimeOverheads
    infrastructure: Infrastructure
    tiers: Sequence[SharedTier] = ()
    offload: Offload = field(default_factory=Offload)


@dataclass(frozen=True, slots=True)
class Pass:
    """What is known of the configurations of one layout and one choice of formats, as arrays.

    ``layout``, ``precision`` and ``draft`` are positions in the space, ``offer`` too, for each row.
    ``fits`` counts tiers outside the accelerator, which ``spilled`` says are needed. A row has
    ``replicas`` of the layout, each running ``concurrency`` sequences; ``needed_replicas`` would
    carry the demand. Latency, power [W] and energy are those of one replica;
    ``carried_per_s`` are the requests that it ends [1/s], ``accelerators`` count all replicas.
    """

    layout: int
    precision: int
    draft: int
    ranks: int
    offer: NDArray[np.intp]
    concurrency: FloatArray
    replicas: FloatArray
    needed_replicas: FloatArray
    accelerators: FloatArray
    carried_per_s: Interval
    memory: InferenceMemory
    fits: NDArray[np.bool_]
    spilled: NDArray[np.bool_]
    latency: InferenceLatency
    power: DeploymentPower
    energy: RequestEnergy

    def __len__(self) -> int:
        return len(self.offer)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Accelerators that a layout and formats cannot run on, and passes over those that can.

    ``too_small`` do not even hold the weights; of ``beyond_domain`` fast links join fewer than a
    tensor-parallel group has; ``unable`` lack the formats or a known power.
    """

    passes: tuple[Pass, ...]
    too_small: tuple[TooSmall, ...]
    beyond_domain: int
    unable: int


def evaluated(
    architecture: ModelArchitecture, space: Space, demand: Demand, around: Around
) -> Iterator[Evaluation]:
    """Everything that a space holds, one structure after the other.

    Parameters
    ----------
    architecture
        The model.
    space
        Formats, layouts and accelerators, and how many of these at most.
    demand
        The load.
    around
        The engine, and what stands around accelerators.
    """
    for layout_at, layout in enumerate(space.layouts):
        if layout.replica_accelerators > space.most_accelerators:
            continue
        if space.replica_counts(layout) == ():
            continue
        for precision_at in range(len(space.precisions)):
            for draft_at, draft in enumerate(space.drafts):
                if draft.divides(layout):
                    at = (layout_at, precision_at, draft_at)
                    yield evaluate(architecture, space, at, demand, around)


def evaluate(
    architecture: ModelArchitecture,
    space: Space,
    at: tuple[int, int, int],
    demand: Demand,
    around: Around,
) -> Evaluation:
    """One layout, choice of formats and draft of a space, by position, on all its accelerators.

    Returns
    -------
    Evaluation
        Passes over accelerators that are alike, in the order of the first of each; rows by
        accelerator, then concurrency, then replicas.
    """
    layout_at, precision_at, _ = at
    layout, precision = space.layouts[layout_at], space.precisions[precision_at]
    ranks = layout.replica_accelerators
    alike: dict[object, list[int]] = {}
    beyond = unable = 0
    for offer_at, offer in enumerate(space.offers):
        if layout.tensor > offer.accelerator.scale_up_domain_accelerators:
            beyond += 1
            continue
        key = (
            stackable(offer.accelerator, ranks, offer.calibration),
            _by_speed(offer.accelerator, around.tiers),
        )
        alike.setdefault(key, []).append(offer_at)
    weights = _weights_bytes(architecture, precision, layout, around.serving)
    small: list[TooSmall] = []
    found: list[Pass] = []
    for group in alike.values():
        halves = space.offers[group[0]].calibration.engine.half_accumulation
        wanted = tuple(
            dict.fromkeys(
                (
                    precision.weights.matrix_precision,
                    "bf16",
                    *(("fp16_accumulate",) if halves else ()),
                )
            )
        )
        able: list[int] = []
        for offer_at in group:
            accelerator = space.offers[offer_at].accelerator
            lacking = weights - accelerator.memory_bytes
            if lacking > 0.0 and not around.tiers:
                small.append(TooSmall(precision_at, layout_at, offer_at, lacking))
            elif _runs(accelerator, wanted, space.native_only) and (
                not space.native_only or has_kernels(precision.weights.id, accelerator.vendor)
            ):
                able.append(offer_at)
            else:
                unable += 1
        if able:
            found.append(_pass(architecture, space, at, able, wanted, demand, around))
    return Evaluation(tuple(found), tuple(small), beyond, unable)


def _weights_bytes(
    architecture: ModelArchitecture,
    precision: Precision,
    layout: Parallelism,
    serving: ServingSettings,
) -> float:
    """Weights on the rank that holds most of them [B]."""
    plans = stage_plans(architecture, precision, layout, serving.kv_block_tokens)
    return max(plan.weights.total_bytes for plan in plans)


def _runs(accelerator: Accelerator, precisions: Sequence[str], native_only: bool) -> bool:
    """Whether the accelerator multiplies each of the precisions, or a wider one if that will do."""
    if accelerator.thermal_design_power_w is None:
        return False
    for precision in precisions:
        try:
            peak_flops_per_s(accelerator, precision)
        except ValueError:
            return False
        if native_only and not _HALVES.get(precision, {precision}) & set(
            accelerator.peak_flops_per_s
        ):
            return False
    return True


def _by_speed(accelerator: Accelerator, tiers: Sequence[SharedTier]) -> tuple[int, ...]:
    """Tiers from the fastest to the slowest, the accelerator's own memory being the first."""
    link = host_link_bytes_per_s(accelerator)
    rates = [
        float(accelerator.memory_bandwidth_bytes_per_s),
        *(float(tier.seen(1.0, link).bandwidth_bytes_per_s) for tier in tiers),
    ]
    return tuple(sorted(range(len(rates)), key=lambda at: rates[at], reverse=True))


#: The 16-bit formats stand for each other.
_HALVES = {name: {"bf16", "fp16"} for name in ("bf16", "fp16", "fp16_accumulate")}


def _pass(
    architecture: ModelArchitecture,
    space: Space,
    at: tuple[int, int, int],
    able: Sequence[int],
    wanted: Sequence[str],
    demand: Demand,
    around: Around,
) -> Pass:
    layout_at, precision_at, draft_at = at
    layout, precision = space.layouts[layout_at], space.precisions[precision_at]
    draft, infrastructure = space.drafts[draft_at], around.infrastructure
    serving = replace(around.serving, speculation=draft.speculation)
    offers = [space.offers[at] for at in able]
    counts = space.replica_counts(layout)
    sizes = 1 if counts is None else len(counts)
    times = len(space.concurrencies) * sizes
    accelerators = [offer.accelerator for offer in offers]
    idle = [infrastructure.idle_power_w(one) for one in accelerators]
    accelerator = replace(
        stacked_accelerator(accelerators, times, wanted), idle_power=stacked_interval(idle, times)
    )
    calibration = stacked_calibration(
        [offer.calibration for offer in offers], accelerators, times, wanted
    )
    running = np.tile(np.repeat(np.array(space.concurrencies, dtype=float), sizes), len(offers))
    workload = InferenceWorkload(
        demand.input_tokens,
        demand.output_tokens,
        running,
        prefix_cached_ratio=demand.prefix_cached_ratio,
        calls_per_task=demand.calls_per_task,
    )
    deployment = Deployment(architecture, precision, accelerator, layout)
    memory = inference_memory(deployment, workload, serving, around.runtime)
    if draft.log_sigma:
        calibration = with_decode_spread(calibration, draft.log_sigma)
    given = (
        None
        if counts is None
        else np.tile(np.array(counts, dtype=float), len(offers) * len(space.concurrencies))
    )

    def computed(tiers: Tiered | None) -> tuple[InferenceLatency, FloatArray]:
        placed = deployment if tiers is None else replace(deployment, accelerator=tiers.accelerator)
        latency = inference_latency(
            placed,
            workload,
            serving,
            calibration if tiers is None else tiers.calibration,
            np.maximum(memory.max_concurrency.value, running),
        )
        return latency, _replicas(demand, running, latency.requests_per_s.value)

    fits = np.asarray(memory.fits)
    spilled = np.zeros(len(running), dtype=bool)
    if around.tiers:
        sharing = np.ones(len(running)) if given is None else given
        tiers = with_tiers(memory, calibration, accelerators, times, sharing, around)
        latency, needed = computed(tiers)
        if given is None and (needed > 1.0).any():
            # More replicas share a host with as many others as it holds.
            tiers = with_tiers(memory, calibration, accelerators, times, needed, around)
            latency, needed = computed(tiers)
        fits, spilled, accelerator = tiers.fits, tiers.spilled, tiers.accelerator
    else:
        latency, needed = computed(None)
    rate = latency.requests_per_s
    replicas = needed if given is None else given
    # Replicas are whole: what they could carry beyond the demand, they wait.
    carried = (
        rate
        if demand.requests_per_s is None
        else exact(np.minimum(demand.requests_per_s / replicas, rate.value))
    )
    share = np.minimum(carried.value / rate.value, 1.0)
    usage = Usage(
        memory_ratio=latency.usage.memory_ratio,
        compute_ratio=latency.usage.compute_ratio * share,
        busy_ratio=np.minimum(running * share, 1.0),
        kernel_ratio=latency.usage.kernel_ratio,
    )
    ranks = layout.replica_accelerators
    power = deployment_power(accelerator, ranks, usage, calibration.power, infrastructure)
    return Pass(
        layout=layout_at,
        precision=precision_at,
        draft=draft_at,
        ranks=ranks,
        offer=np.repeat(np.asarray(able, dtype=np.intp), times),
        concurrency=running,
        replicas=replicas,
        needed_replicas=needed,
        accelerators=replicas * ranks,
        carried_per_s=carried,
        memory=memory,
        fits=fits,
        spilled=spilled,
        latency=latency,
        power=power,
        energy=request_energy(power, carried),
    )


def _replicas(demand: Demand, running: FloatArray, rate: FloatArray) -> FloatArray:
    """Replicas that carry the demand, each running so many sequences [-]."""
    if demand.requests_per_s is not None:
        return np.ceil(demand.requests_per_s / rate)
    if demand.concurrency is not None:
        return np.ceil(demand.concurrency / running)
    return np.ones_like(running)
