"""What techniques change: a training run, whole."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.deployment import InferenceDeployment
from service.core.memory.training_settings import MicroBatch, TrainingSettings


@dataclass(frozen=True, slots=True)
class TrainingSetup:
    """A training run: what is trained where, in what micro-batches, and how."""

    deployment: InferenceDeployment
    micro_batch: MicroBatch
    settings: TrainingSettings
