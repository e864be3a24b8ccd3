"""ERNIE 4.5 VL: experts for text and others for images in the same layers.

As Hugging Face transformers has it (https://github.com/huggingface/transformers, 2025–2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.families.sparse import ERNIE_MOE, ernie_experts
from service.core.architecture.config.family import Family
from service.core.architecture.config.fields import MAX_EXPERTS, MAX_LAYERS, Fields
from service.core.architecture.config.parts import dense, expert_width, experts, linear
from service.core.architecture.tensors import Shard, Tensor, TensorClass


def _first_width(fields: Fields) -> int:
    """Width of the experts for text, which are listed before those for images [-]."""
    if not fields.is_list("moe_intermediate_size"):
        return expert_width(fields)
    listed = fields.array("moe_intermediate_size", 2) or ()
    return fields.replaced(moe_intermediate_size=listed[0]).size("moe_intermediate_size")


def _shared_first_width(fields: Fields) -> int:
    return fields.count("n_shared_experts") * _first_width(fields)


def _image_experts(fields: Fields) -> tuple[Tensor, ...]:
    """ERNIE 4.5 VL's experts for images, which stand beside those for text in each layer."""
    listed = fields.array("moe_intermediate_size", 2) or ()
    layers = fields.size("num_hidden_layers", MAX_LAYERS)
    held = sum(kind == "experts" for kind in ernie_experts(fields, layers))
    count = fields.size("num_experts", maximum=MAX_EXPERTS)
    width = fields.replaced(moe_intermediate_size=listed[-1]).size("moe_intermediate_size")
    hidden, kind = fields.size("hidden_size"), TensorClass.EXPERT
    if not held:
        return ()
    copies = held * count
    router = linear("vision.gate", TensorClass.ROUTER, hidden, count, Shard.REPLICATED, copies=held)
    bias = Tensor("vision.gate.bias", TensorClass.BIAS, 1, count, Shard.REPLICATED, held)
    tensors = (*router, bias)
    for name in ("gate_proj", "up_proj"):
        tensors += linear(f"vision.{name}", kind, hidden, width, Shard.EXPERT_COLUMN, copies=copies)
    return tensors + linear(
        "vision.down_proj", kind, width, hidden, Shard.EXPERT_ROW, copies=copies
    )


_ERNIE_VL = replace(
    ERNIE_MOE,
    defaults={**ERNIE_MOE.defaults, "moe_intermediate_size": (1536, 512)},
    feed_forwards={
        "dense": dense(bias="use_bias"),
        "experts": experts(
            correction_bias=True, width=_first_width, shared_width=_shared_first_width
        ),
    },
    extra_tensors=_image_experts,
)
ERNIE_VL_FAMILIES: Mapping[str, Family] = {
    "ernie4_5_moe_vl": _ERNIE_VL,
    "ernie4_5_vl_moe": _ERNIE_VL,
    "ernie4_5_vl_moe_text": _ERNIE_VL,
}
