"""The training run as it was understood, every default filled in: part of many answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypeAlias, cast

from service.core.memory.training.settings import (
    AttentionKernel,
    Checkpointing,
    CrossEntropy,
    Schedule,
)
from service.estimation.answers import Answer, IfAny, Parallelism
from service.estimation.detail import WHOLE, Detail, part_of
from service.estimation.inference.echo import power_limit
from service.estimation.training.requests import (
    Dtype,
    TrainingOffloadRequest,
    TrainingSettingsRequest,
)
from service.estimation.training.setup import ResolvedTraining
from service.estimation.writing import repeated, written


class TrainingPrecision(Answer):
    """Number formats by id."""

    weights: str
    activations: str


if TYPE_CHECKING:
    AskedOffload: TypeAlias = Answer
    AskedSettings: TypeAlias = Answer
else:
    AskedOffload = repeated(TrainingOffloadRequest)
    AskedSettings = repeated(TrainingSettingsRequest)


class TrainingOffload(AskedOffload):
    """What is offloaded from the accelerator."""

    activations: Literal["none", "cpu", "tier"]


class TrainingSettings(AskedSettings):
    """The settings as they were understood."""

    activation_checkpointing: Checkpointing
    adapter_dropout: bool
    attention: AttentionKernel
    dropout: bool
    cross_entropy: CrossEntropy
    expandable_segments: bool
    fused_kernels: bool
    gradient_sum_dtype: Literal["none", "fp32"]
    lora_targets: list[str]
    master_weights: bool
    micro_batch_size: int
    gradient_accumulation_steps: int
    optimizer_state_dtype: Dtype
    sequence_parallel: bool
    offload: TrainingOffload
    zero_stage: int
    pipeline_schedule: Schedule
    virtual_stages: int
    framework_generation: NotRequired[IfAny[str]]
    """Generation of the framework whose figures apply, by its id in /v1/engines, if it has
    several."""


@part_of("deployment")
class RunSettings(Answer, total=False):
    """The settings as they were understood, every default filled in."""

    total_parameters: int
    active_parameters: int
    """Parameters that one token uses."""
    power_limit_w: IfAny[float]
    """Limit of power of each accelerator, where it is below its thermal design power."""
    training: TrainingSettings


class TrainingDeployment(RunSettings):
    """The training run as it was understood."""

    model: str
    accelerator: str
    accelerator_count: int
    platform: str | None
    """Machine by its id in /v1/platforms; null if none is known."""
    precision: TrainingPrecision
    parallelism: Parallelism


def echo_training(resolved: ResolvedTraining, detail: Detail = WHOLE) -> TrainingDeployment:
    """The run as it was understood; with every default filled in, if that is included."""
    deployment = resolved.setup.deployment
    understood: TrainingDeployment = {
        "model": resolved.model.id,
        "accelerator": resolved.accelerator.id,
        "accelerator_count": deployment.parallelism.accelerator_count,
        "platform": None if resolved.machine is None else resolved.machine.id,
        "precision": {
            "weights": deployment.precision.weights.id,
            "activations": deployment.precision.activations.id,
        },
        "parallelism": written(deployment.parallelism, Parallelism),
    }
    if not detail.has("deployment"):
        return understood
    return {
        **understood,
        "total_parameters": deployment.architecture.total_parameters,
        "active_parameters": deployment.architecture.active_parameters,
        "power_limit_w": power_limit(deployment.accelerator),
        "training": cast(
            "TrainingSettings",
            resolved.asked.model_dump(mode="json")
            | {"framework_generation": resolved.setup.settings.framework_generation},
        ),
    }
