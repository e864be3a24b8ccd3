"""Configurations of one structure, evaluated together.

Structure (formats, layout) is fixed within a batch; accelerators, the number of sequences that a
replica runs at once and the number of replicas vary over its rows. A batch is a stack of setups of
one replica each, which the pipeline of single estimates computes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from service.core.architecture.model import ModelArchitecture
from service.core.deployment import (
    NO_SPREAD,
    Accelerator,
    Deployment,
    InferenceWorkload,
    LengthSpread,
    Parallelism,
    Precision,
    ServingSettings,
    Speculation,
)
from service.core.elementwise import FloatArray, Number
from service.core.engine_defaults import STARTED, StartSettings
from service.core.estimate.inference import (
    InferenceEnergy,
    InferenceEstimate,
    InferenceSetup,
    estimate_inference,
    inference_energy,
)
from service.core.estimate.sizing import sized
from service.core.impacts.infrastructure import Infrastructure
from service.core.layouts import divides, in_groups
from service.core.memory.inference.plans import stage_plans
from service.core.memory.inference.runtime import RuntimeOverheads
from service.core.memory.inference.tiers import MemoryTiers
from service.core.memory.kv_cache import layout_sequence_bytes
from service.core.performance.calibration import EngineOverhead, PerformanceCalibration
from service.core.performance.inference.goodput import TimeLimit
from service.core.search.joins import joins
from service.core.search.kernels import has_kernels, holds_cache, multiplies, widens
from service.core.search.rows import TooSmall
from service.core.search.stack import Stacks, taken
from service.core.stacking import FIGURE

#: Sequences that a replica may run at once, as they are tried.
CONCURRENCY_GRID = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)

#: Share of the memory up to which weights and a sequence leave enough for caches that more pipeline
#: stages would only add what replicas do, too: half as much room again at most [-].
_MOST_OF_ROOMY = 0.5

#: Replicas that are tried, over the fewest that carry a rate.
_REPLICAS_TRIED = (1.0, 2.0, 4.0)
#: Numbers of replicas that one accelerator may have in a layout and formats, beside the fewest that
#: do not saturate.
MOST_SIZES = len(_REPLICAS_TRIED) + 1


@dataclass(frozen=True, slots=True)
class AcceleratorOption:
    """An accelerator that may be chosen, with what is measured of its family.

    ``start`` is what the engine runs with there.
    """

    accelerator: Accelerator = field(metadata=FIGURE)
    calibration: PerformanceCalibration = field(metadata=FIGURE)
    start: StartSettings = field(metadata=FIGURE)

    @property
    def engine(self) -> EngineOverhead:
        """The engine's overheads on it."""
        return self.calibration.engine


@dataclass(frozen=True, slots=True)
class Demand:
    """What the deployment has to carry.

    ``requests_per_s`` over all replicas [1/s], or else ``concurrency`` requests always in flight;
    with neither, one replica works as hard as it can. Lengths are means, with their spreads. Tasks
    of agents are those of :class:`~service.core.deployment.InferenceWorkload`.

    With a ``reserve_ratio``, requests of a rate come at random, and replicas are as many as keep
    ``limits`` of time with so much of what they could carry left free [-]; without one, replicas
    carry the rate at the steady load of each concurrency.
    """

    input_tokens: float
    output_tokens: float
    requests_per_s: float | None
    concurrency: float | None
    prefix_cached_ratio: float = 0.0
    calls_per_task: int = 1
    tool_s: float = 0.0
    context_growth_tokens: float = 0.0
    context_kept_cached: bool = False
    input_spread: LengthSpread = NO_SPREAD
    output_spread: LengthSpread = NO_SPREAD
    reserve_ratio: float | None = None
    limits: tuple[TimeLimit, ...] = ()

    @property
    def sized_by_rate(self) -> bool:
        """Whether replicas are counted by what arrives at random."""
        return self.requests_per_s is not None and self.reserve_ratio is not None

    @property
    def sequence_tokens(self) -> float:
        """Tokens of the longest sequence: that of a task's last call, answered [token]."""
        grown = self.context_growth_tokens * (self.calls_per_task - 1)
        return self.input_tokens + grown + self.output_tokens


@dataclass(frozen=True, slots=True)
class SpeculationOption:
    """Speculative decoding, or none.

    ``log_sigma`` is what not knowing the acceptance adds to the spread of decoding.
    """

    speculation: Speculation | None = None
    log_sigma: float = 0.0

    def divides(self, layout: Parallelism) -> bool:
        """Whether a draft model can be divided as the model is."""
        model = None if self.speculation is None else self.speculation.architecture
        return model is None or divides(model, layout)


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """What is combined; layouts are those of one replica.

    ``native_only`` leaves out formats that an accelerator does not multiply: they would run
    widened, if an engine has such kernels at all. ``speculations`` are ways to decode.
    ``concurrencies`` are the sequences that a replica runs at once, ``accelerator_counts`` the
    sizes of whole deployments: with them, replicas are as many as there is room for, without them
    as many as the demand takes. The engine is tried on accelerators at ``positions``, on all where
    that is None, but for those ``without_kernels`` for a format. With ``native_caches_only``,
    caches of 8-bit floats are tried where the hardware has units for them, and with
    ``needed_stages_only`` layers are divided no further than makes room that is used.
    """

    precisions: Sequence[Precision]
    layouts: Sequence[Parallelism]
    accelerators: Sequence[AcceleratorOption]
    most_accelerators: int
    native_only: bool = True
    native_caches_only: bool = False
    positions: frozenset[int] | None = None
    without_kernels: Mapping[str, frozenset[int]] = field(default_factory=dict)
    concurrencies: Sequence[float] = CONCURRENCY_GRID
    accelerator_counts: Sequence[int] | None = None
    speculations: Sequence[SpeculationOption] = (SpeculationOption(),)
    needed_stages_only: bool = False

    def fewer_stages(self, layout: Parallelism) -> Parallelism | None:
        """The deepest layout with fewer pipeline stages and the same groups; None without one."""
        groups = layout.tensor, layout.expert
        alike = [one for one in self.layouts if (one.tensor, one.expert) == groups]
        shallower = [one for one in alike if one.pipeline < layout.pipeline]
        return max(shallower, key=lambda one: one.pipeline, default=None)

    def replica_counts(self, layout: Parallelism) -> tuple[int, ...] | None:
        """Replicas of a layout that the counts of accelerators come to; None where demand says."""
        if self.accelerator_counts is None:
            return None
        least, ranks = layout.least_accelerators, layout.replica_accelerators
        return tuple(count // ranks for count in self.accelerator_counts if count % least == 0)


@dataclass(frozen=True, slots=True)
class Environment:
    """What stands around the accelerators: engine settings, measured overheads, other memory.

    ``tiers`` take what has no room in the accelerator; None where there is no other memory.
    """

    serving: ServingSettings
    runtime: RuntimeOverheads
    infrastructure: Infrastructure
    tiers: MemoryTiers | None = None


@dataclass(frozen=True, slots=True)
class EvaluatedBatch:
    """What is known of the configurations of one layout and one choice of formats, as arrays.

    ``layout``, ``precision`` and ``speculation`` are positions in the space, ``accelerator`` too,
    for each row. A row has ``replicas`` of the layout, each running ``concurrency_per_replica``
    sequences; ``needed_replicas`` would carry the demand. ``estimate`` and ``energy`` are of one
    replica.
    """

    layout: int
    precision: int
    speculation: int
    accelerator: NDArray[np.intp]
    concurrency_per_replica: FloatArray
    replicas: FloatArray
    needed_replicas: FloatArray
    estimate: InferenceEstimate
    energy: InferenceEnergy

    def __len__(self) -> int:
        return len(self.accelerator)

    @property
    def accelerators(self) -> FloatArray:
        """Accelerators of all replicas [-]."""
        return self.replicas * self.energy.accelerators


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Accelerators that a layout and formats cannot run on, and batches of those that can.

    ``too_small`` do not even hold the weights; of ``beyond_domain`` fast links join fewer than a
    tensor-parallel group has; ``unable`` lack the formats or a known power; ``roomy`` have room for
    caches with fewer stages already.
    """

    batches: tuple[EvaluatedBatch, ...]
    too_small: tuple[TooSmall, ...]
    beyond_domain: int
    unable: int
    roomy: int


def evaluate_batches(
    architecture: ModelArchitecture, space: SearchSpace, demand: Demand, environment: Environment
) -> Iterator[Evaluation]:
    """Everything that a space holds, one structure after the other."""
    stacks = Stacks(space.accelerators, environment.infrastructure)
    for layout_at, layout in enumerate(space.layouts):
        if layout.least_accelerators > space.most_accelerators:
            continue
        if space.replica_counts(layout) == ():
            continue
        for precision_at in range(len(space.precisions)):
            for speculation_at, speculation in enumerate(space.speculations):
                if speculation.divides(layout):
                    structure = (layout_at, precision_at, speculation_at)
                    yield evaluate(architecture, space, structure, demand, environment, stacks)


def evaluate(
    architecture: ModelArchitecture,
    space: SearchSpace,
    structure: tuple[int, int, int],
    demand: Demand,
    environment: Environment,
    stacks: Stacks[AcceleratorOption],
) -> Evaluation:
    """One layout, choice of formats and way to decode of a space, on all its accelerators.

    Batches of accelerators that are alike come in the order of the first of each; rows by
    accelerator, then concurrency, then replicas.
    """
    layout_at, precision_at, _ = structure
    layout, precision = space.layouts[layout_at], space.precisions[precision_at]
    precisions = (precision.weights.matrix_precision, "bf16")
    weights_bytes, _ = _needed_bytes(architecture, precision, layout, demand, environment)
    beyond = unable = roomy = 0
    shallower = space.fewer_stages(layout) if space.needed_stages_only else None
    roomy_bytes = inf
    if shallower is not None:
        needed = _needed_bytes(architecture, precision, shallower, demand, environment)
        roomy_bytes = sum(needed) / _MOST_OF_ROOMY
    small: list[TooSmall] = []
    able: list[int] = []
    lacking = space.without_kernels.get(precision.weights.listed_id, frozenset())
    for position, option in enumerate(space.accelerators):
        if space.positions is not None and position not in space.positions:
            continue
        accelerator = option.accelerator
        lacking_bytes = weights_bytes - accelerator.memory_bytes
        if not joins(accelerator, layout):
            beyond += 1
        elif accelerator.memory_bytes >= roomy_bytes:
            roomy += 1
        elif position in lacking or (
            space.native_caches_only and not holds_cache(accelerator, precision.kv_cache)
        ):
            unable += 1
        elif lacking_bytes > 0.0 and environment.tiers is None:
            small.append(TooSmall(precision_at, layout_at, position, float(lacking_bytes)))
        elif multiplies(
            accelerator,
            option.engine,
            precisions,
            native_only=space.native_only and not widens(precision.weights.listed_id, accelerator),
        ) and (
            not space.native_only or has_kernels(precision.weights.listed_id, accelerator.vendor)
        ):
            able.append(position)
        else:
            unable += 1
    counts = space.replica_counts(layout)
    sized_by_rate = counts is None and demand.sized_by_rate
    times = len(space.concurrencies) * (1 if counts is None else len(counts))
    times, batch = (1, _sized_batch) if sized_by_rate else (times, _batch)
    batches = [
        batch(architecture, space, structure, positions, option, demand, environment)
        for positions, option in stacks.of(tuple(able), times, precisions)
    ]
    return Evaluation(tuple(batches), tuple(small), beyond, unable, roomy)


def _needed_bytes(
    architecture: ModelArchitecture,
    precision: Precision,
    layout: Parallelism,
    demand: Demand,
    environment: Environment,
) -> tuple[float, float]:
    """Weights on the rank that holds most of them, and the longest sequence's cache there [B]."""
    serving = environment.serving
    engine = environment.runtime.of(serving.release)
    plans = stage_plans(architecture, precision, layout, serving.kv_block_tokens, engine.loading)
    fullest = max(plans, key=lambda plan: plan.weights.total_bytes)
    sequence = layout_sequence_bytes(fullest.cache, demand.sequence_tokens)
    return fullest.weights.total_bytes, float(engine.cache_copies * sequence)


def _batch(
    architecture: ModelArchitecture,
    space: SearchSpace,
    structure: tuple[int, int, int],
    positions: Sequence[int],
    option: AcceleratorOption,
    demand: Demand,
    environment: Environment,
) -> EvaluatedBatch:
    layout_at, precision_at, speculation_at = structure
    layout = space.layouts[layout_at]
    counts = space.replica_counts(layout)
    sizes = 1 if counts is None else len(counts)
    concurrency_per_replica = np.tile(
        np.repeat(np.array(space.concurrencies, dtype=float), sizes), len(positions)
    )
    copies: Number = 1.0
    if counts is not None:
        copies = np.tile(np.array(counts, dtype=float), len(concurrency_per_replica) // sizes)
    setup = replica_setup(
        architecture, space, structure, option, demand, environment, concurrency_per_replica
    )
    setup = replace(setup, copies=copies)
    estimate = estimate_inference(setup)
    needed = _replicas(demand, estimate)
    if counts is None:
        estimate = _carrying(demand, estimate, needed)
        needed = np.asarray(estimate.setup.copies)
    return EvaluatedBatch(
        layout=layout_at,
        precision=precision_at,
        speculation=speculation_at,
        accelerator=np.repeat(
            np.asarray(positions, dtype=np.intp), len(concurrency_per_replica) // len(positions)
        ),
        concurrency_per_replica=concurrency_per_replica,
        replicas=np.asarray(estimate.setup.copies),
        needed_replicas=needed,
        estimate=estimate,
        energy=inference_energy(estimate, environment.infrastructure, demand.requests_per_s),
    )


def replica_setup(
    architecture: ModelArchitecture,
    space: SearchSpace,
    structure: tuple[int, int, int],
    option: AcceleratorOption,
    demand: Demand,
    environment: Environment,
    concurrency_per_replica: Number,
) -> InferenceSetup:
    """One replica on each accelerator of a stack, or on one alone, with so many sequences."""
    layout_at, precision_at, speculation_at = structure
    speculation = space.speculations[speculation_at]
    return InferenceSetup(
        deployment=Deployment(
            architecture,
            space.precisions[precision_at],
            option.accelerator,
            space.layouts[layout_at],
        ),
        workload=InferenceWorkload(
            demand.input_tokens,
            demand.output_tokens,
            concurrency_per_replica,
            prefix_cached_ratio=demand.prefix_cached_ratio,
            calls_per_task=demand.calls_per_task,
            tool_s=demand.tool_s,
            context_growth_tokens=demand.context_growth_tokens,
            context_kept_cached=demand.context_kept_cached,
            input_spread=demand.input_spread,
            output_spread=demand.output_spread,
        ),
        serving=replace(
            environment.serving,
            speculation=speculation.speculation,
            **{name: getattr(option.start, name) for name in STARTED},
        ),
        runtime=environment.runtime,
        calibration=option.calibration,
        tiers=environment.tiers,
        acceptance_log_sigma=speculation.log_sigma,
    )


def _sized_batch(
    architecture: ModelArchitecture,
    space: SearchSpace,
    structure: tuple[int, int, int],
    positions: Sequence[int],
    option: AcceleratorOption,
    demand: Demand,
    environment: Environment,
) -> EvaluatedBatch:
    """Accelerators of a stack with as many replicas as carry the demand's rate, and with more.

    Beside the fewest that keep the limits stand the fewest that do not saturate, whatever users
    wait, and several times as many, which are faster.
    """
    layout_at, precision_at, speculation_at = structure
    rate, reserve = demand.requests_per_s or 0.0, demand.reserve_ratio or 0.0
    rows = len(positions)
    setup = replica_setup(
        architecture, space, structure, option, demand, environment, np.ones(rows, dtype=float)
    )
    layout = space.layouts[layout_at]
    most = space.most_accelerators // layout.least_accelerators * layout.joined_copies
    sizing = sized(setup, rows, rate, demand.limits, reserve, most)
    least = in_groups(sizing.saturating, layout)
    needed = in_groups(np.where(np.isfinite(sizing.holding), sizing.holding, least), layout)
    copies = np.array([least, *(needed * times for times in _REPLICAS_TRIED)])
    # Each number once, and no more than there may be, if there is such a number.
    tried = (copies <= most) & (np.diff(copies, axis=0, prepend=0.0) > 0.0)
    tried[0] |= np.logical_not(tried.any(axis=0)) & (copies[1] == copies[0])
    tried[1] |= np.logical_not(tried.any(axis=0))
    of, which = np.nonzero(tried.T)
    copies = copies.T[of, which]
    replica_per_s = rate / copies
    concurrency = sizing.sequences(of, replica_per_s / (1.0 - reserve))
    each = taken(option, of)
    estimate = estimate_inference(
        replace(
            setup,
            deployment=replace(setup.deployment, accelerator=each.accelerator),
            workload=replace(setup.workload, concurrency=concurrency, requests_per_s=replica_per_s),
            serving=replace(setup.serving, **{name: getattr(each.start, name) for name in STARTED}),
            calibration=each.calibration,
            copies=copies,
        )
    )
    return EvaluatedBatch(
        layout=layout_at,
        precision=precision_at,
        speculation=speculation_at,
        accelerator=np.asarray(positions, dtype=np.intp)[of],
        concurrency_per_replica=concurrency,
        replicas=copies,
        needed_replicas=np.asarray(needed)[of],
        estimate=estimate,
        energy=inference_energy(estimate, environment.infrastructure),
    )


def _carrying(demand: Demand, estimate: InferenceEstimate, needed: FloatArray) -> InferenceEstimate:
    """The estimate with as many copies as carry the demand.

    Where they share the memory of a host, more of them are slower each.
    """
    setup = replace(estimate.setup, copies=needed)
    if setup.tiers is None:
        return replace(estimate, setup=setup)
    estimate = estimate_inference(setup, estimate.memory)
    more = np.maximum(_replicas(demand, estimate), needed)
    return _carrying(demand, estimate, more) if (more > needed).any() else estimate


def _replicas(demand: Demand, estimate: InferenceEstimate) -> FloatArray:
    """Replicas that carry the demand, each running so many sequences [-]."""
    concurrency_per_replica = estimate.setup.workload.concurrency
    needed: FloatArray = np.ones_like(concurrency_per_replica)
    if demand.requests_per_s is not None:
        needed = np.ceil(demand.requests_per_s / estimate.latency.requests_per_s.value)
    elif demand.concurrency is not None:
        needed = np.ceil(demand.concurrency / concurrency_per_replica)
    return np.asarray(in_groups(needed, estimate.setup.deployment.parallelism))
