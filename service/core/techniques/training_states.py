"""Techniques for weights, gradients and optimizer states of training runs."""

from __future__ import annotations

from collections.abc import Iterator

from service.core.memory.training.memory import TrainingMemory
from service.core.techniques.changes import (
    offloaded,
    training_formats,
    training_layout,
    training_settings,
)
from service.core.techniques.technique import Technique, TrainingChange

#: Optimizers for which the update can run on the host.
#: Source: DeepSpeed, ops/adam and ops/lion (CPU implementations), 2024.
_HOST_OPTIMIZERS = ("adamw", "lion")


def _shards(memory: TrainingMemory) -> int:
    parallelism = memory.deployment.parallelism
    return parallelism.data * parallelism.context


def _zero_1(memory: TrainingMemory) -> Iterator[TrainingChange]:
    if _shards(memory) > 1 and memory.settings.zero_stage < 1:
        yield training_settings("divide optimizer states among data-parallel ranks", zero_stage=1)


def _zero_2(memory: TrainingMemory) -> Iterator[TrainingChange]:
    # Pipelines reduce gradients of many micro-batches: stage 2 would scatter them every time.
    if (
        _shards(memory) > 1
        and memory.settings.zero_stage < 2
        and memory.deployment.parallelism.pipeline == 1
    ):
        yield training_settings("divide gradients and optimizer states", zero_stage=2)


def _zero_3(memory: TrainingMemory) -> Iterator[TrainingChange]:
    parallelism, settings = memory.deployment.parallelism, memory.settings
    if _shards(memory) > 1 and settings.zero_stage < 3:
        yield training_settings("divide weights, gradients and optimizer states", zero_stage=3)
    for times in (2, 4, 8, 16, 32, 64):
        data = parallelism.data * times
        count = parallelism.accelerator_count * times
        yield training_layout(
            f"use {count} accelerators, data-parallel and fully sharded",
            "more-accelerators",
            times_micro_batches=1 / times,
            zero_stage=3,
            data=data,
        )


def _whole_shard_group(memory: TrainingMemory) -> Iterator[TrainingChange]:
    ranks = memory.deployment.parallelism.data
    if memory.settings.shard_groups(ranks) > 1:
        yield training_settings(
            "divide states among all data-parallel ranks", data_parallel_shard_degree=ranks
        )


def _narrow_states(memory: TrainingMemory) -> Iterator[TrainingChange]:
    narrow = {"adamw": "adamw-8bit", "paged-adamw": "paged-adamw-8bit"}
    settings = memory.settings
    if settings.optimizer in narrow and settings.offload.optimizer == "none":
        yield training_settings(
            f"keep optimizer states in 8 bit ({narrow[settings.optimizer]})",
            optimizer=narrow[settings.optimizer],
        )


def _paged(memory: TrainingMemory) -> Iterator[TrainingChange]:
    paged = {"adamw": "paged-adamw", "adamw-8bit": "paged-adamw-8bit"}
    settings, accelerator = memory.settings, memory.deployment.accelerator
    if (
        settings.optimizer in paged
        and settings.offload.optimizer == "none"
        and not accelerator.unified_memory
    ):
        yield training_settings(
            f"page out optimizer states that do not fit ({paged[settings.optimizer]})",
            optimizer=paged[settings.optimizer],
        )


def _other_optimizer(memory: TrainingMemory) -> Iterator[TrainingChange]:
    if memory.settings.optimizer in ("adamw", "paged-adamw"):
        yield training_settings("keep one moment instead of two (lion)", optimizer="lion")
        yield training_settings("factor the second moments (adafactor)", optimizer="adafactor")


def _without_master(memory: TrainingMemory) -> Iterator[TrainingChange]:
    weights = memory.deployment.precision.weights
    if memory.settings.master_weights and weights.bits_per_element <= 16.0:
        yield training_settings("keep no 32-bit copy of the weights", master_weights=False)


def _narrow_gradients(memory: TrainingMemory) -> Iterator[TrainingChange]:
    if memory.settings.gradient_bytes > 2.0:
        yield training_settings("keep gradients in 16 bit", gradient_bytes=2.0)


def _mixed_precision(memory: TrainingMemory) -> Iterator[TrainingChange]:
    precision = memory.deployment.precision
    if precision.activations.bits_per_element > 16.0:
        yield training_formats("compute activations in bf16", activations="bf16")
        if precision.weights.bits_per_element > 16.0 and memory.settings.method == "full":
            yield training_formats(
                "compute and keep weights in bf16, with a 32-bit copy",
                activations="bf16",
                weights="bf16",
            )


def _offload_optimizer(memory: TrainingMemory) -> Iterator[TrainingChange]:
    settings, accelerator = memory.settings, memory.deployment.accelerator
    if (
        settings.optimizer in _HOST_OPTIMIZERS
        and settings.offload.optimizer == "none"
        and not accelerator.unified_memory
        and (_shards(memory) == 1 or settings.zero_stage >= 1)
    ):
        yield offloaded("keep and update optimizer states on the host", optimizer="cpu")
        if settings.offload.tier is not None:
            yield offloaded(
                f"keep optimizer states in {settings.offload.tier.id}", optimizer="tier"
            )
        if settings.zero_stage < 2 and memory.deployment.parallelism.pipeline == 1:
            yield offloaded(
                "keep optimizer states and gradients on the host", zero_stage=2, optimizer="cpu"
            )


def _offload_parameters(memory: TrainingMemory) -> Iterator[TrainingChange]:
    settings, accelerator = memory.settings, memory.deployment.accelerator
    if (
        settings.offload.parameters == "none"
        and not accelerator.unified_memory
        and (_shards(memory) == 1 or settings.zero_stage == 3)
    ):
        yield offloaded(
            "keep weights on the host and fetch them layer by layer", zero_stage=3, parameters="cpu"
        )
        if settings.offload.tier is not None:
            yield offloaded(
                f"keep weights in {settings.offload.tier.id} and fetch them layer by layer",
                zero_stage=3,
                parameters="tier",
            )


TECHNIQUES = (
    Technique("zero-1", "same-result", training=_zero_1),
    Technique("zero-2", "same-result", training=_zero_2),
    Technique("zero-3", "same-result", training=_zero_3),
    Technique("whole-shard-group", "same-result", training=_whole_shard_group),
    Technique("8-bit-optimizer", "near-same-result", training=_narrow_states),
    Technique("paged-optimizer", "same-result", training=_paged),
    Technique("other-optimizer", "other-recipe", training=_other_optimizer),
    Technique("pure-16-bit", "other-recipe", training=_without_master),
    Technique("16-bit-gradients", "near-same-result", training=_narrow_gradients),
    Technique("mixed-precision", "near-same-result", training=_mixed_precision),
    Technique("optimizer-offload", "same-result", training=_offload_optimizer),
    Technique("parameter-offload", "same-result", training=_offload_parameters),
    Technique("nvme-offload", "same-result"),
    Technique("unified-memory-paging", "same-result"),
)
