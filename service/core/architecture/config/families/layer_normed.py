"""Dense decoders with layer norms: GPT-2 and what came of it, Falcon, Cohere, StableLM.

Defaults and quirks are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2024–2026) or, where a family is not
part of it, of the modelling code published with its checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.family import PRE_NORMS, Family
from service.core.architecture.config.fields import MAX_POSITIONS, Fields
from service.core.architecture.config.parts import (
    dense,
    expanded_width,
    grouped_attention,
    kv_head_count,
)
from service.core.architecture.config.schedules import every_nth_full, layer_types, windowed

_TIED = {"tie_word_embeddings": True}
#: Probabilities of dropout of the configuration class of GPT-2 and those made from it.
_DROPOUT = {"attn_pdrop": 0.1, "resid_pdrop": 0.1}
#: Positions that OPT's table reserves before the first.
_OPT_POSITION_OFFSET = 2


def _positions(fields: Fields) -> int:
    return fields.size("max_position_embeddings", maximum=MAX_POSITIONS)


def _opt_positions(fields: Fields) -> int:
    return _positions(fields) + _OPT_POSITION_OFFSET


def _single_query_group(fields: Fields) -> int:
    return 1 if fields.flag("multi_query") else fields.size("num_attention_heads")


def _falcon_groups(fields: Fields) -> int:
    if fields.flag("new_decoder_architecture"):
        return kv_head_count(fields)
    return _single_query_group(fields)


def _falcon_norms(fields: Fields) -> tuple[str, ...]:
    if fields.flag("new_decoder_architecture"):
        stated = fields.optional_size("num_ln_in_parallel_attn", maximum=2)
        if stated in (None, 2):
            return ("ln_attn", "ln_mlp")
    return PRE_NORMS[:1] if fields.flag("parallel_attn") else PRE_NORMS


def _stablelm_norms(fields: Fields) -> tuple[str, ...]:
    return PRE_NORMS[:1] if fields.flag("use_parallel_residual") else PRE_NORMS


def _expansion(fields: Fields) -> int:
    """Width as a multiple of the hidden size (MPT)."""
    ratio = fields.ratio("expansion_ratio", maximum=1000.0) or 4.0
    return max(1, int(ratio * fields.size("hidden_size")))


_GPT2_PARTS = {"dense": dense(names=("c_fc", "c_proj"), bias=True, width=expanded_width)}
_GPT2 = Family(
    defaults={**_TIED, **_DROPOUT},
    mixers=grouped_attention(names=("c_attn", "c_proj"), qkv_bias=True, output_bias=True),
    feed_forwards=_GPT2_PARTS,
    norms=("ln_1", "ln_2"),
    norm_bias=True,
    learned_positions=_positions,
)
_GPT_BIGCODE = Family(
    defaults={**_TIED, **_DROPOUT, "multi_query": True},
    mixers=grouped_attention(
        names=("c_attn", "c_proj"), qkv_bias=True, output_bias=True, kv_heads=_single_query_group
    ),
    feed_forwards=_GPT2_PARTS,
    norms=("ln_1", "ln_2"),
    norm_bias=True,
    learned_positions=_positions,
)
_GPT_NEO = Family(
    defaults={**_TIED, "sliding_window": 256},
    mixers=grouped_attention(names=("q_proj", "k_proj", "v_proj", "out_proj"), output_bias=True),
    feed_forwards=_GPT2_PARTS,
    mixer_schedule=layer_types(every_nth_full(2)),
    norms=("ln_1", "ln_2"),
    norm_bias=True,
    learned_positions=_positions,
)
_GPT_NEOX = Family(
    defaults={"attention_bias": True},
    mixers=grouped_attention(
        names=("query_key_value", "dense"), qkv_bias="attention_bias", output_bias="attention_bias"
    ),
    feed_forwards={"dense": dense(names=("dense_h_to_4h", "dense_4h_to_h"), bias=True)},
    norm_bias=True,
)
_GPTJ_PARTS = {"dense": dense(names=("fc_in", "fc_out"), bias=True, width=expanded_width)}
_GPTJ = Family(
    mixers=grouped_attention(names=("q_proj", "k_proj", "v_proj", "out_proj")),
    feed_forwards=_GPTJ_PARTS,
    norms=("ln_1",),
    norm_bias=True,
    head_bias=True,
)
_CODEGEN = Family(
    mixers=grouped_attention(names=("qkv_proj", "out_proj")),
    feed_forwards=_GPTJ_PARTS,
    norms=("ln_1",),
    norm_bias=True,
    head_bias=True,
)
_OPT = Family(
    defaults={**_TIED, "do_layer_norm_before": True, "enable_bias": True, "dropout": 0.1},
    mixers=grouped_attention(
        names=("q_proj", "k_proj", "v_proj", "out_proj"),
        qkv_bias="enable_bias",
        output_bias="enable_bias",
    ),
    feed_forwards={"dense": dense(names=("fc1", "fc2"), bias="enable_bias")},
    norms=("self_attn_layer_norm", "final_layer_norm"),
    norm_bias=True,
    # The 350M model norms after its parts and has no norm of its own at the end.
    final_norm="do_layer_norm_before",
    learned_positions=_opt_positions,
)
_BIOGPT = replace(_OPT, defaults={**_OPT.defaults, "attention_probs_dropout_prob": 0.1})
_BLOOM = Family(
    defaults=_TIED,
    mixers=grouped_attention(names=("query_key_value", "dense"), qkv_bias=True, output_bias=True),
    feed_forwards={
        "dense": dense(names=("dense_h_to_4h", "dense_4h_to_h"), bias=True, width=expanded_width)
    },
    norm_bias=True,
    embedding_norm=True,
)
_FALCON = Family(
    defaults={**_TIED, "multi_query": True, "parallel_attn": True},
    mixers=grouped_attention(
        names=("query_key_value", "dense"),
        qkv_bias="bias",
        output_bias="bias",
        kv_heads=_falcon_groups,
    ),
    feed_forwards={
        "dense": dense(names=("dense_h_to_4h", "dense_4h_to_h"), bias="bias", width=expanded_width)
    },
    norms=_falcon_norms,
    norm_bias=True,
)
_MPT = Family(
    defaults=_TIED,
    mixers=grouped_attention(names=("Wqkv", "out_proj")),
    feed_forwards={"dense": dense(names=("up_proj", "down_proj"), width=_expansion)},
    norms=("norm_1", "norm_2"),
)
_STARCODER2 = Family(
    defaults={**_TIED, "num_key_value_heads": 2, "use_bias": True},
    mixers=grouped_attention(qkv_bias="use_bias", output_bias="use_bias"),
    feed_forwards={"dense": dense(names=("c_fc", "c_proj"), bias="use_bias")},
    mixer_schedule=windowed(),
    norm_bias=True,
)
_PHI = Family(
    mixers=grouped_attention(
        names=("q_proj", "k_proj", "v_proj", "dense"),
        qkv_bias=True,
        output_bias=True,
        qk_norm="qk_layernorm",
        qk_norm_bias=True,
    ),
    feed_forwards={"dense": dense(names=("fc1", "fc2"), bias=True)},
    norms=PRE_NORMS[:1],
    norm_bias=True,
    head_bias=True,
)
_PHI3_SMALL = Family(
    defaults={**_TIED, "ffn_dropout_prob": 0.1},
    mixers=grouped_attention(names=("query_key_value", "dense"), qkv_bias=True, output_bias=True),
    feed_forwards={"dense": dense(names=("up_proj", "down_proj"), fused_gate=True, bias=True)},
    norm_bias=True,
)
_STABLELM = Family(
    mixers=grouped_attention(
        qkv_bias="use_qkv_bias", qk_norm="qk_layernorm", qk_norm_width="heads"
    ),
    norms=_stablelm_norms,
    norm_bias=True,
)
_COHERE = Family(
    defaults=_TIED,
    mixers=grouped_attention(
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        qk_norm="use_qk_norm",
        qk_norm_width="heads",
    ),
    norms=PRE_NORMS[:1],
)
_COHERE2 = Family(
    defaults={**_TIED, "head_dim": 128, "sliding_window": 4096, "sliding_window_pattern": 4},
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias"),
    mixer_schedule=layer_types(every_nth_full("sliding_window_pattern")),
    norms=PRE_NORMS[:1],
)
_NEMOTRON = Family(
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias"),
    feed_forwards={"dense": dense(names=("up_proj", "down_proj"), bias="mlp_bias")},
    norm_bias=True,
)
_PERSIMMON = Family(
    defaults={"qk_layernorm": True},
    mixers=grouped_attention(
        names=("query_key_value", "dense"),
        qkv_bias=True,
        output_bias=True,
        qk_norm="qk_layernorm",
        qk_norm_bias=True,
    ),
    feed_forwards={"dense": dense(names=("dense_h_to_4h", "dense_4h_to_h"), bias=True)},
    norm_bias=True,
)

LAYER_NORMED_FAMILIES: Mapping[str, Family] = {
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT_BIGCODE,
    "gpt_neo": _GPT_NEO,
    "gpt_neox": _GPT_NEOX,
    "gptj": _GPTJ,
    "codegen": _CODEGEN,
    "opt": _OPT,
    "biogpt": _BIOGPT,
    "jais2": _NEMOTRON,
    "bloom": _BLOOM,
    "falcon": _FALCON,
    "mpt": _MPT,
    "starcoder2": _STARCODER2,
    "phi": _PHI,
    "phi3small": _PHI3_SMALL,
    "stablelm": _STABLELM,
    "stablelm_epoch": _STABLELM,
    "cohere": _COHERE,
    "cohere2": _COHERE2,
    "nemotron": _NEMOTRON,
    "persimmon": _PERSIMMON,
}
