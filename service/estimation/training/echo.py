"""The training run as it was understood, every default filled in: part of many answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from service.estimation.answers import Answer, Parallelism
from service.estimation.inference.echo import power_limit
from service.estimation.training.requests import TrainingSettingsRequest
from service.estimation.training.setup import ResolvedTraining
from service.estimation.writing import repeated, written


class TrainingPrecision(Answer):
    """Number formats by id."""

    weights: str
    activations: str


if TYPE_CHECKING:
    AskedSettings: TypeAlias = Answer
else:
    AskedSettings = repeated(TrainingSettingsRequest)


class TrainingSettings(AskedSettings):
    """The settings as they were understood."""

    framework_generation: str | None
    """Generation of the framework whose figures apply, by its id in /v1/engines; null if it has
    only one."""


class TrainingDeployment(Answer):
    """The training run as it was understood, every default filled in."""

    model: str
    total_parameters: int
    active_parameters: int
    """Parameters that one token uses."""
    accelerator: str
    accelerator_count: int
    platform: str | None
    """Machine by its id in /v1/platforms; null if none is known."""
    power_limit_w: float | None
    """Limit of power of each accelerator; null: its thermal design power."""
    precision: TrainingPrecision
    parallelism: Parallelism
    training: TrainingSettings


def echo_training(resolved: ResolvedTraining) -> TrainingDeployment:
    """The training run as it was understood, with every default filled in."""
    deployment = resolved.setup.deployment
    return {
        "model": resolved.model.id,
        "total_parameters": deployment.architecture.total_parameters,
        "active_parameters": deployment.architecture.active_parameters,
        "accelerator": resolved.accelerator.id,
        "accelerator_count": deployment.parallelism.accelerator_count,
        "platform": None if resolved.machine is None else resolved.machine.id,
        "power_limit_w": power_limit(deployment.accelerator),
        "precision": {
            "weights": deployment.precision.weights.id,
            "activations": deployment.precision.activations.id,
        },
        "parallelism": written(deployment.parallelism, Parallelism),
        "training": cast(
            "TrainingSettings",
            resolved.asked.model_dump(mode="json")
            | {"framework_generation": resolved.setup.settings.framework_generation},
        ),
    }
