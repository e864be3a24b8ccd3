"""Techniques for the weights of an inference deployment, and for other models in its place."""

from __future__ import annotations

from collections.abc import Iterator

from service.core.memory.inference.memory import InferenceMemory
from service.core.number_formats import NUMBER_FORMATS
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
    Technique("weight-quantisation", "near-same-result", inference=_weight_formats),
    Technique("weight-offload", "same-result"),
    Technique("grouped-query-attention", "other-recipe"),
    Technique("sliding-window-attention", "other-recipe"),
    Technique("linear-attention", "other-recipe"),
    Technique("pruning", "other-recipe"),
    Technique("distillation", "other-recipe"),
)
