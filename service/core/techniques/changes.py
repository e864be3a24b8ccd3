"""Small changes of setups, from which techniques are made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from service.core.architecture.model import (
    Attention,
    LatentAttention,
    MixtureOfExperts,
    ModelArchitecture,
)
from service.core.deployment import Deployment, Parallelism
from service.core.number_formats import NUMBER_FORMATS
from service.core.techniques.setup import InferenceSetup, TrainingSetup
from service.core.techniques.technique import Change, InferenceChange, Reach, TrainingChange

#: Doublings of accelerators that are tried at once.
_DOUBLINGS = 6


def training_settings(summary: str, reach: Reach | None = None, **changed: Any) -> TrainingChange:
    """Other settings of a training run."""

    def apply(setup: TrainingSetup) -> TrainingSetup:
        return replace(setup, settings=replace(setup.settings, **changed))

    return Change(summary, apply, reach)


def offloaded(summary: str, zero_stage: int | None = None, **places: str) -> TrainingChange:
    """Parts of a training run kept elsewhere, with another ZeRO stage where that takes one."""

    def apply(setup: TrainingSetup) -> TrainingSetup:
        kept: Any = dict(places)
        settings = replace(setup.settings, offload=replace(setup.settings.offload, **kept))
        if zero_stage is not None:
            settings = replace(settings, zero_stage=zero_stage)
        return replace(setup, settings=settings)

    return Change(summary, apply)


def training_formats(summary: str, **formats: str) -> TrainingChange:
    """Other number formats of a training run."""

    def apply(setup: TrainingSetup) -> TrainingSetup:
        return replace(setup, deployment=in_formats(setup.deployment, **formats))

    return Change(summary, apply)


def training_layout(
    summary: str,
    reach: Reach,
    times_micro_batches: float = 1.0,
    zero_stage: int | None = None,
    **degrees: int,
) -> TrainingChange:
    """Other degrees of parallelism, with so many times the micro-batches of a step per rank."""

    def apply(setup: TrainingSetup) -> TrainingSetup:
        steps = setup.settings.gradient_accumulation_steps * times_micro_batches
        settings = replace(setup.settings, gradient_accumulation_steps=max(1, round(float(steps))))
        if zero_stage is not None:
            settings = replace(settings, zero_stage=zero_stage)
        return replace(setup, deployment=laid_out(setup.deployment, **degrees), settings=settings)

    return Change(summary, apply, reach)


def inference_layout(summary: str, reach: Reach, **degrees: int) -> InferenceChange:
    """Other degrees of parallelism of an inference deployment."""

    def apply(setup: InferenceSetup) -> InferenceSetup:
        return replace(setup, deployment=laid_out(setup.deployment, **degrees))

    return Change(summary, apply, reach)


def inference_formats(summary: str, **formats: str) -> InferenceChange:
    """Other number formats of an inference deployment."""

    def apply(setup: InferenceSetup) -> InferenceSetup:
        return replace(setup, deployment=in_formats(setup.deployment, **formats))

    return Change(summary, apply)


def workload(summary: str, **changed: Any) -> InferenceChange:
    """Another load of an inference deployment."""

    def apply(setup: InferenceSetup) -> InferenceSetup:
        return replace(setup, workload=replace(setup.workload, **changed))

    return Change(summary, apply)


def serving(summary: str, **changed: Any) -> InferenceChange:
    """Other settings of an inference engine."""

    def apply(setup: InferenceSetup) -> InferenceSetup:
        return replace(setup, serving=replace(setup.serving, **changed))

    return Change(summary, apply)


def laid_out(deployment: Deployment, **degrees: int) -> Deployment:
    """The deployment with other degrees of parallelism."""
    return replace(deployment, parallelism=replace(deployment.parallelism, **degrees))


def in_formats(deployment: Deployment, **formats: str) -> Deployment:
    """The deployment with other number formats, by id."""
    chosen: Any = {part: NUMBER_FORMATS[name] for part, name in formats.items()}
    return replace(deployment, precision=replace(deployment.precision, **chosen))


def wider_tensor(architecture: ModelArchitecture, tensor: int) -> list[int]:
    """Doublings of tensor parallelism that the attention heads allow."""
    heads = {
        group.mixer.query_heads
        for group in architecture.groups
        if isinstance(group.mixer, Attention | LatentAttention)
    }
    return [
        wider
        for wider in (tensor * 2**doubling for doubling in range(1, _DOUBLINGS + 1))
        if all(count % wider == 0 for count in heads)
    ]


def longer_pipelines(architecture: ModelArchitecture, stages: int) -> list[int]:
    """Doublings of pipeline stages that the layers allow."""
    longer = (stages * 2**doubling for doubling in range(1, _DOUBLINGS + 1))
    return [count for count in longer if count <= architecture.layer_count]


def wider_experts(architecture: ModelArchitecture, parallelism: Parallelism) -> list[int]:
    """Wider expert parallelism on the same ranks, up to the layer with the fewest experts."""
    most = min(
        (
            group.feed_forward.experts
            for group in architecture.groups
            if isinstance(group.feed_forward, MixtureOfExperts)
        ),
        default=0,
    )
    ranks = parallelism.tensor * parallelism.data
    degrees = []
    wider = parallelism.expert * 2
    while wider <= min(ranks, most):
        if ranks % wider == 0:
            degrees.append(wider)
        wider *= 2
    return degrees
