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
from service.core.techniques.technique import InferenceChange, Technique, TrainingChange


def _leaves_ranks(now: Parallelism, times: int) -> bool:
    """Whether so many times fewer data-parallel ranks are whole, and still hold the experts."""
    return now.data % times == 0 and now.tensor * now.data // times % now.expert == 0


def _tensor_training(memory: TrainingMemory) -> Iterator[TrainingChange]:
    now = memory.deployment.parallelism
    for tensor in wider_tensor(memory.deployment.architecture, now.tensor):
        times = tensor // now.tensor
        if now.data % times == 0:
            yield training_layout(
                f"use tensor parallelism {tensor} on the same accelerators",
                "same-result",
                times_micro_batches=times,
                tensor=tensor,
                data=now.data // times,
            )
        else:
            yield training_layout(
                f"use {now.accelerator_count * times} accelerators with tensor parallelism "
                f"{tensor}",
                "more-accelerators",
                tensor=tensor,
            )


def _pipeline_training(memory: TrainingMemory) -> Iterator[TrainingChange]:
    now, settings = memory.deployment.parallelism, memory.settings
    layers = memory.deployment.architecture.layer_count
    for pipeline in longer_pipelines(memory.deployment.architecture, now.pipeline):
        times = pipeline // now.pipeline
        if pipeline * settings.virtual_stages > layers:
            return
        if _leaves_ranks(now, times):
            yield training_layout(
                f"use {pipeline} pipeline stages on the same accelerators",
                "same-result",
                times_micro_batches=times,
                pipeline=pipeline,
                data=now.data // times,
            )
        else:
            yield training_layout(
                f"use {now.accelerator_count * times} accelerators in {pipeline} pipeline stages",
                "more-accelerators",
                pipeline=pipeline,
            )


def _context_training(memory: TrainingMemory) -> Iterator[TrainingChange]:
    now = memory.deployment.parallelism
    for times in (2, 4, 8):
        context = now.context * times
        if int(memory.micro_batch.tokens) % context:
            return
        if _leaves_ranks(now, times):
            yield training_layout(
                f"divide sequences among {context} of the same accelerators",
                "same-result",
                times_micro_batches=times,
                context=context,
                data=now.data // times,
            )
        else:
            yield training_layout(
                f"use {now.accelerator_count * times} accelerators and divide sequences among "
                f"{context}",
                "more-accelerators",
                context=context,
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
        times = tensor // now.tensor
        if now.data % times == 0:
            yield inference_layout(
                f"use fewer replicas, with tensor parallelism {tensor} on the same accelerators",
                "same-result",
                tensor=tensor,
                data=now.data // times,
            )
        else:
            yield inference_layout(
                f"use {now.accelerator_count * times} accelerators with tensor parallelism "
                f"{tensor}",
                "more-accelerators",
                tensor=tensor,
            )


def _pipeline_inference(memory: InferenceMemory) -> Iterator[InferenceChange]:
    now = memory.deployment.parallelism
    for pipeline in longer_pipelines(memory.deployment.architecture, now.pipeline):
        times = pipeline // now.pipeline
        if _leaves_ranks(now, times):
            yield inference_layout(
                f"use fewer replicas, of {pipeline} pipeline stages on the same accelerators",
                "same-result",
                pipeline=pipeline,
                data=now.data // times,
            )
        else:
            yield inference_layout(
                f"use {now.accelerator_count * times} accelerators in {pipeline} pipeline stages",
                "more-accelerators",
                pipeline=pipeline,
            )


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
