"""Shapes of answers about the speed of training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.responses import Answer, Interval, Repeatable
from service.api.training_responses import TrainingDeployment


class StepParts(Answer):
    """What a step's time is spent on; the parts make up the step."""

    matrix_products_s: float = Field(description="Forward, backward and recomputed products.")
    attention_s: float
    elementwise_s: float = Field(
        description="Norms, activations, sums, casts, losses: whatever moves memory alone."
    )
    exposed_model_messages_s: float = Field(
        description="Tensor, expert, context and pipeline messages that do not hide."
    )
    exposed_data_messages_s: float = Field(
        description="Gradients and gathered weights that do not hide behind computation."
    )
    pipeline_bubble_s: float = Field(
        description="Stages waiting for the first and the last micro-batches."
    )
    optimizer_s: float = Field(description="The optimizer's update.")
    offload_stall_s: float = Field(
        description="Transfers to the host that computation does not hide."
    )
    overhead_s: float = Field(
        description="The accelerator waiting for instructions, routing of tokens to experts."
    )


class Operations(Answer):
    """Floating-point operations per token, by count of operators and by rule of thumb."""

    model_flops_per_token: float = Field(description="Operators without recomputation.")
    hardware_flops_per_token: float = Field(description="Operators with recomputation.")
    six_nd_flops_per_token: float = Field(description="Six per active parameter.")
    model_over_six_nd_ratio: float = Field(description="Operators over the rule of thumb.")


class TrainingRun(Answer):
    """The whole run, failures and restarts included."""

    tokens: float
    steps: float
    days: Interval | None = Field(description="Null where failures let the run make no progress.")
    useful_days: Interval = Field(description="Without failures and checkpoints.")
    accelerator_hours: Interval | None
    goodput_ratio: Interval = Field(description="Useful time over all time.")
    mean_time_between_failures_s: float = Field(description="Of the whole run's accelerators.")
    checkpoint_interval_s: float = Field(
        description="Useful time between checkpoints; the best one unless it was given."
    )
    expected_failures: Interval | None


class TrainingSpeed(Answer):
    """Time of a training step, throughput and utilisation."""

    step_s: Interval
    tokens_per_step: float = Field(
        description="Tokens of all data-parallel ranks in an optimizer step."
    )
    tokens_per_s: Interval
    tokens_per_s_per_accelerator: Interval
    mfu_ratio: Interval = Field(description="Operators without recomputation over dense peak.")
    hfu_ratio: Interval = Field(description="Operators with recomputation over dense peak.")
    bottleneck: Literal[
        "compute", "memory_bandwidth", "interconnect", "pipeline", "offload", "overhead"
    ]
    parts: StepParts
    recompute_s: float = Field(description="Part of the computation that is done twice.")
    exposed_communication_s: float = Field(description="Messages that computation does not hide.")
    hidden_communication_s: float = Field(description="Messages that computation hides.")
    pipeline_bubble_ratio: float = Field(description="Share of the step.")
    offload_stall_ratio: float = Field(description="Share of the step.")
    offload_step_factor_ratio: float = Field(
        description="Step with the host in the way over the step without, 1 or more."
    )
    operations: Operations
    run: TrainingRun | None = Field(description="Null unless training.tokens is given.")


class LatencyTrainingAnswer(TrainingSpeed, Repeatable):
    """Speed of a training run."""

    deployment: TrainingDeployment
    fits: bool = Field(description="Whether the run fits into memory; speed is answered anyway.")
