"""StepFun's decoders: Step3, and Step 3.5 and 3.7 Flash.

Step 3.5 and 3.7 are as Hugging Face transformers has them
(https://github.com/huggingface/transformers, 2026), Step3 as its checkpoint's modelling code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.family import Family
from service.core.architecture.config.fields import MAX_LAYERS, MAX_WIDTH, Fields
from service.core.architecture.config.parts import (
    FeedForwardBuilder,
    dense,
    experts,
    grouped_attention,
    head_dim,
    kv_head_count,
    linear,
    norm,
)
from service.core.architecture.config.schedules import LayerKinds, every, layer_types
from service.core.architecture.model import Attention, Span
from service.core.architecture.tensors import Shard, TensorClass

_NORMED = grouped_attention(qk_norm=True)


def _gated(fields: Fields, span: Span) -> Attention:
    """Attention with a gate for each head (Step 3.5)."""
    own = _NORMED[span.value](fields)
    hidden = fields.size("hidden_size")
    gate = linear("g_proj", TensorClass.ATTENTION, hidden, own.query_heads, Shard.COLUMN)
    return replace(own, tensors=own.tensors + gate)


def _full(fields: Fields) -> Attention:
    return _gated(fields, Span.FULL)


def _sliding(fields: Fields) -> Attention:
    """Layers with a window have a number of heads of their own."""
    heads = fields.optional_size("num_sliding_attention_heads")
    section = fields.section("attention_other_setting", {})
    if heads is None and section is not None:
        heads = section.optional_size("num_attention_heads")
    return _gated(
        fields if heads is None else fields.replaced(num_attention_heads=heads), Span.SLIDING
    )


def _factored(fields: Fields) -> Attention:
    """Multi-matrix factorisation: queries by way of a narrow, normed vector (Step3).

    References
    ----------
    StepFun, Step-3 is Large yet Affordable, 2025, section 3, https://arxiv.org/abs/2507.19427
    """
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    groups, width, narrow = kv_head_count(fields), head_dim(fields), fields.size("share_q_dim")
    kind = TensorClass.ATTENTION
    tensors = (
        *linear("q_proj", kind, hidden, narrow, Shard.REPLICATED),
        *norm("inter_norm", narrow),
        *linear("wq", kind, narrow, heads * width, Shard.COLUMN),
        *linear("k_proj", kind, hidden, groups * width, Shard.KV_HEADS),
        *linear("v_proj", kind, hidden, groups * width, Shard.KV_HEADS),
        *linear("o_proj", kind, heads * width, hidden, Shard.ROW),
    )
    return Attention(heads, groups, width, width, Span.FULL, None, False, tensors)


def _spans(fields: Fields, layers: int) -> LayerKinds:
    """As listed; the list may go on with the layers that predict further tokens."""
    listed = fields.array("layer_types")
    if listed is not None and len(listed) > layers:
        fields = fields.replaced(layer_types=listed[:layers])
    return layer_types(every("full"))(fields, layers)


def _sparse_layers(fields: Fields, layers: int) -> LayerKinds:
    """Layers with experts: a list of numbers, also as text, or all but the first three."""
    listed = fields.text("moe_layers_enum") if not fields.is_list("moe_layers_enum") else None
    if listed is not None:
        names = [name.strip() for name in listed.split(",", MAX_LAYERS) if name.strip()]
        if not all(name.isascii() and name.isdigit() and len(name) < 6 for name in names):
            raise fields.fault("moe_layers_enum", "must hold layer numbers, with commas between")
        numbers = {int(name) for name in names}
    elif fields.is_list("moe_layers_enum"):
        numbers = set(fields.indices("moe_layers_enum", MAX_LAYERS) or ())
    else:
        numbers = set(range(3, layers))
    return tuple("experts" if layer in numbers else "dense" for layer in range(layers))


def _shared_width(fields: Fields) -> int:
    return fields.count("share_expert_dim", MAX_WIDTH)


_FEED_FORWARDS: Mapping[str, FeedForwardBuilder] = {
    "dense": dense(),
    "experts": experts(correction_bias="use_moe_router_bias", shared_width=_shared_width),
}
_STEP35 = Family(
    defaults={
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_experts": 288,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 1280,
        "share_expert_dim": 1280,
        "use_moe_router_bias": True,
    },
    mixers={"full": _full, "sliding": _sliding},
    feed_forwards=_FEED_FORWARDS,
    mixer_schedule=_spans,
    feed_forward_schedule=_sparse_layers,
)
_STEP3 = Family(
    defaults={
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "num_hidden_layers": 61,
        "num_attention_heads": 64,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "share_q_dim": 2048,
        "vocab_size": 128815,
        "num_experts": 48,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 5120,
        "share_expert_dim": 5120,
        "moe_layers_enum": tuple(range(4, 60)),
    },
    mixers={"full": _factored},
    feed_forwards=_FEED_FORWARDS,
    feed_forward_schedule=_sparse_layers,
)

STEP_FAMILIES: Mapping[str, Family] = {
    "step3p5": _STEP35,
    "step3p7": _STEP35,
    "step3_text": _STEP3,
    "step3_vl": _STEP3,
}
