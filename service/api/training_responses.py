"""Shapes of answers about training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.responses import Answer, Interval, Parallelism, Remedy, RemedyPlan, Repeatable


class TrainingPrecision(Answer):
    """Number formats by id."""

    weights: str
    activations: str


class TrainingOffload(Answer):
    """What is kept outside the accelerator, and where."""

    optimizer: str
    parameters: str
    activations: str
    host_memory_bytes: float | None


class TrainingFailures(Answer):
    """How often accelerators stop the run, and what that costs; null is the catalog's figure."""

    per_accelerator_day: float | None
    checkpoint_interval_s: float | None
    checkpoint_write_s: float | None
    restart_s: float | None


class Training(Answer):
    """The settings of training as they were understood."""

    method: str
    lora_rank: int
    lora_targets: list[str]
    trained_tensors: list[str]
    optimizer: str
    optimizer_state_dtype: str
    master_weights: bool
    gradient_dtype: str
    micro_batch_size: int
    gradient_accumulation_steps: int
    sequence_length: int
    activation_checkpointing: str
    checkpoint_every: int
    attention: str
    fused_kernels: bool
    dropout: bool
    cross_entropy: str
    sequence_parallel: bool
    pipeline_schedule: str
    virtual_stages: int
    zero_stage: int
    offload: TrainingOffload
    framework: str
    tokens: float | None
    failures: TrainingFailures


class TrainingDeployment(Answer):
    """The training run as it was understood, every default filled in."""

    model: str
    total_parameters: int
    active_parameters: int = Field(description="Parameters that one token uses.")
    accelerator: str
    accelerator_count: int
    precision: TrainingPrecision
    parallelism: Parallelism
    training: Training


class TrainingParts(Answer):
    """What takes memory on an accelerator; the total is the sum of the other six."""

    weights_bytes: Interval
    gradients_bytes: Interval
    optimizer_bytes: Interval
    activations_bytes: Interval = Field(
        description="What stays until the backward pass, and what the backward pass of a layer "
        "holds beside it."
    )
    logits_bytes: Interval = Field(description="Logits and their gradients, on the last stage.")
    runtime_bytes: Interval = Field(
        description="Context, collectives, gathered parameters and message buffers, temporaries "
        "of the optimizer's step, fragmentation."
    )
    total_bytes: Interval


class TrainingStage(TrainingParts):
    """Memory of an accelerator of one pipeline stage."""

    stage: int = Field(description="Counted from 0.")
    layers: int
    micro_batches_in_flight: float = Field(description="Whose activations the stage holds at once.")
    fits: bool


class TrainingMemory(TrainingParts):
    """Memory of a training run per accelerator, on the fullest one."""

    libraries_bytes: Interval = Field(
        description="Part of runtime_bytes that is context and collectives."
    )
    communication_bytes: Interval = Field(
        description="Part of runtime_bytes that is gathered parameters and message buffers."
    )
    update_bytes: Interval = Field(
        description="Part of runtime_bytes that only the optimizer's step takes."
    )
    capacity_bytes: float = Field(description="Memory of the accelerator.")
    fits: bool = Field(description="Whether the central estimate fits.")
    fits_certainty: Literal["yes", "likely", "unlikely", "no"] = Field(
        description="The same by the interval: yes or no where all of it does or does not fit, "
        "likely or unlikely where it lies on both sides."
    )
    headroom_bytes: Interval = Field(
        description="What everything together leaves of the memory; negative if it does not fit."
    )
    shortfall_bytes: Interval = Field(description="By how much it does not fit; 0 if it fits.")
    host_bytes: Interval = Field(
        description="Host memory that each accelerator's share of the run takes."
    )
    nvme_bytes: Interval = Field(description="The same of NVMe storage.")
    max_micro_batch_size: Interval = Field(
        description="Largest micro_batch_size that fits on every stage, the rest being the same."
    )
    trained_parameters: int = Field(description="Parameters that the optimizer updates.")
    fullest_stage: int = Field(description="Its number, counted from 0.")
    stages: list[TrainingStage] = Field(
        description="Every pipeline stage; of pipelines beyond 128 stages only the fullest."
    )
    would_help: list[Remedy] = Field(
        description="Single changes that gain memory, if it is short: the fitting ones first."
    )
    plans: list[RemedyPlan] = Field(
        description="If memory is short, changes in order until everything fits, for each reach."
    )


class MemoryTrainingAnswer(TrainingMemory, Repeatable):
    """Memory of a training run, and what fits."""

    deployment: TrainingDeployment
