"""Decoders with routed experts and ordinary attention.

Defaults and quirks are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2024–2026) unless noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.families.llama_like import GRANITE_WINDOWS
from service.core.architecture.config.family import PRE_NORMS, Family
from service.core.architecture.config.fields import MAX_LAYERS, ConfigNotUnderstood, Fields
from service.core.architecture.config.parts import (
    AttentionBuilder,
    dense,
    expert_width,
    experts,
    grouped_attention,
    linear,
    shared_block_width,
    shared_expert_width,
    shared_experts_width,
    stated_width,
)
from service.core.architecture.config.schedules import (
    LayerKinds,
    dense_first,
    every,
    every_nth_full,
    late_windows,
    layer_types,
    sparse_steps,
    windowed,
)
from service.core.architecture.model import Attention
from service.core.architecture.tensors import Shard, TensorClass


def _dense_layer_width(fields: Fields) -> int:
    """Width of Llama 4's dense layers [-]."""
    return fields.size("intermediate_size_mlp")


def _rotary_layers_chunked(fields: Fields, layers: int) -> LayerKinds:
    """Llama 4: layers with rotary positions see their own chunk, each fourth sees everything."""
    if not fields.has("attention_chunk_size"):
        return ("full",) * layers
    rotary = fields.array("no_rope_layers")
    if rotary:
        rotary = fields.array("no_rope_layers", layers)
        return tuple("chunked" if flag else "full" for flag in rotary or ())
    return every_nth_full("no_rope_layer_interval", other="chunked")(fields, layers)


def _interleaved_experts(fields: Fields, layers: int) -> LayerKinds:
    """Experts in the layers ``moe_layers`` lists, or each ``interleave_moe_layer_step``."""
    listed = fields.indices("moe_layers", layers)
    if listed is not None:
        return tuple("experts" if layer in listed else "dense" for layer in range(layers))
    step = fields.size("interleave_moe_layer_step", MAX_LAYERS)
    return tuple("experts" if (layer + 1) % step == 0 else "dense" for layer in range(layers))


def ernie_experts(fields: Fields, layers: int) -> LayerKinds:
    """Experts from a first to a last layer, each ``moe_layer_interval``."""
    first = fields.count("moe_layer_start_index", MAX_LAYERS)
    last = fields.optional_size("moe_layer_end_index", MAX_LAYERS, minimum=-1)
    if last is None or last < 0:
        last = layers - 1
    step = fields.size("moe_layer_interval", MAX_LAYERS)
    return tuple(
        "experts" if first <= layer <= last and (layer + 1) % step == 0 else "dense"
        for layer in range(layers)
    )


def _shared_of_stated_width(fields: Fields) -> int:
    """Width of shared experts that are as wide as a dense layer each (Hunyuan) [-]."""
    return fields.count("n_shared_experts") * stated_width(fields)


def _shared_of_own_width(fields: Fields) -> int:
    """Width of shared experts together, whose own may be stated (Ling) [-]."""
    own = fields.optional_size("moe_shared_expert_intermediate_size")
    return fields.count("n_shared_experts") * (own or expert_width(fields))


def _dense_part_beside_experts(fields: Fields) -> int:
    """Width of the dense part that Grok 2 has beside its experts [-]."""
    return stated_width(fields) if fields.flag("residual_moe") else 0


_MIXTRAL = Family(
    defaults={"num_key_value_heads": 8, "num_experts": 8, "num_experts_per_tok": 2},
    feed_forwards={"experts": experts(names=("w1", "w3", "w2"))},
    mixer_schedule=layer_types(windowed()),
    feed_forward_schedule=every("experts"),
)
_QWEN2_MOE = Family(
    defaults={
        "num_key_value_heads": 16,
        "num_experts": 60,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632,
        "sliding_window": 4096,
        "max_window_layers": 28,
    },
    mixers=grouped_attention(qkv_bias=True),
    feed_forwards={
        "dense": dense(),
        "experts": experts(shared_width=shared_expert_width, shared_gate=True),
    },
    mixer_schedule=layer_types(late_windows("use_sliding_window")),
    feed_forward_schedule=sparse_steps,
)
_QWEN3_MOE = Family(
    defaults={
        "num_key_value_heads": 4,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "sliding_window": 4096,
    },
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True),
    feed_forwards={"dense": dense(), "experts": experts()},
    mixer_schedule=layer_types(windowed("use_sliding_window")),
    feed_forward_schedule=sparse_steps,
)
_GPT_OSS = Family(
    defaults={
        "num_experts": 128,
        "num_experts_per_tok": 4,
        "head_dim": 64,
        "num_key_value_heads": 8,
        "sliding_window": 128,
        "attention_bias": True,
    },
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias", sinks=True),
    feed_forwards={
        "experts": experts(
            names=("gate_up_proj", "down_proj"),
            fused_gate=True,
            bias=True,
            router="router",
            router_bias=True,
        )
    },
    mixer_schedule=layer_types(every_nth_full(2)),
    feed_forward_schedule=every("experts"),
)

_GLM4_MOE = Family(
    defaults={
        "num_key_value_heads": 8,
        "num_experts": 128,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 1408,
        "first_k_dense_replace": 1,
    },
    mixers=grouped_attention(qkv_bias="attention_bias", qk_norm="use_qk_norm"),
    feed_forwards={
        "dense": dense(),
        "experts": experts(correction_bias=True, shared_width=shared_experts_width),
    },
    feed_forward_schedule=dense_first,
)
_DEEPSEEK = Family(
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias"),
    feed_forwards={"dense": dense(), "experts": experts(shared_width=shared_experts_width)},
    feed_forward_schedule=dense_first,
)
_DOTS1 = Family(
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True),
    feed_forwards=_GLM4_MOE.feed_forwards,
    mixer_schedule=layer_types(late_windows("use_sliding_window")),
    feed_forward_schedule=dense_first,
)
_OLMOE = Family(
    defaults={"num_experts": 64, "num_experts_per_tok": 8},
    mixers=grouped_attention(
        qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True, qk_norm_width="all"
    ),
    feed_forwards={"experts": experts()},
    feed_forward_schedule=every("experts"),
)
_MINIMAX_M2 = Family(
    defaults={"num_experts": 256, "num_experts_per_tok": 8},
    mixers=grouped_attention(qk_norm=True, qk_norm_width="all"),
    feed_forwards={"experts": experts(names=("w1", "w3", "w2"), correction_bias=True)},
    feed_forward_schedule=every("experts"),
)
_PHIMOE = Family(
    defaults={"num_experts": 16, "num_experts_per_tok": 2, "num_key_value_heads": 8},
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias"),
    feed_forwards={"experts": experts(names=("w1", "w3", "w2"))},
    mixer_schedule=windowed(),
    feed_forward_schedule=every("experts"),
    norm_bias=True,
    head_bias="lm_head_bias",
)
GRANITE_EXPERTS = experts(
    names=("input_linear", "output_linear"),
    fused_gate=True,
    router="router",
    shared_width=shared_block_width,
    shared_names=("input_linear", "output_linear"),
    shared_fused_gate=True,
)
_GRANITEMOE = Family(
    defaults={"num_experts": 8, "num_experts_per_tok": 2},
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias"),
    feed_forwards={"experts": GRANITE_EXPERTS},
    feed_forward_schedule=every("experts"),
)
_DBRX = Family(
    mixers=grouped_attention(names=("Wqkv", "out_proj")),
    feed_forwards={"experts": experts(names=("w1", "v1", "w2"), router="router")},
    feed_forward_schedule=every("experts"),
    norms=("norm_1", "norm_2"),
)
_LLAMA4 = Family(
    defaults={
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_experts": 16,
        "num_experts_per_tok": 1,
        "attention_chunk_size": 8192,
        "interleave_moe_layer_step": 1,
        "no_rope_layer_interval": 4,
    },
    mixers=grouped_attention(
        qkv_bias="attention_bias", output_bias="attention_bias", window="attention_chunk_size"
    ),
    feed_forwards={
        "dense": dense(width=_dense_layer_width),
        "experts": experts(
            names=("gate_up_proj", "down_proj"),
            fused_gate=True,
            router="router",
            shared_width=stated_width,
        ),
    },
    mixer_schedule=layer_types(_rotary_layers_chunked),
    feed_forward_schedule=_interleaved_experts,
)
ERNIE_MOE = Family(
    defaults={
        "tie_word_embeddings": True,
        "num_key_value_heads": 4,
        "num_experts": 64,
        "num_experts_per_tok": 6,
        "moe_intermediate_size": 1536,
        "n_shared_experts": 2,
        "moe_layer_start_index": 1,
        "moe_layer_interval": 1,
    },
    mixers=grouped_attention(qkv_bias="use_bias", output_bias="use_bias"),
    feed_forwards={
        "dense": dense(bias="use_bias"),
        "experts": experts(correction_bias=True, shared_width=shared_experts_width),
    },
    feed_forward_schedule=ernie_experts,
)


_HUNYUAN_MOE = Family(
    defaults={"num_experts": 64, "num_experts_per_tok": 8, "n_shared_experts": 1},
    mixers=grouped_attention(
        qkv_bias="attention_bias", output_bias="attention_bias", qk_norm="use_qk_norm"
    ),
    feed_forwards={"experts": experts(shared_width=_shared_of_stated_width)},
    feed_forward_schedule=every("experts"),
)
_EXAONE_MOE = Family(
    defaults={
        "sliding_window": 4096,
        "num_experts": 64,
        "num_experts_per_tok": 8,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
    },
    mixers=grouped_attention(qk_norm=True),
    feed_forwards=_GLM4_MOE.feed_forwards,
    mixer_schedule=layer_types(every_nth_full(4)),
    feed_forward_schedule=dense_first,
)
_SOLAR_OPEN = Family(
    defaults={"num_key_value_heads": 8, "n_shared_experts": 1, "num_experts_per_tok": 8},
    feed_forwards=_GLM4_MOE.feed_forwards,
    feed_forward_schedule=dense_first,
)

_GRANITEMOE_SINKS = Family(
    defaults={**_GRANITEMOE.defaults, "sliding_window": 128},
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias", sinks=True),
    feed_forwards=_GRANITEMOE.feed_forwards,
    mixer_schedule=GRANITE_WINDOWS,
    feed_forward_schedule=every("experts"),
)
_HUNYUAN_3 = Family(
    defaults=_GLM4_MOE.defaults,
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True),
    feed_forwards=_GLM4_MOE.feed_forwards,
    feed_forward_schedule=dense_first,
)
_BAILING = Family(
    mixers=grouped_attention(
        names=("query_key_value", "dense"),
        qkv_bias="use_qkv_bias",
        output_bias="use_bias",
        qk_norm="use_qk_norm",
    ),
    feed_forwards={
        "dense": dense(),
        "experts": experts(
            correction_bias="moe_router_enable_expert_bias", shared_width=_shared_of_own_width
        ),
    },
    feed_forward_schedule=dense_first,
)
_GROK_1 = Family(
    defaults={"tie_word_embeddings": True, "num_experts": 8, "num_experts_per_tok": 2},
    feed_forwards={
        "experts": experts(names=("w1", "w3", "w2"), shared_width=_dense_part_beside_experts)
    },
    feed_forward_schedule=every("experts"),
    norms=("pre_attn_norm", "post_attn_norm", "pre_moe_norm", "post_moe_norm"),
)
_GROK_2 = replace(_GROK_1, defaults={**_GROK_1.defaults, "tie_word_embeddings": False})


def _stated_dense_layers(fields: Fields, layers: int) -> LayerKinds:
    """Dense parts in the first ``num_dense_layers`` layers (Trinity)."""
    first = fields.count("num_dense_layers", MAX_LAYERS)
    return tuple("dense" if layer < first else "experts" for layer in range(layers))


def _gated_by_element(fields: Fields) -> bool:
    """Laguna: ``gating`` is "per-head" or true for a gate by head, else it is by element."""
    try:
        return fields.text("gating") != "per-head"
    except ConfigNotUnderstood:
        return not fields.flag("gating")


def _own_head_count(span: str) -> AttentionBuilder:
    """Laguna: layers with a window have a number of heads of their own, and all a gate by head."""
    plain = grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True)
    gated = grouped_attention(
        qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True, output_gate=True
    )

    def build(fields: Fields) -> Attention:
        layers = fields.size("num_hidden_layers", MAX_LAYERS)
        counts = fields.array("num_attention_heads_per_layer", layers)
        if counts is not None:
            spans = layer_types(every("full"))(fields, layers)
            own = {count for count, kind in zip(counts, spans, strict=True) if kind == span}
            if len(own) > 1:
                raise fields.fault(
                    "num_attention_heads_per_layer", "layers of one kind differ in their heads"
                )
            fields = fields.replaced(num_attention_heads=own.pop())
        if _gated_by_element(fields):
            return gated[span](fields)
        attention = plain[span](fields)
        gate = linear(
            "g_proj",
            TensorClass.ATTENTION,
            fields.size("hidden_size"),
            attention.query_heads,
            Shard.COLUMN,
        )
        return replace(attention, tensors=attention.tensors + gate)

    return build


_AFMOE = Family(
    defaults={
        "num_experts": 64,
        "num_experts_per_tok": 6,
        "n_shared_experts": 2,
        "num_dense_layers": 1,
        "moe_intermediate_size": 1408,
        "head_dim": 128,
        "global_attn_every_n_layers": 4,
        "sliding_window": 1024,
    },
    # The gate on the output is a matrix as large as that of the queries.
    mixers=grouped_attention(
        qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True, output_gate=True
    ),
    feed_forwards=_GLM4_MOE.feed_forwards,
    mixer_schedule=layer_types(every_nth_full("global_attn_every_n_layers")),
    feed_forward_schedule=_stated_dense_layers,
    norms=(
        *("input_layernorm", "post_attention_layernorm"),
        *("pre_mlp_layernorm", "post_mlp_layernorm"),
    ),
)
_LAGUNA = Family(
    defaults={
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "sliding_window": 512,
        "first_k_dense_replace": 1,
    },
    mixers={span: _own_head_count(span) for span in ("full", "sliding")},
    feed_forwards={
        "dense": dense(),
        "experts": experts(correction_bias=True, shared_width=shared_expert_width),
    },
    mixer_schedule=layer_types(every("full")),
    feed_forward_schedule=dense_first,
)
_FLINT = Family(
    defaults={**_LAGUNA.defaults, "shared_expert_intermediate_size": 1024, "sliding_window": 513},
    mixers=grouped_attention(
        qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True, sinks=True
    ),
    feed_forwards={"dense": dense(), "experts": experts(shared_width=shared_expert_width)},
    mixer_schedule=layer_types(windowed()),
    feed_forward_schedule=sparse_steps,
)
_BEAM = Family(
    defaults={"sliding_window": 512, "first_k_dense_replace": 3},
    mixers=grouped_attention(qk_norm=True, output_gate=True),
    feed_forwards={"dense": dense(), "experts": experts(correction_bias=True)},
    mixer_schedule=layer_types(every_nth_full(6)),
    feed_forward_schedule=dense_first,
)
_KOLIBRI = Family(
    defaults={**_LAGUNA.defaults, "num_key_value_heads": 4, "sliding_window": 513},
    mixers=grouped_attention(qk_norm=True),
    feed_forwards=_LAGUNA.feed_forwards,
    mixer_schedule=layer_types(every_nth_full(5)),
    feed_forward_schedule=every("experts"),
    norms=(*PRE_NORMS, "post_self_attn_layernorm", "post_mlp_layernorm"),
)

SPARSE_FAMILIES: Mapping[str, Family] = {
    "mixtral": _MIXTRAL,
    "qwen2_moe": _QWEN2_MOE,
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl_moe": _QWEN3_MOE,
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "qwen3_omni_moe_text": _QWEN3_MOE,
    "gpt_oss": _GPT_OSS,
    "glm4_moe": _GLM4_MOE,
    "deepseek": _DEEPSEEK,
    "dots1": _DOTS1,
    "olmoe": _OLMOE,
    "minimax_m2": _MINIMAX_M2,
    "phimoe": _PHIMOE,
    "granitemoe": _GRANITEMOE,
    "granitemoeshared": _GRANITEMOE,
    "dbrx": _DBRX,
    "llama4": _LLAMA4,
    "llama4_text": _LLAMA4,
    "ernie4_5_moe": ERNIE_MOE,
    "hunyuan_v1_moe": _HUNYUAN_MOE,
    "exaone_moe": _EXAONE_MOE,
    "solar_open": _SOLAR_OPEN,
    "aria_text": _DEEPSEEK,
    "flex_olmo": _OLMOE,
    "granitemoe_swa": _GRANITEMOE_SINKS,
    "hy_v3": _HUNYUAN_3,
    "mellum": _QWEN3_MOE,
    "glm4v_moe_text": _GLM4_MOE,
    "bailing_moe": _BAILING,
    "bailing_moe_v2": _BAILING,
    "grok-1": _GROK_1,
    "grok": _GROK_1,
    "grok-2": _GROK_2,
    "afmoe": _AFMOE,
    "laguna": _LAGUNA,
    "flint": _FLINT,
    "beam": _BEAM,
    "kolibri1": _KOLIBRI,
}
