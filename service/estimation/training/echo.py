"""The training run as it was understood, every default filled in: part of many answers."""

from __future__ import annotations

from typing import Annotated, cast

from pydantic import Field

from service.estimation.answers import Answer, Parallelism
from service.estimation.training.setup import ResolvedTraining
from service.estimation.writing import written


class TrainingPrecision(Answer):
    """Number formats by id."""

    weights: str
    activations: str


class TrainingOffload(Answer):
    """What is offloaded, and where to."""

    optimizer: str
    parameters: str
    activations: str
    host_memory_bytes: float | None


class TrainingFailures(Answer):
    """How often failures stop the run, and what that costs; null: the catalog's figure."""

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
    active_parameters: Annotated[int, Field(description="Parameters that one token uses.")]
    accelerator: str
    accelerator_count: int
    precision: TrainingPrecision
    parallelism: Parallelism
    training: Training


def echo_training(resolved: ResolvedTraining) -> TrainingDeployment:
    """The training run as it was understood, with every default filled in."""
    deployment = resolved.setup.deployment
    return {
        "model": resolved.model.id,
        "total_parameters": deployment.architecture.total_parameters,
        "active_parameters": deployment.architecture.active_parameters,
        "accelerator": resolved.accelerator.id,
        "accelerator_count": deployment.parallelism.accelerator_count,
        "precision": {
            "weights": deployment.precision.weights.id,
            "activations": deployment.precision.activations.id,
        },
        "parallelism": written(deployment.parallelism, Parallelism),
        "training": cast("Training", resolved.asked.model_dump(mode="json")),
    }
