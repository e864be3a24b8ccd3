"""Gemma 4: global layers with wider heads, layers that read earlier caches, per-layer inputs.

Defaults and quirks are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.families.llama_like import SANDWICH_NORMS
from service.core.architecture.config.family import Family
from service.core.architecture.config.fields import (
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_VOCABULARY,
    Fields,
)
from service.core.architecture.config.parts import (
    MixerBuilder,
    dense,
    experts,
    linear,
    norm,
    stated_width,
    vector,
)
from service.core.architecture.config.schedules import (
    LayerKinds,
    Schedule,
    every_nth_full,
    layer_types,
)
from service.core.architecture.model import Attention, DenseFeedForward, MixtureOfExperts, Span
from service.core.architecture.tensors import Shard, Tensor, TensorClass

#: Suffix of the kind of layers that keep no keys and values of their own.
READER = " reader"

_DENSE = dense()
_EXPERTS = experts(
    names=("gate_up_proj", "down_proj"), fused_gate=True, router="router", shared_width=stated_width
)


def _attention(span: Span, *, reads_cache: bool) -> MixerBuilder:
    def build(fields: Fields) -> Attention:
        hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
        groups = fields.size("num_key_value_heads", maximum=heads)
        width, window_tokens, shared_projection = fields.size("head_dim"), None, False
        if span is Span.FULL:
            shared_projection = fields.flag("attention_k_eq_v")
            width = fields.size("global_head_dim")
            if shared_projection and fields.has("num_global_key_value_heads"):
                groups = fields.size("num_global_key_value_heads", maximum=heads)
        else:
            window_tokens = fields.size("sliding_window", maximum=MAX_POSITIONS)
        if heads % groups:
            raise fields.fault("num_key_value_heads", f"must divide the {heads:,} query heads")
        bias = fields.flag("attention_bias")
        kind = TensorClass.ATTENTION
        tensors = (
            *linear("q_proj", kind, hidden, heads * width, Shard.COLUMN, bias=bias),
            *norm("q_norm", width),
            *linear("o_proj", kind, heads * width, hidden, Shard.ROW, bias=bias),
        )
        if not reads_cache:
            tensors += norm("k_norm", width)
            for name in ("k_proj",) if shared_projection else ("k_proj", "v_proj"):
                tensors += linear(name, kind, hidden, groups * width, Shard.KV_HEADS, bias=bias)
        return Attention(heads, groups, width, width, span, window_tokens, reads_cache, tensors)

    return build


def layer_inputs(fields: Fields) -> tuple[Tensor, ...]:
    """What lets a layer's own embedding of the token in."""
    width = fields.count("hidden_size_per_layer_input")
    if not width:
        return ()
    hidden, whole = fields.size("hidden_size"), Shard.REPLICATED
    return (
        *linear("per_layer_input_gate", TensorClass.OTHER, hidden, width, whole),
        *linear("per_layer_projection", TensorClass.OTHER, width, hidden, whole),
    )


def _inputs_and_scale(fields: Fields) -> tuple[Tensor, ...]:
    """A layer's own embedding of the token, and the scalar on its output."""
    return (vector("layer_scalar", 1, Shard.REPLICATED), *layer_inputs(fields))


def _dense_part(fields: Fields) -> DenseFeedForward:
    part = _DENSE(fields)
    return replace(part, tensors=part.tensors + _inputs_and_scale(fields))


def _wide_part(fields: Fields) -> DenseFeedForward:
    part = dense(width=lambda sizes: 2 * stated_width(sizes))(fields)
    return replace(part, tensors=part.tensors + _inputs_and_scale(fields))


def _expert_part(fields: Fields) -> MixtureOfExperts:
    part = _EXPERTS(fields)
    scales = (
        vector("router.scale", fields.size("hidden_size"), Shard.REPLICATED),
        vector("router.per_expert_scale", part.experts, Shard.REPLICATED),
    )
    return replace(part, tensors=part.tensors + scales + _inputs_and_scale(fields))


def _readers_from(fields: Fields, layers: int) -> int:
    """First of the last layers, which read the caches of earlier ones [-]."""
    return layers - fields.count("num_kv_shared_layers", layers)


def cache_readers(otherwise: Schedule) -> Schedule:
    """Layers by ``layer_types`` or another schedule, the last of which read earlier caches."""

    def schedule(fields: Fields, layers: int) -> LayerKinds:
        own = layer_types(otherwise)(fields, layers)
        first = _readers_from(fields, layers)
        return tuple(
            f"{kind}{READER}" if layer >= first else kind for layer, kind in enumerate(own)
        )

    return schedule


def _last_full(fields: Fields, layers: int) -> LayerKinds:
    return (*every_nth_full(6)(fields, layers)[:-1], "full")


def _part_kinds(fields: Fields, layers: int) -> LayerKinds:
    if fields.flag("enable_moe_block"):
        return ("experts",) * layers
    wide = fields.flag("use_double_wide_mlp")
    first = _readers_from(fields, layers)
    return tuple("wide" if wide and layer >= first else "dense" for layer in range(layers))


def _norms(fields: Fields) -> tuple[str, ...]:
    names: tuple[str, ...] = SANDWICH_NORMS
    if fields.count("hidden_size_per_layer_input"):
        names += ("post_per_layer_input_norm",)
    if fields.flag("enable_moe_block"):
        names += (
            "post_feedforward_layernorm_1",
            "post_feedforward_layernorm_2",
            "pre_feedforward_layernorm_2",
        )
    return names


def layer_embeddings(fields: Fields) -> tuple[Tensor, ...]:
    """The table that gives every layer an embedding of its own, and its projection."""
    width = fields.count("hidden_size_per_layer_input")
    if not width:
        return ()
    rows = fields.size("vocab_size_per_layer_input", MAX_VOCABULARY)
    all_layers = width * fields.size("num_hidden_layers", MAX_LAYERS)
    hidden, whole = fields.size("hidden_size"), Shard.REPLICATED
    return (
        Tensor("embed_tokens_per_layer", TensorClass.EMBEDDING, all_layers, rows, whole),
        *linear("per_layer_model_projection", TensorClass.OTHER, hidden, all_layers, whole),
        *norm("per_layer_projection_norm", width),
    )


_GEMMA4 = Family(
    defaults={
        "tie_word_embeddings": True,
        "vocab_size": 262_144,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "global_head_dim": 512,
        "sliding_window": 512,
        "hidden_size_per_layer_input": 256,
        "vocab_size_per_layer_input": 262_144,
    },
    mixers={
        "sliding": _attention(Span.SLIDING, reads_cache=False),
        "full": _attention(Span.FULL, reads_cache=False),
        f"sliding{READER}": _attention(Span.SLIDING, reads_cache=True),
        f"full{READER}": _attention(Span.FULL, reads_cache=True),
    },
    feed_forwards={"dense": _dense_part, "wide": _wide_part, "experts": _expert_part},
    mixer_schedule=cache_readers(_last_full),
    feed_forward_schedule=_part_kinds,
    norms=_norms,
    extra_tensors=layer_embeddings,
)

#: Gemma 4 12B takes images and sound in as they are, and no embeddings by layer.
_GEMMA4_UNIFIED = replace(
    _GEMMA4,
    defaults={**_GEMMA4.defaults, "sliding_window": 1024, "hidden_size_per_layer_input": 0},
)

GEMMA4_FAMILIES: Mapping[str, Family] = {
    "gemma4": _GEMMA4,
    "gemma4_text": _GEMMA4,
    "gemma4_unified": _GEMMA4_UNIFIED,
    "gemma4_unified_text": _GEMMA4_UNIFIED,
}
