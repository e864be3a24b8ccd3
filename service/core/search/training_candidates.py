"""Training runs by the hundred thousand: one array for each figure, one row a candidate.

Structure (formats, method, recomputation, sharding, layout) is fixed within a batch; accelerators
and micro-batches vary over its rows. A batch is a stack of runs, which the pipeline of single
estimates computes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.core.architecture.model import ModelArchitecture
from service.core.architecture.prediction import predicting
from service.core.deployment import Accelerator, Deployment, Parallelism, Precision
from service.core.elementwise import FloatArray
from service.core.estimate.training import (
    TrainingSpeed,
    TrainingSpeedSetup,
    run_energy,
    training_speed,
    whole_run,
)
from service.core.impacts.infrastructure import Infrastructure
from service.core.impacts.training_energy import TrainingEnergy
from service.core.interval import Interval
from service.core.memory.training.memory import TrainingMemory, training_memory
from service.core.memory.training.runtime import TrainingOverheads
from service.core.memory.training.settings import MicroBatch, TrainingSettings, makes_shard_groups
from service.core.memory.training.state import stage_state
from service.core.performance.calibration import EngineOverhead
from service.core.performance.kernels import peak_flops_per_s
from service.core.performance.training.calibration import TrainingCalibration
from service.core.performance.training.pipeline import fill_rounds, fills_stages
from service.core.performance.training.run import Failures, TrainingRun
from service.core.performance.training.traffic import HostRates
from service.core.performance.training.work import product_format
from service.core.recipes import InterleavedRounds
from service.core.search.joins import joins_run
from service.core.search.kernels import trains
from service.core.search.progress import Told, nobody
from service.core.search.rows import LeftOut, TooSmall, joined, taken
from service.core.search.stack import Stacks
from service.core.stacking import FIGURE

#: Sequences of a micro-batch, as they are tried.
MICRO_BATCH_GRID = (1, 2, 4, 8, 16, 32, 64)

_WATT_HOURS = 1000.0
#: Runs that may never end are no less certain than this.
_WIDEST_SPREAD = 1000.0


@dataclass(frozen=True, slots=True)
class TrainingAcceleratorOption:
    """An accelerator that may be chosen, with what is measured of its family and its host."""

    accelerator: Accelerator = field(metadata=FIGURE)
    calibration: TrainingCalibration = field(metadata=FIGURE)
    host: HostRates = field(metadata=FIGURE)

    @property
    def engine(self) -> EngineOverhead:
        """The framework's overheads on it."""
        return self.calibration.performance.engine


@dataclass(frozen=True, slots=True)
class TrainingDemand:
    """The run: ``tokens`` in all, in sequences of ``sequence_tokens``.

    An optimizer step takes ``global_batch_sequences``, whatever the layout.
    """

    tokens: float
    sequence_tokens: float
    global_batch_sequences: int
    failures: Failures


@dataclass(frozen=True, slots=True)
class TrainingVariant:
    """Number formats, and how it is trained; accumulation follows from batch and layout.

    Beside a pipeline the framework divides states up to ``most_zero_stage_in_pipeline``, None where
    nobody says. ``degrees`` are the kinds of parallelism that are tried, all where it is empty, and
    ``interleaved_rounds`` those in which an interleaved schedule takes micro-batches.
    """

    precision: Precision
    settings: TrainingSettings
    most_zero_stage_in_pipeline: int | None = None
    degrees: frozenset[str] = frozenset()
    interleaved_rounds: InterleavedRounds | None = None

    def suits(self, layout: Parallelism, layers: int, micro_batches: Sequence[int]) -> bool:
        """Whether a layout gives the variant something to divide, and frameworks combine them.

        ``layers`` are the model's, beside those that the variant adds, ``micro_batches`` the
        numbers of them that make a step.
        Fully sharded weights would be gathered anew for every micro-batch in a pipeline, which
        frameworks leave to ZeRO stage 1: Narayanan et al., 2021, section 2,
        https://arxiv.org/abs/2104.04473. Interleaved stages have as many layers each.
        """
        if self.degrees and not layout.kinds <= self.degrees | {"data"}:
            return False
        if self.settings.pipeline_schedule == "interleaved" and not (
            fills_stages(
                layers + self.settings.prediction_layers,
                layout.pipeline,
                self.settings.virtual_stages,
            )
            and all(
                fill_rounds(number, layout.pipeline, self.interleaved_rounds)
                for number in micro_batches
            )
        ):
            return False
        divided = layout.data * layout.context > 1
        if self.settings.zero_stage == 0:
            return not divided
        degree = self.settings.data_parallel_shard_degree
        if degree is not None and not makes_shard_groups(layout, degree):
            return False
        secondary = self.settings.secondary_ranks
        if secondary and not makes_shard_groups(layout, secondary):
            return False
        most = 2 if self.most_zero_stage_in_pipeline is None else self.most_zero_stage_in_pipeline
        return divided and not (self.settings.zero_stage > most and layout.pipeline > 1)


@dataclass(frozen=True)
class TrainingSpace:
    """What is combined; layouts have their data-parallel ranks, so are of whole runs.

    With ``desks_apart``, no run is divided among workstations.
    """

    variants: Sequence[TrainingVariant]
    layouts: Sequence[Parallelism]
    accelerators: Sequence[TrainingAcceleratorOption]
    micro_batches: Sequence[int] = MICRO_BATCH_GRID
    desks_apart: bool = False

    def trainable(self, variant_at: int) -> tuple[int, ...]:
        """Accelerators that train in a variant's formats."""
        return self._trainable[variant_at]

    def configurations(self, layout_at: int, layers: int, demand: TrainingDemand) -> int:
        """Combinations of one layout, those that have no rows among them."""
        layout = self.layouts[layout_at]
        sizes = _micro_batches(self, layout, demand)
        numbers = _micro_batch_numbers(sizes, layout, demand)
        suited = sum(variant.suits(layout, layers, numbers) for variant in self.variants)
        return suited * len(self.accelerators) * max(len(sizes), 1)

    @cached_property
    def _trainable(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(_trainable(self, variant)) for variant in self.variants)


@dataclass(frozen=True, slots=True)
class TrainingEnvironment:
    """What stands around the accelerators: measured overheads, hosts and buildings."""

    overheads: TrainingOverheads
    infrastructure: Infrastructure


@dataclass(frozen=True, slots=True)
class TrainingCandidates:
    """One row a candidate.

    ``variant``, ``layout`` and ``offer`` are positions in the lists that were searched.
    ``headroom_ratio`` is free memory over capacity, negative where it does not fit [-], and
    ``host_bytes`` and ``tier_bytes`` what the run keeps in each accelerator's share of host memory
    and of a memory tier [B].
    ``step_s`` is one optimizer step, ``wall_s`` the whole run with failures [s]; energy of IT
    equipment and accelerator time are those of the run [Wh, h]; ``*_spread`` is the ratio of the
    upper end of an interval to its value [-].
    """

    variant: NDArray[np.intp]
    layout: NDArray[np.intp]
    offer: NDArray[np.intp]
    micro_batch_size: FloatArray
    gradient_accumulation_steps: FloatArray
    accelerators: FloatArray
    headroom_ratio: FloatArray
    memory_spread_ratio: FloatArray
    host_bytes: FloatArray
    tier_bytes: FloatArray
    step_s: FloatArray
    wall_s: FloatArray
    wall_spread_ratio: FloatArray
    mfu_ratio: FloatArray
    it_wh: FloatArray
    it_wh_spread_ratio: FloatArray
    accelerator_hours: FloatArray
    power_w: FloatArray

    def __len__(self) -> int:
        return len(self.offer)

    def chosen(self, rows: NDArray[Any]) -> TrainingCandidates:
        """The given rows only."""
        return taken(self, rows)


def training_candidates(
    architecture: ModelArchitecture,
    space: TrainingSpace,
    demand: TrainingDemand,
    environment: TrainingEnvironment,
    told: Told = nobody,
) -> tuple[TrainingCandidates, LeftOut]:
    """Every combination of a space that divides the batch, fitting or not.

    ``told`` is told how far this is.

    Returns
    -------
    TrainingCandidates, LeftOut
        Rows in the order of layouts and variants; and combinations that hold not even weights
        and states, reach beyond fast links, cannot run, or do not divide the batch, which have no
        rows.
    """
    stacks = Stacks(space.accelerators, environment.infrastructure)
    parts: list[TrainingCandidates] = []
    left: list[LeftOut] = []
    for layout_at in range(len(space.layouts)):
        told(layout_at / len(space.layouts))
        found = evaluate_runs(architecture, space, layout_at, demand, environment, stacks)
        parts += map(run_rows, found.batches)
        left.append(found.left_out)
    return joined(TrainingCandidates, parts), LeftOut(
        tuple(small for one in left for small in one.too_small),
        sum(one.beyond_domain for one in left),
        sum(one.unable for one in left),
        sum(one.undivided for one in left),
    )


@dataclass(frozen=True, slots=True)
class EvaluatedRuns:
    """What is known of the runs of one layout and one way to train, as arrays.

    ``variant`` and ``layout`` are positions in the space, ``offer`` too, for each row.
    """

    variant: int
    layout: int
    offer: NDArray[np.intp]
    memory: TrainingMemory
    speed: TrainingSpeed
    energy: TrainingEnergy

    def __len__(self) -> int:
        return len(self.offer)

    @property
    def run(self) -> TrainingRun:
        """The whole run."""
        assert self.speed.run is not None  # noqa: S101 - there is a run
        return self.speed.run

    @property
    def run_kwh(self) -> Interval:
        """IT energy of the whole run [kWh]."""
        assert self.energy.run_kwh is not None  # noqa: S101 - there is a run
        return self.energy.run_kwh


@dataclass(frozen=True, slots=True)
class RunsEvaluation:
    """Runs of one layout; ``left_out`` have no rows, and stand for ``each`` micro-batch."""

    batches: tuple[EvaluatedRuns, ...]
    left_out: LeftOut
    each: int


def evaluate_runs(
    architecture: ModelArchitecture,
    space: TrainingSpace,
    layout_at: int,
    demand: TrainingDemand,
    environment: TrainingEnvironment,
    stacks: Stacks[TrainingAcceleratorOption],
) -> RunsEvaluation:
    """All ways to train in one layout of a space, on all its accelerators."""
    batches: list[EvaluatedRuns] = []
    small: list[TooSmall] = []
    beyond = unable = undivided = 0
    layout = space.layouts[layout_at]
    sizes = _micro_batches(space, layout, demand)
    numbers = _micro_batch_numbers(sizes, layout, demand)
    within = frozenset(
        at
        for at, offer in enumerate(space.accelerators)
        if joins_run(offer.accelerator, layout, desks_apart=space.desks_apart)
    )
    for variant_at, variant in enumerate(space.variants):
        if not variant.suits(layout, architecture.layer_count, numbers):
            continue
        trainable = space.trainable(variant_at)
        unable += len(space.accelerators) - len(trainable)
        joined_fast = [at for at in trainable if at in within]
        beyond += len(trainable) - len(joined_fast)
        if not sizes:
            undivided += len(joined_fast)
            continue
        trained = predicting(architecture, variant.settings.prediction_layers)
        needed = _state_bytes(trained, variant, layout)
        able: list[int] = []
        for at in joined_fast:
            lacking = needed - space.accelerators[at].accelerator.memory_bytes
            if lacking > 0.0:
                small.append(TooSmall(variant_at, layout_at, at, float(lacking)))
            else:
                able.append(at)
        structure = (variant_at, layout_at)
        batches += [
            _batch(trained, space, structure, positions, option, sizes, demand, environment)
            for positions, option in stacks.of(tuple(able), len(sizes), _precisions(variant))
        ]
    left = LeftOut(tuple(small), beyond, unable, undivided)
    return RunsEvaluation(tuple(batches), left, max(len(sizes), 1))


def _micro_batches(
    space: TrainingSpace, layout: Parallelism, demand: TrainingDemand
) -> tuple[int, ...]:
    """Micro-batches of which a whole number makes a rank's share of a step, and fills the stages.

    A pipeline of fewer micro-batches than stages leaves some of them without work all the time.
    """
    share, rest = divmod(demand.global_batch_sequences, layout.data)
    if rest:
        return ()
    return tuple(
        size
        for size in space.micro_batches
        if share % size == 0 and share // size >= layout.pipeline
    )


def _micro_batch_numbers(
    sizes: Sequence[int], layout: Parallelism, demand: TrainingDemand
) -> list[int]:
    """Micro-batches of a step by their size."""
    return [demand.global_batch_sequences // layout.data // size for size in sizes]


def _state_bytes(
    architecture: ModelArchitecture, variant: TrainingVariant, layout: Parallelism
) -> float:
    """What the first stage's ranks keep of the model through a step [B]."""
    settings = variant.settings.structural
    state = stage_state(architecture, variant.precision, layout, settings, 0, wide_tables=False)
    if settings.offload.optimizer != "none" or settings.paged:
        return state.weights_bytes
    return state.weights_bytes + state.gradients_bytes + state.optimizer_bytes


def _trainable(space: TrainingSpace, variant: TrainingVariant) -> Iterator[int]:
    """Accelerators that multiply a variant's formats themselves, and whose power is known."""
    for at, offer in enumerate(space.accelerators):
        accelerator = offer.accelerator
        known = set(accelerator.peak_flops_per_s)
        if (
            accelerator.thermal_design_power_w is not None
            and trains(accelerator, variant.precision.weights.listed_id)
            and all(
                _HALVES.get(wanted, {wanted}) & known and _has_peak(accelerator, wanted)
                for wanted in _precisions(variant)
            )
        ):
            yield at


#: The 16-bit formats stand for each other.
_HALVES = {name: {"bf16", "fp16"} for name in ("bf16", "fp16")}


def _has_peak(accelerator: Accelerator, precision: str) -> bool:
    try:
        peak_flops_per_s(accelerator, precision)
    except ValueError:
        return False
    return True


def _precisions(variant: TrainingVariant) -> tuple[str, ...]:
    chosen = product_format(variant.precision, variant.settings).matrix_precision
    return tuple(dict.fromkeys((chosen, "bf16")))


def _batch(
    architecture: ModelArchitecture,
    space: TrainingSpace,
    structure: tuple[int, int],
    positions: Sequence[int],
    option: TrainingAcceleratorOption,
    sizes: Sequence[int],
    demand: TrainingDemand,
    environment: TrainingEnvironment,
) -> EvaluatedRuns:
    variant_at, layout_at = structure
    variant, layout = space.variants[variant_at], space.layouts[layout_at]
    sequences = np.tile(np.array(sizes, dtype=float), len(positions))
    accumulation = demand.global_batch_sequences / layout.data / sequences
    setup = TrainingSpeedSetup(
        deployment=Deployment(architecture, variant.precision, option.accelerator, layout),
        micro_batch=MicroBatch(sequences, demand.sequence_tokens),
        settings=replace(variant.settings, gradient_accumulation_steps=accumulation),
        calibration=option.calibration,
        host=option.host,
    )
    memory = training_memory(
        setup.deployment, setup.micro_batch, setup.settings, environment.overheads
    )
    speed = training_speed(replace(setup, paged_bytes=memory.paged_bytes))
    speed = replace(speed, run=whole_run(speed, demand.tokens, demand.failures))
    return EvaluatedRuns(
        variant_at,
        layout_at,
        np.repeat(np.asarray(positions, dtype=np.intp), len(sizes)),
        memory,
        speed,
        run_energy(speed, environment.infrastructure),
    )


def run_rows(runs: EvaluatedRuns) -> TrainingCandidates:
    """The rows of a batch."""
    memory, speed, run, run_kwh = runs.memory, runs.speed, runs.run, runs.run_kwh
    setup, rows = speed.setup, np.ones(len(runs))
    return TrainingCandidates(
        variant=np.full(len(rows), runs.variant),
        layout=np.full(len(rows), runs.layout),
        offer=runs.offer,
        micro_batch_size=rows * setup.micro_batch.sequences,
        gradient_accumulation_steps=rows * setup.settings.gradient_accumulation_steps,
        accelerators=rows * setup.deployment.parallelism.accelerator_count,
        headroom_ratio=rows * (memory.headroom_bytes.value / memory.capacity_bytes),
        memory_spread_ratio=rows * (memory.total_bytes.high / memory.total_bytes.value),
        host_bytes=rows * memory.host_bytes,
        tier_bytes=rows * memory.tier_bytes,
        step_s=rows * speed.step.step_s,
        wall_s=rows * run.wall_s.value,
        wall_spread_ratio=rows * _spread(run.wall_s),
        mfu_ratio=rows * speed.step.mfu_ratio,
        it_wh=rows * run_kwh.value * _WATT_HOURS,
        it_wh_spread_ratio=rows * _spread(run_kwh),
        accelerator_hours=rows * run.accelerator_hours.value,
        power_w=rows * runs.energy.power.it_power_w.value,
    )


def _spread(figure: Interval) -> FloatArray:
    """Ratio of the upper end to the value [-]; either may be infinite."""
    value, high = np.atleast_1d(figure.value), np.atleast_1d(figure.high)
    ratio = np.divide(high, value, out=np.ones(len(value)), where=np.isfinite(value))
    found: FloatArray = np.minimum(ratio, _WIDEST_SPREAD)
    return found
