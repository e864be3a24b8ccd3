"""Techniques for activations and logits of training runs, and adapters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from service.core.architecture.sharding import divisors
from service.core.memory.training.memory import TrainingMemory
from service.core.techniques import references as by
from service.core.techniques.changes import in_formats, offloaded, training_settings
from service.core.techniques.setup import TrainingSetup
from service.core.techniques.technique import Change, Technique, TrainingChange

_CHECKPOINTING = ("none", "selective", "selective-operators", "full")
_QUANTISED_BASE = "bnb-nf4"


def _checkpointing(memory: TrainingMemory) -> Iterator[TrainingChange]:
    settings = memory.settings
    said = {
        "selective": "recompute attention scores",
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
    fitting = int(memory.max_micro_batch_sequences.value)
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
            f"micro-batches of {size} instead of {sequences}, {times} times as many", apply
        )


def _shorter_sequences(memory: TrainingMemory) -> Iterator[TrainingChange]:
    tokens = int(memory.micro_batch.tokens)
    for divisor in (2, 4, 8):
        if tokens % (divisor * memory.deployment.parallelism.context):
            return

        def apply(setup: TrainingSetup, size: int = tokens // divisor) -> TrainingSetup:
            return replace(setup, micro_batch=replace(setup.micro_batch, tokens=float(size)))

        yield Change(f"sequences of {tokens // divisor} tokens", apply)


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
    Technique(
        id="activation-checkpointing",
        name="Activation checkpointing",
        category="recomputation",
        applies_to=("training",),
        reach="same-result",
        saves=("activations",),
        formula="none: L·s·b·h·(34 + 5·a·s/h) bytes in a GPT layer with dropout; selective: "
        "34·L·s·b·h; full: 2·L·s·b·h + one layer's 34·s·b·h; blocks of k layers: 2·L/k·s·b·h + "
        "34·k·s·b·h",
        saving="the share of activations that is recomputed; in full, all but one tensor a layer",
        time_cost="full: one more forward pass, 8·P·T instead of 6·P·T operations (a third more); "
        "selective: attention scores only, a few per cent",
        quality="unchanged",
        use_when="activations are what is large: long sequences, large micro-batches",
        avoid_when="there is room for them",
        set_by=("training.activation_checkpointing", "training.checkpoint_every"),
        references=(by.SUBLINEAR, by.RECOMPUTATION),
        aliases=("gradient-checkpointing", "activation-recomputation"),
        training=_checkpointing,
    ),
    Technique(
        id="gradient-accumulation",
        name="Gradient accumulation",
        category="batching",
        applies_to=("training",),
        reach="same-result",
        saves=("activations", "logits"),
        formula="activations ∝ b/k for k micro-batches in place of one; gradients stay whole",
        saving="1 − 1/k of activations and logits: half for k = 2, three quarters for k = 4",
        time_cost="none while micro-batches keep the accelerator busy; weights are gathered more "
        "often under ZeRO 3",
        quality="unchanged if the loss is averaged over the whole step and no layer depends on "
        "the batch",
        use_when="a micro-batch holds several sequences",
        avoid_when="micro-batches are already so short that products are slow",
        set_by=("training.micro_batch_size", "training.gradient_accumulation_steps"),
        references=(by.PIPELINES,),
        training=_accumulation,
    ),
    Technique(
        id="flash-attention",
        name="Attention without stored scores",
        category="kernel",
        applies_to=("training",),
        reach="same-result",
        saves=("activations",),
        formula="5·a·s²·b·L bytes less, divided by tensor-parallel ranks",
        saving="everything that grows with the square of the sequence",
        time_cost="gains time: scores never leave the chip",
        quality="unchanged up to rounding",
        use_when="always, where a kernel exists for the accelerator",
        avoid_when="attention weights themselves are needed",
        set_by=("training.attention = flash",),
        references=(by.FLASH_ATTENTION,),
        training=_flash,
    ),
    Technique(
        id="fused-kernels",
        name="Fused norms and activations",
        category="kernel",
        applies_to=("training",),
        reach="same-result",
        saves=("activations",),
        formula="6 bytes per hidden element and norm, 2 per intermediate element of gated layers",
        saving="copies that unfused norms and gates leave behind",
        time_cost="gains time: less is written and read; compiling takes minutes once",
        quality="unchanged up to rounding",
        use_when="always, where the model compiles",
        avoid_when="shapes change from step to step",
        set_by=("training.fused_kernels = true",),
        references=(by.LIGER,),
        training=_fused,
    ),
    Technique(
        id="fused-cross-entropy",
        name="Loss in parts",
        category="kernel",
        applies_to=("training",),
        reach="same-result",
        saves=("logits",),
        formula="logits of a part of the tokens instead of b·s·V·(12 to 14) bytes",
        saving="nearly all logits: vocabularies of 100,000 and more make them larger than layers",
        time_cost="none to speak of: gradients are made with the loss",
        quality="unchanged up to rounding",
        use_when="vocabularies are large",
        avoid_when="logits themselves are needed",
        set_by=("training.cross_entropy = fused",),
        references=(by.LIGER, by.CUT_LOSSES),
        training=_loss,
    ),
    Technique(
        id="activation-offload",
        name="Activation offload to host memory",
        category="offload",
        applies_to=("training",),
        reach="same-result",
        saves=("activations",),
        formula="two layers' activations stay, those of L − 2 layers go to the host",
        saving="1 − 2/L of stored activations",
        time_cost="they cross the host link down and up, hidden where a layer computes longer",
        quality="unchanged",
        use_when="sequences are so long that checkpoints alone do not fit",
        avoid_when="layers compute faster than the host link takes their activations",
        set_by=("training.offload.activations = cpu",),
        references=(by.ZERO_INFINITY,),
        training=_offload,
    ),
    Technique(
        id="shorter-sequences",
        name="Shorter sequences",
        category="batching",
        applies_to=("training",),
        reach="other-recipe",
        saves=("activations", "logits"),
        formula="activations ∝ s, stored scores ∝ s²",
        saving="in proportion to the tokens left out",
        time_cost="less time a step, for fewer tokens",
        quality="the model sees no longer contexts",
        use_when="documents are shorter than the sequence",
        avoid_when="long contexts are the point",
        set_by=("training.sequence_length",),
        references=(by.RECOMPUTATION,),
        training=_shorter_sequences,
    ),
    Technique(
        id="lora",
        name="Low-rank adapters (LoRA)",
        category="adapters",
        applies_to=("training",),
        reach="other-recipe",
        saves=("gradients", "optimizer"),
        formula="trained parameters = Σ r·(d_in + d_out) over adapted matrices; β_w·P + "
        "(β_w + β_g + K)·P_trained bytes",
        saving="gradients and optimizer states of all weights but the adapters'; weights and most "
        "activations stay",
        time_cost="gains time: no gradients of frozen weights, two thirds of the operations",
        quality="near full fine-tuning on many tasks, not on all; no use for pre-training",
        use_when="fine-tuning",
        avoid_when="pre-training, or much new knowledge",
        set_by=("training.method = lora", "training.lora_rank", "training.lora_targets"),
        references=(by.LORA,),
        training=_lora,
    ),
    Technique(
        id="qlora",
        name="Adapters on a quantised base (QLoRA)",
        category="adapters",
        applies_to=("training",),
        reach="other-recipe",
        saves=("weights", "gradients", "optimizer"),
        formula="P·(4 + c)/8 bytes for the base, c = 0.5 bit for a 32-bit scale of each 64 "
        "weights, about 0.127 with scales quantised again",
        saving="about three quarters of 16-bit weights beyond what adapters save",
        time_cost="weights are dequantised on every use, forward and backward",
        quality="near 16-bit adapters in the authors' tests",
        use_when="fine-tuning on one small accelerator",
        avoid_when="the 16-bit base fits: it is faster",
        set_by=("training.method = qlora", "precision.weights = bnb-nf4"),
        references=(by.QLORA,),
        training=_qlora,
    ),
)
