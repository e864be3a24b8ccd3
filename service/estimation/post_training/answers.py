"""Answers about post-training: one step of all its parts."""

from __future__ import annotations

from service.core.estimate.composition import PhaseName, PoolName
from service.estimation.answers import Answer, Interval, Parallelism, Repeatable
from service.estimation.costs.answers import TrainingCost, TrainingRunCost
from service.estimation.impacts.answers import Impact
from service.estimation.platforms import Facility
from service.estimation.post_training.requests import Objective
from service.estimation.training.answers import (
    MemoryVerdict,
    PlacedTraining,
    RuntimeParts,
    TrainingImpacts,
    TrainingParts,
    TrainingRun,
)


class PostTrainingMemory(TrainingParts, RuntimeParts, MemoryVerdict):
    """Memory of an accelerator that trains, with all that stands beside the model."""

    capacity_bytes: float
    """Memory of the accelerator."""
    held_beside_bytes: float
    """Part of weights_bytes: a teacher or reference, or an engine that does not sleep."""
    loss_beside_bytes: float
    """What a teacher's or reference's results, or its layers at work, take while the loss of a
    micro-batch is computed; within logits_bytes as far as these are above gradients' room."""
    host_bytes: Interval
    """Host memory used per accelerator."""
    max_micro_batch_size: Interval
    """Largest micro_batch_size that fits, everything else unchanged."""


class PoolMemory(Answer):
    """Memory of an accelerator of a pool beside the one that trains."""

    total_bytes: Interval
    capacity_bytes: float
    fits: bool


class AcceleratorPool(Answer):
    """Accelerators that work together."""

    pool: PoolName
    """Which pool it is."""
    model: str
    """Model that it runs: an id in /v1/models, or inline."""
    accelerator: str
    accelerator_count: int
    """Accelerators of the pool."""
    parallelism: Parallelism
    busy_s: Interval
    """Time of a step in which it works."""
    busy_ratio: float
    """Share of a step's time."""
    it_energy_per_step_kwh: Interval | None
    """Waiting for other pools included; null where power is unknown."""
    cost: TrainingCost


class StepPhase(Answer):
    """Work of a step on a pool."""

    phase: PhaseName
    """What is done."""
    pool: PoolName
    """The pool that does it."""
    time_s: Interval
    time_ratio: float
    """Share of the time of all phases."""
    it_energy_kwh: Interval | None


class PostTrainingStep(Answer):
    """A step: generation and judging, if any, and all updates that use it."""

    step_s: Interval
    updates_per_step: float
    """Optimizer steps."""
    sequences_per_step: float
    """Sequences that are trained on, each counted once; both of a pair."""
    tokens_per_step: float
    """Tokens that are trained on, fillings included."""
    generated_tokens_per_step: float
    """Tokens that are generated, all completions together."""
    tokens_per_s: Interval
    """Trained tokens, on all accelerators."""
    added_step_ratio: float
    """Time of a step over that of its optimizer steps alone."""
    phases: list[StepPhase]


class Preparation(Answer):
    """What is computed once and stored before the run."""

    stored_bytes_per_token: float
    """Of each token of the data."""
    stored_bytes: float | None
    """Of all data; null unless training.tokens is given."""
    time_s: Interval | None
    """Null unless training.tokens is given."""
    accelerator_hours: Interval | None
    it_energy_kwh: Interval | None
    impact: Impact | None
    read_bytes_per_s: float
    """What the run reads of it, for each accelerator."""


class PostTrainingEnergy(Answer):
    """IT energy of all pools, before the building's share."""

    it_power_w: Interval
    """Averaged over a step."""
    it_energy_per_step_kwh: Interval
    it_energy_per_1k_tokens_wh: Interval
    """For 1,000 trained tokens."""
    it_energy_run_kwh: Interval | None
    """Null unless training.tokens is given and the run ends; without preparation."""


class PostTrainingCost(Answer):
    """Costs of all pools together; null where a price of one of them is not known.

    They are alternatives: do not add them up.
    """

    rented: TrainingRunCost | None
    owned: TrainingRunCost | None
    emissions: TrainingRunCost | None


class PostTrainingAnswer(Repeatable):
    """Memory, time, energy, footprint and cost of post-training."""

    deployment: PlacedTraining
    objective: Objective
    """What is trained for."""
    fits: bool
    """Whether everything fits, on the accelerators of every pool."""
    memory: PostTrainingMemory
    generation_memory: PoolMemory | None
    """Of an accelerator while it generates; null where nothing is generated."""
    teacher_memory: PoolMemory | None
    """Of an accelerator of a teacher's own, or while it computes what is stored; null for
    others."""
    step: PostTrainingStep
    pools: list[AcceleratorPool]
    preparation: Preparation | None
    """Null where nothing is stored."""
    run: TrainingRun | None
    """Null unless training.tokens is given; tokens are those of all steps, without
    preparation."""
    facility: Facility
    energy: PostTrainingEnergy | None
    """Null where the power of an accelerator is unknown."""
    impacts: TrainingImpacts | None
    cost: PostTrainingCost
