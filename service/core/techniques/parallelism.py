"""Techniques that divide a model or a batch among accelerators."""

from __future__ import annotations

from collections.abc import Iterator

from service.core.deployment import Parallelism
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.training.memory import TrainingMemory
from service.core.techniques import references as by
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
                f"tensor parallelism {tensor} on the same accelerators",
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
                f"{pipeline} pipeline stages on the same accelerators",
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
                f"sequences divided among {context} of the same accelerators",
                "same-result",
                times_micro_batches=times,
                context=context,
                data=now.data // times,
            )
        else:
            yield training_layout(
                f"use {now.accelerator_count * times} accelerators, sequences divided among "
                f"{context}",
                "more-accelerators",
                context=context,
            )


def _experts_training(memory: TrainingMemory) -> Iterator[TrainingChange]:
    now = memory.deployment.parallelism
    for expert in wider_experts(memory.deployment.architecture, now):
        yield training_layout(
            f"experts divided among {expert} of the same accelerators",
            "same-result",
            expert=expert,
        )


def _sequence_training(memory: TrainingMemory) -> Iterator[TrainingChange]:
    if memory.deployment.parallelism.tensor > 1 and not memory.settings.sequence_parallel:
        yield training_settings(
            "divide norms and residuals among tensor-parallel ranks",
            sequence_parallel=True,
        )


def _tensor_inference(memory: InferenceMemory) -> Iterator[InferenceChange]:
    now = memory.deployment.parallelism
    for tensor in wider_tensor(memory.deployment.architecture, now.tensor):
        times = tensor // now.tensor
        if now.data % times == 0:
            yield inference_layout(
                f"fewer replicas, with tensor parallelism {tensor} on the same accelerators",
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
                f"fewer replicas, of {pipeline} pipeline stages on the same accelerators",
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
            f"experts divided among {expert} of the same accelerators",
            "same-result",
            expert=expert,
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
    Technique(
        id="data-parallelism",
        name="Data parallelism",
        category="sharding",
        applies_to=("training", "inference"),
        reach="more-accelerators",
        saves=("kv_cache", "activations"),
        formula="states are whole on every rank; a rank holds 1/N of the sequences",
        saving="nothing of weights, gradients or optimizer states by itself (ZeRO divides those); "
        "caches and activations of the sequences that go elsewhere",
        time_cost="gradients are summed once a step: 2·P·β_g·(N − 1)/N bytes a rank, mostly "
        "hidden; replicas of inference exchange nothing",
        quality="unchanged; larger steps if sequences are added rather than divided",
        use_when="a copy of the model fits on its accelerators",
        avoid_when="states do not fit: divide them first",
        set_by=("parallelism.data",),
        references=(by.ZERO,),
        inference=_replicas_inference,
    ),
    Technique(
        id="tensor-parallelism",
        name="Tensor parallelism",
        category="sharding",
        applies_to=("training", "inference"),
        reach="more-accelerators",
        saves=("weights", "gradients", "optimizer", "activations", "logits", "kv_cache"),
        formula="matrices and caches / t, KV heads at most as often as there are; norms whole; "
        "activations / t with sequence parallelism",
        saving="nearly 1 − 1/t of everything on a rank",
        time_cost="four sums of b·s·h elements a layer and training step, two in inference, which "
        "hardly hide",
        quality="unchanged up to rounding",
        use_when="accelerators are joined by fast links and heads divide",
        avoid_when="ranks would lie in several nodes",
        set_by=("parallelism.tensor",),
        references=(by.MEGATRON, by.RECOMPUTATION),
        training=_tensor_training,
        inference=_tensor_inference,
    ),
    Technique(
        id="sequence-parallelism",
        name="Sequence parallelism",
        category="sharding",
        applies_to=("training",),
        reach="same-result",
        saves=("activations",),
        formula="s·b·h·34/t instead of s·b·h·(10 + 24/t) bytes a layer",
        saving="what tensor parallelism leaves whole: 10·s·b·h·(1 − 1/t) a layer",
        time_cost="none: each sum becomes a scatter and a gather of the same bytes",
        quality="unchanged",
        use_when="always with tensor parallelism",
        avoid_when="there is no tensor parallelism",
        set_by=("training.sequence_parallel = true",),
        references=(by.RECOMPUTATION,),
        training=_sequence_training,
    ),
    Technique(
        id="pipeline-parallelism",
        name="Pipeline parallelism",
        category="sharding",
        applies_to=("training", "inference"),
        reach="more-accelerators",
        saves=("weights", "gradients", "optimizer", "kv_cache"),
        formula="states and caches / p; the first of p stages holds activations of p micro-batches",
        saving="1 − 1/p of states and caches; little of activations",
        time_cost="a bubble of (p − 1)/(m + p − 1) of a training step with m micro-batches; "
        "prompts and tokens pass the stages one after the other",
        quality="unchanged",
        use_when="ranks lie in several nodes, and steps have many micro-batches",
        avoid_when="there are few micro-batches, or latency counts",
        set_by=("parallelism.pipeline",),
        references=(by.PIPELINES,),
        training=_pipeline_training,
        inference=_pipeline_inference,
    ),
    Technique(
        id="context-parallelism",
        name="Context parallelism",
        category="sharding",
        applies_to=("training",),
        reach="more-accelerators",
        saves=("activations", "logits"),
        formula="activations and logits of s/c tokens on each of c ranks; states as data-parallel",
        saving="1 − 1/c of activations and logits",
        time_cost="keys and values pass all c ranks, mostly behind attention of long sequences",
        quality="unchanged up to rounding",
        use_when="a single sequence is too long for a rank",
        avoid_when="sequences are short: messages no longer hide",
        set_by=("parallelism.context",),
        references=(by.RING_ATTENTION,),
        training=_context_training,
    ),
    Technique(
        id="expert-parallelism",
        name="Expert parallelism",
        category="sharding",
        applies_to=("training", "inference"),
        reach="same-result",
        saves=("weights", "gradients", "optimizer"),
        formula="experts / e on ranks taken from the tensor- and data-parallel ones; the rest as "
        "before",
        saving="1 − 1/e of experts that were whole on every data-parallel rank",
        time_cost="tokens travel to their experts and back, two exchanges a layer",
        quality="unchanged, unless full experts drop tokens",
        use_when="mixtures of experts have several data-parallel ranks",
        avoid_when="the model is dense",
        set_by=("parallelism.expert",),
        references=(by.GSHARD,),
        training=_experts_training,
        inference=_experts_inference,
    ),
)
