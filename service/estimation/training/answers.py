"""Answers about training: memory, speed, and everything about one run."""

from __future__ import annotations

from typing import Literal, NotRequired

from service.estimation.answers import (
    Answer,
    Constraint,
    FitCertainty,
    IfAny,
    Interval,
    Repeatable,
)
from service.estimation.compliance.answers import Compliance
from service.estimation.costs.answers import TrainingCost
from service.estimation.detail import part_of
from service.estimation.impacts.answers import Impact
from service.estimation.mitigations import Mitigations
from service.estimation.platforms import Facility
from service.estimation.training.echo import TrainingDeployment


class TrainingParts(Answer):
    """Memory of an accelerator by part; the total is the sum of the other six."""

    weights_bytes: Interval
    gradients_bytes: Interval
    optimizer_bytes: Interval
    activations_bytes: Interval
    """Activations stored for the backward pass, and the working set of one layer's backward pass;
    without the part whose memory gradients use later."""
    logits_bytes: Interval
    """Logits and their gradients, on the last stage; without the part whose memory gradients use
    later."""
    runtime_bytes: Interval
    """The driver's context, buffers of collectives and messages, gathered parameters, temporary
    tensors of the optimizer step, and fragmentation."""
    total_bytes: Interval


class TrainingStage(TrainingParts):
    """Memory of an accelerator of one pipeline stage."""

    stage: int
    """Counted from 0."""
    layers: int
    """Layers of the stage."""
    micro_batches_in_flight: float
    """Micro-batches whose activations the stage holds at once."""
    fits: bool


@part_of("memory.by_class")
class RuntimeParts(Answer, total=False):
    """What the runtime memory is made of, and memory as frameworks show it."""

    stored_activations_bytes: float
    """All activations kept for the backward pass, as formulas in the literature count them.
    activations_bytes is the part of these and of the working set that needs memory of its own."""
    libraries_bytes: Interval
    """Part of runtime_bytes for context and collectives."""
    communication_bytes: Interval
    """Part of runtime_bytes for gathered parameters and message buffers."""
    update_bytes: Interval
    """Part of runtime_bytes used only by the optimizer step."""
    reserved_bytes: Interval
    """Memory that the framework's allocator holds, as in torch.cuda.max_memory_reserved: the total
    without libraries and paged states."""
    allocated_bytes: Interval
    """Peak memory of tensors, as in torch.cuda.max_memory_allocated."""


class MemoryVerdict(FitCertainty):
    """Whether it fits, and by how much."""

    fits: bool
    """Whether the central estimate fits, and host memory suffices for what is kept there."""
    headroom_bytes: Interval
    """Memory left after the total and what memory_reserve_ratio keeps free; negative if it does not
    fit."""
    shortfall_bytes: Interval
    """Missing memory; 0 if it fits."""


@part_of("memory.stages")
class TrainingStages(Answer, total=False):
    """Memory of the other stages."""

    stages: list[TrainingStage]
    """Every pipeline stage; above 128 stages only the fullest."""


class TrainingMemory(TrainingParts, RuntimeParts, MemoryVerdict, TrainingStages, Mitigations):
    """Memory of a training run per accelerator, on the fullest one."""

    capacity_bytes: float
    """Memory of the accelerator."""
    host_bytes: Interval
    """Host memory used per accelerator."""
    nvme_bytes: Interval
    """NVMe storage used per accelerator."""
    tier_bytes: Interval
    """Memory used per accelerator in offload.memory_tier."""
    max_micro_batch_size: Interval
    """Largest micro_batch_size that fits on every stage if nothing else changes."""
    trained_parameters: int
    """Parameters that the optimizer updates."""
    fullest_stage: int
    """Number of the stage that needs the most memory, counted from 0."""


class MemoryTrainingAnswer(TrainingMemory, Repeatable):
    """Memory of a training run, and what fits."""

    deployment: TrainingDeployment


class StepParts(Answer):
    """Time of a step by part; the parts add up to the step."""

    matrix_products_s: float
    """Forward, backward and recomputed products."""
    attention_s: float
    """Attention scores and the weighted sums of values, forward and backward."""
    elementwise_s: float
    """Normalisation, activations, sums, casts and losses: everything else that is bound by memory
    traffic."""
    exposed_model_messages_s: float
    """Tensor, expert, context and pipeline messages that computation does not hide."""
    exposed_data_messages_s: float
    """Gradient and weight messages that computation does not hide."""
    pipeline_bubble_s: float
    """Stages waiting for the first and last micro-batches."""
    optimizer_s: float
    """The optimizer's update."""
    offload_stall_s: float
    """Transfers to the host that computation does not hide, and optimizer states that are paged in
    and out for the update."""
    overhead_s: float
    """Waiting for kernel launches, and routing tokens to experts."""
    own_correction_s: NotRequired[float]
    """Time added (or, if negative, removed) by your own measurements or a given mfu_ratio."""


class Operations(Answer):
    """Floating-point operations per token, counted by operator and by the rule of thumb."""

    model_flops_per_token: float
    """Counted by operator, without recomputation."""
    hardware_flops_per_token: float
    """Counted by operator, with recomputation."""
    six_nd_flops_per_token: float
    """Six operations per active parameter."""
    model_over_six_nd_ratio: float
    """Count of operators over the rule of thumb."""


class TrainingRun(Answer):
    """The whole run, with failures and restarts."""

    tokens: float
    """Tokens of the run, including padding."""
    steps: float
    """Optimizer steps of the run."""
    days: Interval | None
    """Null if failures prevent any progress."""
    useful_days: Interval
    """Without failures and checkpoints."""
    accelerator_hours: Interval | None
    goodput_ratio: Interval
    """Useful time over total time, after failures and other losses."""
    failures_goodput_ratio: Interval
    """Useful time over total time with failures alone."""
    other_losses_ratio: Interval
    """Share of the time between failures that goes to evaluations, data and checks."""
    mean_time_between_failures_s: float
    """Over all accelerators of the run."""
    checkpoint_interval_s: float
    """Useful time between checkpoints; the optimal one unless it was given."""
    expected_failures: Interval | None


@part_of("latency.breakdown")
class StepBreakdown(Answer, total=False):
    """What the time of a step consists of."""

    parts: StepParts
    recompute_s: float
    """Time of recomputation."""
    exposed_expert_communication_s: float
    """Part of exposed_communication_s to and from experts on other accelerators."""
    hidden_communication_s: float
    """Messages hidden behind computation."""
    offload_stall_ratio: float
    """Share of the step."""
    offload_step_factor_ratio: float
    """Time of a step with offloading divided by its time without; at least 1."""
    operations: Operations


class TrainingSpeed(StepBreakdown):
    """Time of a training step, throughput and utilisation."""

    step_s: Interval
    tokens_per_step: float
    """Tokens of all data-parallel ranks in one optimizer step, including padding."""
    global_batch_sequences: float
    """Sequences of all data-parallel ranks in one optimizer step."""
    global_batch_tokens: float
    """The same as tokens_per_step, by the name that trainers use."""
    tokens_per_s: Interval
    tokens_per_s_per_accelerator: Interval
    useful_tokens_ratio: float
    """Share of these tokens that is neither padding nor waiting for ranks with longer sequences; 1
    without sequence_lengths."""
    mfu_ratio: Interval
    """Model FLOPs utilisation: operations without recomputation, relative to the dense peak."""
    hfu_ratio: Interval
    """Hardware FLOPs utilisation: operations with recomputation, relative to the dense peak."""
    model_tflops_per_accelerator: Interval
    """Achieved TFLOP/s per accelerator, without recomputation and masked pairs of tokens."""
    hardware_tflops_per_accelerator: Interval
    """Achieved TFLOP/s per accelerator, counting everything that it computes."""
    bottleneck: Literal[
        "compute", "memory_bandwidth", "interconnect", "pipeline", "offload", "overhead"
    ]
    exposed_communication_s: float
    """Messages not hidden behind computation."""
    pipeline_bubble_ratio: float
    """Share of the step."""
    run: NotRequired[IfAny[TrainingRun]]
    """Present if training.tokens is given."""


class LatencyTrainingAnswer(TrainingSpeed, Repeatable):
    """Speed of a training run."""

    deployment: TrainingDeployment
    fits: bool
    """Whether the run fits in memory; speed is estimated in any case."""


class PlacedTraining(TrainingDeployment):
    """The training run as it was understood, and where."""

    region: str | None
    """Null where none was asked for."""


@part_of("energy.breakdown")
class TrainingEnergyParts(Answer, total=False):
    """Power by part, before the building's share."""

    accelerator_idle_power_w: Interval
    host_power_per_accelerator_w: Interval
    """The accelerator's share of the machine's power, including losses of power supplies."""
    memory_utilisation_ratio: float
    compute_utilisation_ratio: float


class TrainingEnergy(TrainingEnergyParts):
    """Power and energy of the run, before the building's share."""

    accelerator_power_w: Interval
    """Per accelerator, averaged over a step."""
    it_power_w: Interval
    """Power of all accelerators and their hosts, at the wall socket."""
    it_energy_per_step_kwh: Interval
    it_energy_per_1k_tokens_wh: Interval
    it_energy_run_kwh: NotRequired[IfAny[Interval]]
    """Present if training.tokens is given and the run ends."""


class TrainingImpacts(Answer):
    """Footprint per step, 1,000 tokens, day of training, and of the whole run."""

    per_step: Impact
    per_1k_tokens: Impact
    per_day: Impact
    run: NotRequired[IfAny[Impact]]
    """Present if training.tokens is given and the run ends."""


class EstimateTrainingParts(Answer):
    """Everything about one training run, without catalog revision and provenance."""

    deployment: PlacedTraining
    memory: TrainingMemory
    latency: TrainingSpeed
    facility: Facility
    energy: TrainingEnergy | None
    impacts: TrainingImpacts | None
    cost: TrainingCost
    constraints: list[Constraint]
    compliance: NotRequired[IfAny[Compliance]]
    """Present if requested."""


class EstimateTrainingAnswer(EstimateTrainingParts, Repeatable):
    """Everything about one training run."""
