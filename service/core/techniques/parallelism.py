"""Techniques that divide a model or a batch among accelerators."""

from __future__ import annotations

from collections.abc import Iterator

from service.core.deployment import Parallelism
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.training.memory import TrainingMemory
from service.core.techniques.changes import (
    inference_layout,
    longer_pipelines,
    training_layout,
    training_settings,
    wider_experts,
    wider_tensor,
)
from service.core.techniques.technique import InferenceChange, Reach, Technique, TrainingChange


def _wider(
    now: Parallelism, degree: str, wider: int, same: str, more: str
) -> tuple[str, Reach, dict[str, int], int]:
    """How to reach a wider degree, and how many times fewer data-parallel ranks are left.

    On the same accelerators where the ranks that are left are whole and still hold the experts.
    """
    times = wider // int(getattr(now, degree))
    tensor = wider if degree == "tensor" else now.tensor
    if now.data % times == 0 and tensor * now.data // times % now.expert == 0:
        return same, "same-result", {degree: wider, "data": now.data // times}, times
    summary = f"use {now.accelerator_count * times} accelerators {more}"
    return summary, "more-accelerators", {degree: wider}, 1


def _wider_training(now: Parallelism, degree: str, wider: int, *ways: str) -> TrainingChange:
    summary, reach, degrees, times = _wider(now, degree, wider, *ways)
    return training_layout(summary, reach, times_micro_batches=times, **degrees)


def _wider_inference(now: Parallelism, degree: str, wider: int, *ways: str) -> InferenceChange:
    summary, reach, degrees, _ = _wider(now, degree, wider, *ways)
    return inference_layout(summary, reach, **degrees)


def _tensor_training(memory: TrainingMemory) -> Iterator[TrainingChange]:
    now = memory.deployment.parallelism
    for tensor in wider_tensor(memory.deployment.architecture, now.tensor):
        same = f"use tensor parallelism {tensor} on the same accelerators"
        yield _wider_training(now, "tensor", tensor, same, f"with tensor parallelism {tensor}")


def _pipeline_training(memory: TrainingMemory) -> Iterator[TrainingChange]:
    now, settings = memory.deployment.parallelism, memory.settings
    layers = memory.deployment.architecture.layer_count
    for pipeline in longer_pipelines(memory.deployment.architecture, now.pipeline):
        if pipeline * settings.virtual_stages > layers:
            return
        same = f"use {pipeline} pipeline stages on the same accelerators"
        yield _wider_training(now, "pipeline", pipeline, same, f"in {pipeline} pipeline stages")


def _context_training(memory: TrainingMemory) -> Iterator[TrainingChange]:
    now = memory.deployment.parallelism
    for context in (now.context * times for times in (2, 4, 8)):
        if int(memory.micro_batch.tokens) % context:
            return
        same = f"divide sequences among {context} of the same accelerators"
        yield _wider_training(
            now, "context", context, same, f"and divide sequences among {context}"
        )


def _experts_training(memory: TrainingMemory) -> Iterator[TrainingChange]:
    now = memory.deployment.parallelism
    for expert in wider_experts(memory.deployment.architecture, now):
        yield training_layout(
            f"divide experts among {expert} of the same accelerators", "same-result", expert=expert
        )


def _sequence_training(memory: TrainingMemory) -> Iterator[TrainingChange]:
    if memory.deployment.parallelism.tensor > 1 and not memory.settings.sequence_parallel:
        yield training_settings(
            "divide norms and residuals among tensor-parallel ranks", sequence_parallel=True
        )


def _tensor_inference(memory: InferenceMemory) -> Iterator[InferenceChange]:
    now = memory.deployment.parallelism
    for tensor in wider_tensor(memory.deployment.architecture, now.tensor):
        wide = f"with tensor parallelism {tensor}"
        same = f"use fewer replicas, {wide} on the same accelerators"
        yield _wider_inference(now, "tensor", tensor, same, wide)


def _pipeline_inference(memory: InferenceMemory) -> Iterator[InferenceChange]:
    now = memory.deployment.parallelism
    for pipeline in longer_pipelines(memory.deployment.architecture, now.pipeline):
        same = f"use fewer replicas, of {pipeline} pipeline stages on the same accelerators"
        yield _wider_inference(now, "pipeline", pipeline, same, f"in {pipeline} pipeline stages")


def _experts_inference(memory: InferenceMemory) -> Iterator[InferenceChange]:
    now = memory.deployment.parallelism
    for expert in wider_experts(memory.deployment.architecture, now):
        yield inference_layout(
            f"divide experts among {expert} of the same accelerators", "same-result", expert=expert
        )


def _replicas_inference(memory: InferenceMemory) -> Iterator[InferenceChange]:
    now = memory.deployment.parallelism
    for times in (2, 4, 8, 16, 32, 64):
        if memory.workload.concurrency >= now.data * times:
            yield inference_layout(
                f"use {now.accelerator_count * times} accelerators in {now.data * times} replicas",
                "more-accelerators",
                data=now.data * times,
            )


TECHNIQUES = (
    Technique("data-parallelism", "more-accelerators", inference=_replicas_inference),
    Technique(
        "tensor-parallelism",
        "more-accelerators",
        training=_tensor_training,
        inference=_tensor_inference,
    ),
    Technique("sequence-parallelism", "same-result", training=_sequence_training),
    Technique(
        "pipeline-parallelism",
        "more-accelerators",
        training=_pipeline_training,
        inference=_pipeline_inference,
    ),
    Technique("context-parallelism", "more-accelerators", training=_context_training),
    Technique(
        "expert-parallelism",
        "same-result",
        training=_experts_training,
        inference=_experts_inference,
    ),
)
