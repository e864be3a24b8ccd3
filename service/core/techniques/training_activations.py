"""Techniques for activations and logits of training runs, and adapters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from service.core.architecture.sharding import divisors
from service.core.memory.training.memory import TrainingMemory
from service.core.techniques.changes import in_formats, offloaded, training_settings
from service.core.techniques.setup import TrainingSetup
from service.core.techniques.technique import Change, Technique, TrainingChange

_CHECKPOINTING = ("none", "selective", "selective-modules", "selective-operators", "full")
_QUANTISED_BASE = "bnb-nf4"


def _checkpointing(memory: TrainingMemory) -> Iterator[TrainingChange]:
    settings = memory.settings
    said = {
        "selective": "recompute attention scores",
        "selective-modules": "recompute norms and activations of feed-forward parts",
        "selective-operators": "recompute every other matrix product",
        "full": "recompute whole layers",
    }
    for mode in _CHECKPOINTING[_CHECKPOINTING.index(settings.activation_checkpointing) + 1 :]:
        yield training_settings(said[mode], activation_checkpointing=mode, checkpoint_every=1)
    if settings.activation_checkpointing == "full":
        every = settings.checkpoint_every * 2
        if every <= memory.deployment.architecture.layer_count:
            yield training_settings(f"recompute blocks of {every} layers", checkpoint_every=every)


def _accumulation(memory: TrainingMemory) -> Iterator[TrainingChange]:
    """Smaller micro-batches of the same step: the largest divisors, and single sequences."""
    sequences = int(memory.micro_batch.sequences)
    fitting = int(memory.max_micro_batch_size.value)
    smaller = divisors(sequences)[:-1]
    wanted = {size for size in smaller if size <= fitting} or set(smaller)
    for size in sorted({max(wanted), 1}, reverse=True) if wanted else ():
        times = sequences // size

        def apply(setup: TrainingSetup, size: int = size, times: int = times) -> TrainingSetup:
            steps = setup.settings.gradient_accumulation_steps * times
            return replace(
                setup,
                micro_batch=replace(setup.micro_batch, sequences=float(size)),
                settings=replace(setup.settings, gradient_accumulation_steps=steps),
            )

        yield Change(
            f"use micro-batches of {size} instead of {sequences}, {times} times as many", apply
        )


def _shorter_sequences(memory: TrainingMemory) -> Iterator[TrainingChange]:
    tokens = int(memory.micro_batch.tokens)
    for divisor in (2, 4, 8):
        if tokens % (divisor * memory.deployment.parallelism.context):
            return

        def apply(setup: TrainingSetup, size: int = tokens // divisor) -> TrainingSetup:
            return replace(setup, micro_batch=replace(setup.micro_batch, tokens=float(size)))

        yield Change(f"shorten sequences to {tokens // divisor} tokens", apply)


def _flash(memory: TrainingMemory) -> Iterator[TrainingChange]:
    if memory.settings.attention == "eager":
        yield training_settings("store no attention scores", attention="flash")


def _fused(memory: TrainingMemory) -> Iterator[TrainingChange]:
    if not memory.settings.fused_kernels:
        yield training_settings("fuse norms and gated activations", fused_kernels=True)


def _loss(memory: TrainingMemory) -> Iterator[TrainingChange]:
    if memory.settings.cross_entropy != "fused":
        yield training_settings("compute the loss in parts of the batch", cross_entropy="fused")


def _offload(memory: TrainingMemory) -> Iterator[TrainingChange]:
    settings, accelerator = memory.settings, memory.deployment.accelerator
    if settings.offload.activations == "none" and not accelerator.unified_memory:
        yield offloaded("keep activations on the host until they are needed", activations="cpu")


def _lora(memory: TrainingMemory) -> Iterator[TrainingChange]:
    if memory.settings.method == "full":
        yield training_settings("train adapters on frozen weights", method="lora")


def _qlora(memory: TrainingMemory) -> Iterator[TrainingChange]:
    weights = memory.deployment.precision.weights
    if memory.settings.method == "qlora" or weights.bits_per_element <= 8.0:
        return

    def apply(setup: TrainingSetup) -> TrainingSetup:
        changed = in_formats(setup.deployment, weights=_QUANTISED_BASE)
        settings = replace(setup.settings, method="qlora")
        return replace(setup, deployment=changed, settings=settings)

    yield Change(f"train adapters on frozen weights in 4 bit ({_QUANTISED_BASE})", apply)


TECHNIQUES = (
    Technique("activation-checkpointing", "same-result", training=_checkpointing),
    Technique("gradient-accumulation", "same-result", training=_accumulation),
    Technique("flash-attention", "same-result", training=_flash),
    Technique("fused-kernels", "same-result", training=_fused),
    Technique("fused-cross-entropy", "same-result", training=_loss),
    Technique("activation-offload", "same-result", training=_offload),
    Technique("shorter-sequences", "other-recipe", training=_shorter_sequences),
    Technique("lora", "other-recipe", training=_lora),
    Technique("qlora", "other-recipe", training=_qlora),
)
