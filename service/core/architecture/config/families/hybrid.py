"""State-space models, and hybrids of them with attention.

Defaults and quirks are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2024–2026) or, where a family is not
part of it, of the modelling code published with its checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.families.sparse import GRANITE_EXPERTS
from service.core.architecture.config.families.state import (
    expanded_hidden,
    gated_delta_net,
    gated_recurrence,
    lightning_attention,
    mamba,
    mamba2,
    short_convolution,
)
from service.core.architecture.config.family import Family
from service.core.architecture.config.fields import MAX_LAYERS, MAX_WIDTH, Fields
from service.core.architecture.config.parts import (
    dense,
    experts,
    grouped_attention,
    shared_block_width,
    shared_expert_width,
    stated_width,
)
from service.core.architecture.config.schedules import (
    LayerKinds,
    Schedule,
    every,
    every_nth_full,
    layer_types,
    periodic,
    sparse_steps,
)
from service.core.architecture.model import StateMixer

#: Nemotron-H: kinds of a layer's mixer and feed-forward part by its letter or name.
_NEMOTRON_LAYERS: Mapping[object, tuple[str | None, str | None]] = {
    "M": ("mamba", None),
    "*": ("full", None),
    "-": (None, "dense"),
    "E": (None, "experts"),
    "mamba": ("mamba", None),
    "attention": ("full", None),
    "mlp": (None, "dense"),
    "moe": (None, "experts"),
    "linear_attention": ("mamba", None),
    "full_attention": ("full", None),
}
_GATED_DELTA_DEFAULTS: Mapping[str, object] = {
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
}
_MAMBA_DEFAULTS: Mapping[str, object] = {
    "state_size": 16,
    "conv_kernel": 4,
    "expand": 2,
    "use_conv_bias": True,
}


def _stated_inner(fields: Fields) -> int:
    return fields.optional_size("intermediate_size") or expanded_hidden(fields)


def _plain_mamba(fields: Fields) -> StateMixer:
    return mamba(fields, inner=expanded_hidden(fields), normed=False, bias=fields.flag("use_bias"))


def _falcon_mamba(fields: Fields) -> StateMixer:
    # Its norms of time step and inputs have no weights.
    return mamba(fields, inner=_stated_inner(fields), normed=False, bias=fields.flag("use_bias"))


def _jamba_mixer(fields: Fields) -> StateMixer:
    return mamba(
        fields, inner=expanded_hidden(fields), normed=True, bias=fields.flag("mamba_proj_bias")
    )


def _plain_mamba2(fields: Fields) -> StateMixer:
    heads, width = fields.size("state_heads"), fields.size("state_head_dim")
    return mamba2(fields, heads=heads, width=width, bias=fields.flag("use_bias"))


def _sized_mamba2(fields: Fields) -> StateMixer:
    """Mamba 2 whose head width may be left to inner width over heads."""
    heads = fields.size("state_heads")
    width = fields.automatic_size("state_head_dim")
    if width is None:
        inner = expanded_hidden(fields)
        if inner % heads:
            raise fields.fault("state_heads", f"must divide the inner width {inner:,}")
        width = inner // heads
    return mamba2(fields, heads=heads, width=width, bias=fields.flag("mamba_proj_bias"))


def _listed_attention(key: str) -> Schedule:
    """Attention in the layers that a key lists, state-space mixers in the others."""

    def schedule(fields: Fields, layers: int) -> LayerKinds:
        listed = fields.indices(key, layers) or frozenset()
        return tuple("full" if layer in listed else "mamba" for layer in range(layers))

    return schedule


def _nemotron_layers(fields: Fields, layers: int) -> list[tuple[str | None, str | None]]:
    pattern = fields.text("hybrid_override_pattern")
    key = "layer_types" if pattern is None else "hybrid_override_pattern"
    listed = fields.array("layer_types", layers) if pattern is None else list(pattern)
    if listed is None or len(listed) != layers:
        raise fields.fault(key, f"must have {layers:,} entries, one a layer")
    kinds = []
    for name in listed:
        if not isinstance(name, str) or name not in _NEMOTRON_LAYERS:
            raise fields.fault(key, f"has an unknown kind of layer: {name!r:.60}")
        kinds.append(_NEMOTRON_LAYERS[name])
    return kinds


def _nemotron_mixers(fields: Fields, layers: int) -> LayerKinds:
    return tuple(mixer for mixer, _ in _nemotron_layers(fields, layers))


def _nemotron_feed_forwards(fields: Fields, layers: int) -> LayerKinds:
    return tuple(part for _, part in _nemotron_layers(fields, layers))


def _nemotron_shared_width(fields: Fields) -> int:
    each = fields.count("moe_shared_expert_intermediate_size", MAX_WIDTH)
    return fields.count("n_shared_experts") * each


def _minimax_layers(fields: Fields, layers: int) -> LayerKinds:
    """MiniMax-Text-01 marks attention layers by 1 and linear ones by 0."""
    kinds = fields.array("attn_type_list", layers)
    if kinds is None:
        return tuple("full" if layer % 2 == 0 else "linear" for layer in range(layers))
    if any(type(kind) is not int or kind not in (0, 1) for kind in kinds):
        raise fields.fault("attn_type_list", "must hold 0 for linear and 1 for full attention")
    return tuple("full" if kind else "linear" for kind in kinds)


def _granite_parts(fields: Fields, layers: int) -> LayerKinds:
    return ("experts" if fields.count("num_experts") else "dense",) * layers


def _liquid_width(fields: Fields) -> int:
    """LFM2 takes two thirds of the stated width and rounds up to a multiple."""
    width = stated_width(fields)
    if not fields.flag("block_auto_adjust_ff_dim"):
        return width
    width = int(2 * width / 3)
    ratio = fields.ratio("block_ffn_dim_multiplier")
    if ratio is not None:
        width = int(ratio * width)
    multiple = fields.size("block_multiple_of")
    return multiple * -(-width // multiple)


def _liquid_layers(fields: Fields, layers: int) -> LayerKinds:
    listed = fields.indices("full_attn_idxs", layers)
    return tuple("full" if listed is None or layer in listed else "conv" for layer in range(layers))


_QWEN3_NEXT = Family(
    defaults={
        **_GATED_DELTA_DEFAULTS,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
    },
    mixers={
        **grouped_attention(
            qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True, output_gate=True
        ),
        "linear": gated_delta_net,
    },
    feed_forwards={
        "dense": dense(),
        "experts": experts(shared_width=shared_expert_width, shared_gate=True),
    },
    mixer_schedule=layer_types(every_nth_full("full_attention_interval", other="linear")),
    feed_forward_schedule=sparse_steps,
)
#: What configurations of Qwen3.5 say (Qwen/Qwen3.5-27B, 2026).
_WIDE_STATES = {"mamba_ssm_dtype": "float32"}
_QWEN35_MOE = replace(
    _QWEN3_NEXT,
    defaults={
        **_QWEN3_NEXT.defaults,
        **_WIDE_STATES,
        "num_experts": 256,
        "num_experts_per_tok": 8,
    },
    feed_forward_schedule=every("experts"),
)
_QWEN35 = Family(
    defaults={**_GATED_DELTA_DEFAULTS, **_WIDE_STATES, "num_key_value_heads": 4},
    mixers=_QWEN3_NEXT.mixers,
    mixer_schedule=_QWEN3_NEXT.mixer_schedule,
)
_MAMBA = Family(
    defaults={**_MAMBA_DEFAULTS, "tie_word_embeddings": True},
    mixers={"mamba": _plain_mamba},
    mixer_schedule=every("mamba"),
    feed_forward_schedule=lambda fields, layers: (None,) * layers,  # noqa: ARG005
    norms=("norm",),
)
_FALCON_MAMBA = replace(_MAMBA, mixers={"mamba": _falcon_mamba})
_MAMBA2 = replace(
    _MAMBA,
    defaults={
        **_MAMBA_DEFAULTS,
        "state_size": 128,
        "n_groups": 8,
        "state_heads": 128,
        "state_head_dim": 64,
    },
    mixers={"mamba": _plain_mamba2},
)
_JAMBA = Family(
    defaults={
        **_MAMBA_DEFAULTS,
        "num_key_value_heads": 8,
        "num_experts": 16,
        "num_experts_per_tok": 2,
        "attn_layer_period": 8,
        "attn_layer_offset": 4,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
    },
    mixers={**grouped_attention(), "mamba": _jamba_mixer},
    feed_forwards={"dense": dense(), "experts": experts(router="router")},
    mixer_schedule=periodic("full", "mamba", "attn_layer_period", "attn_layer_offset"),
    feed_forward_schedule=periodic(
        "experts", "dense", "expert_layer_period", "expert_layer_offset"
    ),
)
_BAMBA = Family(
    defaults={
        **_MAMBA_DEFAULTS,
        "num_key_value_heads": 8,
        "state_size": 256,
        "state_heads": 128,
        "n_groups": 1,
    },
    mixers={
        **grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias"),
        "mamba": _sized_mamba2,
    },
    mixer_schedule=_listed_attention("attn_layer_indices"),
)
_GRANITE_HYBRID = Family(
    defaults={**_BAMBA.defaults, "num_key_value_heads": None},
    # Since release 5, transformers calls every recurrent layer linear attention.
    mixers={**_BAMBA.mixers, "linear": _sized_mamba2},
    feed_forwards={
        "dense": dense(
            names=("input_linear", "output_linear"), fused_gate=True, width=shared_block_width
        ),
        "experts": GRANITE_EXPERTS,
    },
    mixer_schedule=layer_types(every("mamba")),
    feed_forward_schedule=_granite_parts,
)
_NEMOTRON_H = Family(
    defaults={
        **_MAMBA_DEFAULTS,
        "state_size": 128,
        "state_heads": 128,
        "state_head_dim": 64,
        "n_groups": 8,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "n_shared_experts": 1,
    },
    mixers={
        **grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias"),
        "mamba": _sized_mamba2,
    },
    feed_forwards={
        "dense": dense(names=("up_proj", "down_proj"), bias="mlp_bias"),
        "experts": experts(
            names=("up_proj", "down_proj"),
            correction_bias=True,
            shared_width=_nemotron_shared_width,
            shared_names=("up_proj", "down_proj"),
            latent="moe_latent_size",
        ),
    },
    mixer_schedule=_nemotron_mixers,
    feed_forward_schedule=_nemotron_feed_forwards,
    norms=("norm",),
)


def _falcon_mamba2(fields: Fields) -> StateMixer:
    """The mixer of Falcon-H1, whose norm and inner width are stated."""
    heads, inner = fields.size("state_heads"), fields.optional_size("mamba_d_ssm")
    inner = inner or expanded_hidden(fields)
    if inner % heads:
        raise fields.fault("state_heads", f"must divide the inner width {inner:,}")
    return mamba2(
        fields,
        heads=heads,
        width=inner // heads,
        bias=fields.flag("mamba_proj_bias"),
        normed=fields.flag("mamba_rms_norm"),
        output_bias=fields.flag("projectors_bias"),
    )


def _liquid_parts(fields: Fields, layers: int) -> LayerKinds:
    """LFM2 with experts: the first layers are dense."""
    dense_layers = fields.count("num_dense_layers", MAX_LAYERS)
    return tuple("dense" if layer < dense_layers else "experts" for layer in range(layers))


def _repeated_blocks(fields: Fields, layers: int) -> LayerKinds:
    """RecurrentGemma repeats ``block_types``, in which attention has a window."""
    kinds = fields.array("block_types") or ("recurrent", "recurrent", "attention")
    if len(kinds) > MAX_LAYERS or any(kind not in ("recurrent", "attention") for kind in kinds):
        raise fields.fault("block_types", "must hold recurrent and attention")
    return tuple(
        "recurrent" if kinds[layer % len(kinds)] == "recurrent" else "sliding"
        for layer in range(layers)
    )


_FALCON_H1 = Family(
    defaults={
        **_MAMBA_DEFAULTS,
        "num_key_value_heads": 8,
        "state_size": 256,
        "state_heads": 128,
        "n_groups": 1,
        "mamba_d_ssm": 1024,
    },
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias"),
    feed_forwards={"dense": dense(bias="mlp_bias")},
    beside=_falcon_mamba2,
)
_MINIMAX = Family(
    defaults={"num_key_value_heads": 8, "num_experts": 8, "num_experts_per_tok": 2},
    mixers={**grouped_attention(), "linear": lightning_attention},
    feed_forwards={"experts": experts(names=("w1", "w3", "w2"))},
    mixer_schedule=layer_types(_minimax_layers),
    feed_forward_schedule=every("experts"),
)
_LFM2 = Family(
    defaults={
        "tie_word_embeddings": True,
        "num_key_value_heads": 8,
        "conv_L_cache": 3,
        "block_auto_adjust_ff_dim": True,
        "block_ffn_dim_multiplier": 1.0,
        "block_multiple_of": 256,
    },
    mixers={
        **grouped_attention(names=("q_proj", "k_proj", "v_proj", "out_proj"), qk_norm=True),
        "conv": short_convolution,
    },
    feed_forwards={"dense": dense(names=("w1", "w3", "w2"), width=_liquid_width)},
    mixer_schedule=layer_types(_liquid_layers),
)
_LFM2_MOE = Family(
    defaults={
        "tie_word_embeddings": True,
        "num_key_value_heads": 8,
        "conv_L_cache": 3,
        "num_experts": 32,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1792,
        "num_dense_layers": 2,
        "use_expert_bias": True,
    },
    mixers=_LFM2.mixers,
    feed_forwards={
        "dense": dense(names=("w1", "w3", "w2")),
        "experts": experts(names=("w1", "w3", "w2"), correction_bias="use_expert_bias"),
    },
    mixer_schedule=layer_types(_liquid_layers),
    feed_forward_schedule=_liquid_parts,
)
_RECURRENT_GEMMA = Family(
    defaults={
        "tie_word_embeddings": True,
        "num_attention_heads": 10,
        "conv1d_width": 4,
        "sliding_window": 2048,
        "recurrent_output_bias": True,
    },
    mixers={
        **grouped_attention(qkv_bias="attention_bias", output_bias="recurrent_output_bias"),
        "recurrent": gated_recurrence,
    },
    feed_forwards={
        "dense": dense(bias=True, width=lambda fields: max(1, stated_width(fields) // 2))
    },
    mixer_schedule=_repeated_blocks,
)

HYBRID_FAMILIES: Mapping[str, Family] = {
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5": _QWEN35,
    "qwen3_5_text": _QWEN35,
    "qwen3_5_moe": _QWEN35_MOE,
    "qwen3_5_moe_text": _QWEN35_MOE,
    "mamba": _MAMBA,
    "falcon_mamba": _FALCON_MAMBA,
    "mamba2": _MAMBA2,
    "jamba": _JAMBA,
    "bamba": _BAMBA,
    "granitemoehybrid": _GRANITE_HYBRID,
    "nemotron_h": _NEMOTRON_H,
    "minimax": _MINIMAX,
    "minimax_text_01": _MINIMAX,
    "minimax_m1": _MINIMAX,
    "lfm2": _LFM2,
    "lfm2_moe": _LFM2_MOE,
    "falcon_h1": _FALCON_H1,
    "recurrent_gemma": _RECURRENT_GEMMA,
}
