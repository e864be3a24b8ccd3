"""Techniques for the weights of an inference deployment, and for other models in its place."""

from __future__ import annotations

from collections.abc import Iterator

from service.core.memory.inference.memory import InferenceMemory
from service.core.number_formats import NUMBER_FORMATS
from service.core.techniques import references as by
from service.core.techniques.changes import inference_formats
from service.core.techniques.technique import InferenceChange, Technique

#: Weight formats that are proposed, from the least to the greatest saving.
_WEIGHT_FORMATS = ("bf16", "fp8", "int8", "awq-int4")


def _weight_formats(memory: InferenceMemory) -> Iterator[InferenceChange]:
    now = memory.deployment.precision.weights.bits_per_element
    for name in _WEIGHT_FORMATS:
        if NUMBER_FORMATS[name].bits_per_element < now:
            yield inference_formats(f"store the weights in {name}", weights=name)


TECHNIQUES = (
    Technique(
        id="weight-quantisation",
        name="Quantised weights",
        category="precision",
        applies_to=("inference",),
        reach="near-same-result",
        saves=("weights",),
        formula="P·(bits + scales and zero points)/8 bytes; embeddings, head and norms mostly stay "
        "in 16 bit",
        saving="from 16 bit: half in 8 bit, about three quarters in 4; caches and activations stay",
        time_cost="gains time where reading the weights is what takes it; formats that matrix "
        "units do not multiply are widened on use",
        quality="8 bit is rarely noticed; 4 bit costs some accuracy, more for small models",
        use_when="weights are what is large, or decoding waits for memory",
        avoid_when="large batches keep the matrix units busy and they do not multiply the format",
        set_by=("precision.weights", "precision.group_size"),
        references=(by.GPTQ, by.AWQ, by.FP8),
        aliases=("weight-quantization", "quantisation"),
        inference=_weight_formats,
    ),
    Technique(
        id="weight-offload",
        name="Weights in host memory",
        category="offload",
        applies_to=("inference",),
        reach="same-result",
        saves=("weights",),
        formula="weights on the accelerator = (1 − f)·P·β, f·P·β on the host",
        saving="the share f that is fetched",
        time_cost="f·P·β / host link bandwidth at every step, shared by the sequences of the batch",
        quality="unchanged",
        use_when="very large batches without hurry",
        avoid_when="tokens are awaited: the link is tens of times slower than the memory",
        set_by=("serving.offload.weights_ratio", "serving.memory_tiers"),
        references=(by.FLEXGEN,),
    ),
    Technique(
        id="grouped-query-attention",
        name="Grouped- and multi-query attention",
        category="model",
        applies_to=("training", "inference"),
        reach="other-recipe",
        saves=("kv_cache",),
        formula="2·L·a_kv·d_h·β bytes a token with a_kv instead of a heads",
        saving="1 − a_kv/a of the cache: seven eighths from 32 heads to 4",
        time_cost="gains time: less is read at every token",
        quality="close to full heads with groups, less so with a single head",
        use_when="choosing or training a model for long contexts or many requests",
        avoid_when="the model is given: it takes training",
        set_by=("model",),
        references=(by.MULTI_QUERY, by.GROUPED_QUERY),
        aliases=("gqa", "mqa"),
    ),
    Technique(
        id="sliding-window-attention",
        name="Sliding-window attention",
        category="model",
        applies_to=("training", "inference"),
        reach="other-recipe",
        saves=("kv_cache",),
        formula="min(s, W) tokens instead of s in every layer with a window of W",
        saving="1 − W/s of those layers' caches: at 131,072 tokens and W = 4,096, 97 %",
        time_cost="gains time: less is read at every token",
        quality="earlier tokens reach a layer through the layers below only",
        use_when="contexts are long and what matters is near",
        avoid_when="the model was not trained with it",
        set_by=("model",),
        references=(by.MISTRAL,),
        aliases=("sliding-window",),
    ),
    Technique(
        id="linear-attention",
        name="Sparse and linear attention, state-space layers",
        category="model",
        applies_to=("training", "inference"),
        reach="other-recipe",
        saves=("kv_cache",),
        formula="linear: a constant state of about L·a·d_h²·β bytes a sequence; sparse: operations "
        "× density, caches kept",
        saving="linear: everything that grows with the context; sparse: none",
        time_cost="gains time in long contexts",
        quality="another model, weaker at recalling exact passages",
        use_when="choosing a model for very long contexts",
        avoid_when="the model is given",
        set_by=("model",),
        references=(by.LINEAR_ATTENTION, by.MAMBA),
    ),
    Technique(
        id="pruning",
        name="Pruned weights",
        category="model",
        applies_to=("inference",),
        reach="other-recipe",
        saves=("weights",),
        formula="structured: (1 − σ)·P·β; unstructured with 16-bit indices beside 16-bit weights: "
        "2·(1 − σ)·P·β; 2:4: half the weights and 2 bits each to say which",
        saving="structured: σ; unstructured: none up to σ = 0.5; 2:4 in 16 bit: 44 %",
        time_cost="gains time only if kernels skip what is gone",
        quality="costs accuracy, to be measured on the task",
        use_when="a pruned checkpoint exists",
        avoid_when="quantised weights would do",
        set_by=("model",),
        references=(by.SPARSE_GPT,),
    ),
    Technique(
        id="distillation",
        name="A smaller, distilled model",
        category="model",
        applies_to=("inference",),
        reach="other-recipe",
        saves=("weights", "kv_cache", "activations"),
        formula="all figures with the student's parameters and shape",
        saving="in proportion to the student's size",
        time_cost="gains time; making it takes a training run with the teacher's outputs",
        quality="below the teacher, above the same size trained alone",
        use_when="one task is served very often",
        avoid_when="all of the teacher's abilities are needed",
        set_by=("model",),
        references=(by.DISTILLATION,),
        aliases=("smaller-model",),
    ),
)
