"""What techniques change: a training run or an inference deployment, whole."""

from __future__ import annotations

from service.core.deployment import Deployment, InferenceWorkload, ServingSettings
from service.core.lightweight import lightweight
from service.core.memory.training.settings import MicroBatch, TrainingSettings


@lightweight
class TrainingSetup:
    """A training run: what is trained where, in what micro-batches, and how."""

    deployment: Deployment
    micro_batch: MicroBatch
    settings: TrainingSettings


@lightweight
class InferenceSetup:
    """An inference deployment with its load and the engine's settings.

    ``in_host_memory`` says whether host memory holds what has no room in the accelerator.
    """

    deployment: Deployment
    workload: InferenceWorkload
    serving: ServingSettings
    in_host_memory: bool = False
