"""Techniques for weights, gradients and optimizer states of training runs."""

from __future__ import annotations

from collections.abc import Iterator

from service.core.memory.training.memory import TrainingMemory
from service.core.techniques import references as by
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
            f"page optimizer states out where they do not fit ({paged[settings.optimizer]})",
            optimizer=paged[settings.optimizer],
        )


def _other_optimizer(memory: TrainingMemory) -> Iterator[TrainingChange]:
    if memory.settings.optimizer in ("adamw", "paged-adamw"):
        yield training_settings("one momentum instead of two (lion)", optimizer="lion")
        yield training_settings("factored second moments (adafactor)", optimizer="adafactor")


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
                "compute and keep weights in bf16, beside a 32-bit copy",
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


TECHNIQUES = (
    Technique(
        id="zero-1",
        name="ZeRO stage 1: divided optimizer states",
        category="sharding",
        applies_to=("training",),
        reach="same-result",
        saves=("optimizer",),
        formula="P·(β_w + β_g + K/N) bytes on N data-parallel ranks, K bytes of optimizer states a "
        "parameter",
        saving="K·P·(1 − 1/N): of 16 bytes a parameter with Adam and a master copy, up to 12",
        time_cost="none to speak of: weights are gathered in place of gradients",
        quality="unchanged",
        use_when="there are data-parallel ranks, always",
        avoid_when="there is a single rank",
        set_by=("training.zero_stage = 1",),
        references=(by.ZERO,),
        training=_zero_1,
    ),
    Technique(
        id="zero-2",
        name="ZeRO stage 2: divided gradients",
        category="sharding",
        applies_to=("training",),
        reach="same-result",
        saves=("gradients", "optimizer"),
        formula="P·(β_w + (β_g + K)/N) bytes on N data-parallel ranks",
        saving="(β_g + K)·P·(1 − 1/N): of 16 bytes a parameter, up to 14",
        time_cost="none with one micro-batch a step; with accumulation, gradients are scattered "
        "after each",
        quality="unchanged",
        use_when="optimizer states are divided and gradients are what is left",
        avoid_when="a pipeline accumulates many micro-batches",
        set_by=("training.zero_stage = 2",),
        references=(by.ZERO,),
        training=_zero_2,
    ),
    Technique(
        id="zero-3",
        name="ZeRO stage 3: fully sharded data parallelism",
        category="sharding",
        applies_to=("training",),
        reach="same-result",
        saves=("weights", "gradients", "optimizer"),
        formula="P·(β_w + β_g + K)/N + the layers gathered at once",
        saving="all states divide by N: of 16 bytes a parameter, 16·(1 − 1/N)",
        time_cost="weights are gathered twice for every micro-batch: half as many bytes again as "
        "data parallelism sends with one, more with several; hidden behind computation where "
        "micro-batches are long enough",
        quality="unchanged",
        use_when="states do not fit on a rank and links are fast",
        avoid_when="micro-batches are short, or ranks are joined by slow links",
        set_by=("training.zero_stage = 3",),
        references=(by.ZERO, by.FSDP),
        aliases=(
            "zero",
            "fsdp",
        ),
        training=_zero_3,
    ),
    Technique(
        id="8-bit-optimizer",
        name="8-bit optimizer states",
        category="optimizer",
        applies_to=("training",),
        reach="near-same-result",
        saves=("optimizer",),
        formula="2·P·(1 + 4/256) bytes for Adam's two moments, a 32-bit scale for each 256; "
        "embeddings and tensors of fewer than 4,096 elements stay in 32 bit",
        saving="three quarters of the moments; a 32-bit master copy stays",
        time_cost="none: less is read and written",
        quality="close to 32-bit states in the authors' tests",
        use_when="full training on few accelerators",
        avoid_when="states are updated on the host, or training is unstable",
        set_by=("training.optimizer = adamw-8bit",),
        references=(by.ADAM_8_BIT,),
        aliases=("adamw-8bit",),
        training=_narrow_states,
    ),
    Technique(
        id="paged-optimizer",
        name="Paged optimizer states",
        category="offload",
        applies_to=("training",),
        reach="same-result",
        saves=("optimizer",),
        formula="states on the accelerator = min(states, capacity − everything else); the rest is "
        "on the host",
        saving="exactly what does not fit, and nothing where all fits",
        time_cost="what spilled crosses the host link twice in every optimizer step",
        quality="unchanged",
        use_when="memory is short at peaks only",
        avoid_when="most of the states would spill in every step: offload them",
        set_by=("training.optimizer = paged-adamw", "training.optimizer = paged-adamw-8bit"),
        references=(by.QLORA,),
        training=_paged,
    ),
    Technique(
        id="other-optimizer",
        name="An optimizer with fewer states",
        category="optimizer",
        applies_to=("training",),
        reach="other-recipe",
        saves=("optimizer",),
        formula="Adam 8·P, Lion or momentum 4·P, Adafactor 4·(rows + columns) a matrix, SGD no "
        "bytes",
        saving="half of Adam's moments with Lion, nearly all with Adafactor",
        time_cost="none: less is read and written",
        quality="another optimizer needs its own learning rate and schedule",
        use_when="a recipe for it is known",
        avoid_when="results must match those of Adam",
        set_by=("training.optimizer = lion", "training.optimizer = adafactor"),
        references=(by.LION, by.ADAFACTOR),
        training=_other_optimizer,
    ),
    Technique(
        id="pure-16-bit",
        name="16-bit weights without a master copy",
        category="precision",
        applies_to=("training",),
        reach="other-recipe",
        saves=("optimizer",),
        formula="P·(β_w + β_g + 8) instead of P·(β_w + β_g + 12) bytes with Adam",
        saving="4 bytes a trained parameter",
        time_cost="none: less is read and written",
        quality="updates smaller than a step of the format are lost to rounding",
        use_when="short fine-tuning, or with stochastic rounding",
        avoid_when="pre-training with small learning rates",
        set_by=("training.master_weights = false",),
        references=(by.MIXED_PRECISION,),
        training=_without_master,
    ),
    Technique(
        id="16-bit-gradients",
        name="16-bit gradients",
        category="precision",
        applies_to=("training",),
        reach="near-same-result",
        saves=("gradients",),
        formula="2·P instead of 4·P bytes",
        saving="half of the gradients",
        time_cost="none: messages halve",
        quality="sums over very many micro-batches lose digits",
        use_when="gradients are kept in 32 bit and few micro-batches are accumulated",
        avoid_when="hundreds of micro-batches are accumulated",
        set_by=("training.gradient_dtype = bf16",),
        references=(by.MIXED_PRECISION,),
        training=_narrow_gradients,
    ),
    Technique(
        id="mixed-precision",
        name="Mixed precision",
        category="precision",
        applies_to=("training",),
        reach="near-same-result",
        saves=("weights", "activations"),
        formula="weights 2·P + master copy 4·P + gradients 2·P + moments 8·P: 16 bytes a "
        "parameter, as many as in 32 bit; activations take 2 bytes an element instead of 4",
        saving="half of the activations; nothing of the states while a master copy is kept",
        time_cost="gains time: matrix units run 16-bit products several times as fast",
        quality="matches 32-bit training in the authors' tests",
        use_when="always, on accelerators with 16-bit matrix units",
        avoid_when="operations need the range of 32 bit; keep those in it",
        set_by=("precision.activations = bf16", "precision.weights = bf16"),
        references=(by.MIXED_PRECISION,),
        training=_mixed_precision,
    ),
    Technique(
        id="optimizer-offload",
        name="Optimizer offload to host memory",
        category="offload",
        applies_to=("training",),
        reach="same-result",
        saves=("optimizer", "gradients"),
        formula="the accelerator keeps weights and a bucket of gradients; the host K·P/N and, with "
        "ZeRO 2 and 3, the gradients",
        saving="all optimizer states, 12 bytes a parameter with Adam and a master copy",
        time_cost="the update runs at the bandwidth of host memory instead of the accelerator's, "
        "beside gradients and weights crossing the host link; once a step, so that accumulation "
        "spreads it",
        quality="unchanged",
        use_when="few accelerators, long steps, much host memory",
        avoid_when="steps are short, or accelerator and host share one memory",
        set_by=("training.offload.optimizer = cpu",),
        references=(by.ZERO_OFFLOAD,),
        aliases=(
            "offload",
            "zero-offload",
        ),
        training=_offload_optimizer,
    ),
    Technique(
        id="parameter-offload",
        name="Parameter offload to host memory",
        category="offload",
        applies_to=("training",),
        reach="same-result",
        saves=("weights",),
        formula="the accelerator keeps the layers in use; the host β_w·P/N",
        saving="all weights but the layers in use",
        time_cost="weights cross the host link twice for every micro-batch, hidden where a layer "
        "computes longer than it takes to fetch",
        quality="unchanged",
        use_when="a model is larger than all accelerators together",
        avoid_when="micro-batches are short",
        set_by=("training.offload.parameters = cpu", "training.zero_stage = 3"),
        references=(by.ZERO_INFINITY,),
        training=_offload_parameters,
    ),
    Technique(
        id="nvme-offload",
        name="Offload to NVMe (ZeRO-Infinity)",
        category="offload",
        applies_to=("training",),
        reach="same-result",
        saves=("optimizer", "weights"),
        formula="bytes on NVMe = optimizer states or weights of the ranks of a node",
        saving="as offload to the host, and host memory as well",
        time_cost="states stream past at the bandwidth of the drives, several times slower than "
        "host memory",
        quality="unchanged",
        use_when="host memory is too small for the states",
        avoid_when="there is host memory for them",
        set_by=("training.offload.optimizer = nvme", "training.offload.parameters = nvme"),
        references=(by.ZERO_INFINITY,),
        aliases=("zero-infinity",),
    ),
    Technique(
        id="unified-memory-paging",
        name="Paging by unified memory",
        category="offload",
        applies_to=("training", "inference"),
        reach="same-result",
        saves=("weights", "optimizer", "activations", "kv_cache"),
        formula="bytes on the accelerator = min(working set, capacity)",
        saving="whatever does not fit",
        time_cost="every pass moves what does not fit, page by page: (1 − f) + f·B/B_link times as "
        "long for a share f of the bytes beyond the capacity, B the accelerator's bandwidth and "
        "B_link what page faults leave of the host link's",
        quality="unchanged",
        use_when="a rare peak overshoots",
        avoid_when="more is touched in every pass than fits: even a small share dominates the time",
        set_by=(),
        references=(by.UNIFIED_MEMORY,),
    ),
)
