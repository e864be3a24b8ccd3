"""Dense decoders of the Llama kind: RMS norms and a gated feed-forward part, without biases.

Defaults and quirks are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2024–2026) or, where a family is not
part of it, of the modelling code published with its checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.family import PRE_NORMS, Family
from service.core.architecture.config.fields import MAX_LAYERS, Fields
from service.core.architecture.config.parts import (
    AttentionBuilder,
    cross_attention,
    dense,
    grouped_attention,
    head_dim,
    kv_head_count,
    linear,
    norm,
    stated_width,
    vector,
)
from service.core.architecture.config.schedules import (
    LayerKinds,
    each_nth_starts_full,
    every_nth_full,
    late_windows,
    layer_types,
    windowed,
)
from service.core.architecture.model import Attention, DenseFeedForward
from service.core.architecture.tensors import Shard, Tensor, TensorClass

#: Norms on both sides of each part (Gemma 2 and later).
SANDWICH_NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)
#: Norms after each part only (OLMo 2, EXAONE 4).
POST_NORMS = ("post_attention_layernorm", "post_feedforward_layernorm")

#: Attention whose four projections have biases if ``attention_bias`` says so.
OPTIONAL_BIAS = grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias")
_NORMED = grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True)
_QWEN_WINDOWS = layer_types(late_windows("use_sliding_window"))
_QWEN_DEFAULTS = {"num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28}

#: MllamaTextConfig.cross_attention_layers and the rows added in MllamaTextModel.embed_tokens.
_MLLAMA_CROSS_LAYERS = (3, 8, 13, 18, 23, 28, 33, 38)
_MLLAMA_IMAGE_ROWS = 8


def _group_count(fields: Fields) -> int:
    """KV heads of ChatGLM: as many as query heads unless multi-query attention is on."""
    heads = fields.size("num_attention_heads")
    if not fields.flag("multi_query_attention"):
        return heads
    return fields.size("num_key_value_heads", maximum=heads)


def _half_width(fields: Fields) -> int:
    """Width of Qwen's first generation, which states gate and up projection together."""
    return max(1, stated_width(fields) // 2)


def _cross_layers(fields: Fields, layers: int) -> LayerKinds:
    """Llama 3.2 Vision: the listed layers attend to the image."""
    listed = fields.indices("cross_attention_layers", layers) or frozenset()
    return tuple("cross" if layer in listed else "full" for layer in range(layers))


def _image_tokens(fields: Fields) -> tuple[Tensor, ...]:
    """Rows that Llama 3.2 Vision's input table has beyond its vocabulary, for image tokens."""
    hidden = fields.size("hidden_size")
    return (
        Tensor(
            "embed_tokens.image",
            TensorClass.EMBEDDING,
            hidden,
            _MLLAMA_IMAGE_ROWS,
            Shard.REPLICATED,
        ),
    )


_LLAMA = Family(mixers=OPTIONAL_BIAS, feed_forwards={"dense": dense(bias="mlp_bias")})
_MISTRAL = Family(
    defaults={"num_key_value_heads": 8, "sliding_window": 4096},
    mixer_schedule=layer_types(windowed()),
)
_QWEN = Family(
    mixers=grouped_attention(names=("c_attn", "c_proj"), qkv_bias=True),
    feed_forwards={"dense": dense(names=("w1", "w2", "c_proj"), width=_half_width)},
    widens_logits=False,
)
_QWEN2 = Family(
    defaults=_QWEN_DEFAULTS, mixers=grouped_attention(qkv_bias=True), mixer_schedule=_QWEN_WINDOWS
)
_QWEN3 = Family(
    defaults={**_QWEN_DEFAULTS, "head_dim": 128}, mixers=_NORMED, mixer_schedule=_QWEN_WINDOWS
)
_GEMMA = Family(
    defaults={"tie_word_embeddings": True, "num_key_value_heads": 16, "head_dim": 256},
    mixers=OPTIONAL_BIAS,
)
_GEMMA2 = Family(
    defaults={
        "tie_word_embeddings": True,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    },
    mixers=OPTIONAL_BIAS,
    mixer_schedule=layer_types(every_nth_full(2)),
    norms=SANDWICH_NORMS,
)
_GEMMA3 = Family(
    defaults={
        # Published configurations leave out whatever equals the class default.
        "tie_word_embeddings": True,
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
        "max_position_embeddings": 131_072,
    },
    mixers=_NORMED,
    mixer_schedule=layer_types(every_nth_full("sliding_window_pattern")),
    norms=SANDWICH_NORMS,
)
_PHI3 = Family(
    mixers=grouped_attention(names=("qkv_proj", "o_proj")),
    feed_forwards={"dense": dense(names=("gate_up_proj", "down_proj"), fused_gate=True)},
    mixer_schedule=windowed(),
)


def _adapters(fields: Fields) -> tuple[Tensor, ...]:
    """Phi-4-multimodal's adapters of all projections, for images and for speech."""
    hidden, layers = fields.size("hidden_size"), fields.size("num_hidden_layers", MAX_LAYERS)
    heads, width = fields.size("num_attention_heads"), head_dim(fields)
    inner = fields.size("intermediate_size")
    tensors: tuple[Tensor, ...] = ()
    for key in ("vision_lora", "speech_lora"):
        section = fields.section(key, {})
        rank = None if section is None else section.optional_size("r")
        if rank is None:
            continue
        for name, inputs, outputs in (
            ("qkv_proj", hidden, (heads + 2 * kv_head_count(fields)) * width),
            ("o_proj", heads * width, hidden),
            ("gate_up_proj", hidden, 2 * inner),
            ("down_proj", inner, hidden),
        ):
            kind, whole = TensorClass.OTHER, Shard.REPLICATED
            tensors += linear(f"{key}.{name}.A", kind, inputs, rank, whole, copies=layers)
            tensors += linear(f"{key}.{name}.B", kind, rank, outputs, whole, copies=layers)
    return tensors


_OLMO = Family(mixers=OPTIONAL_BIAS, norm_weight=False)
_OLMO2 = Family(
    mixers=grouped_attention(
        qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True, qk_norm_width="all"
    ),
    norms=POST_NORMS,
)
_OLMO3 = Family(
    defaults={"sliding_window": 4096},
    mixers=_OLMO2.mixers,
    mixer_schedule=layer_types(every_nth_full(4)),
    norms=POST_NORMS,
)
_GLM_PARTS = {"dense": dense(names=("gate_up_proj", "down_proj"), fused_gate=True)}
_GLM = Family(
    defaults={"attention_bias": True, "num_key_value_heads": 2, "head_dim": 128},
    mixers=grouped_attention(qkv_bias="attention_bias"),
    feed_forwards=_GLM_PARTS,
)
_GLM4 = Family(
    defaults=_GLM.defaults,
    mixers=_GLM.mixers,
    feed_forwards=_GLM_PARTS,
    norms=(
        "input_layernorm",
        "post_attention_layernorm",
        "post_self_attn_layernorm",
        "post_mlp_layernorm",
    ),
)
_CHATGLM = Family(
    mixers=grouped_attention(
        names=("query_key_value", "dense"),
        qkv_bias="add_qkv_bias",
        output_bias="add_bias_linear",
        kv_heads=_group_count,
    ),
    feed_forwards={
        "dense": dense(
            names=("dense_h_to_4h", "dense_4h_to_h"), fused_gate=True, bias="add_bias_linear"
        )
    },
)
_EXAONE = Family(
    mixers=grouped_attention(names=("q_proj", "k_proj", "v_proj", "out_proj")),
    feed_forwards={"dense": dense(names=("c_fc_0", "c_fc_1", "c_proj"))},
)
_EXAONE4 = Family(
    mixers=grouped_attention(qk_norm=True),
    mixer_schedule=layer_types(every_nth_full(4)),
    norms=POST_NORMS,
)
_SMOLLM3 = Family(
    defaults={"num_key_value_heads": 4, "tie_word_embeddings": True},
    mixers=OPTIONAL_BIAS,
    feed_forwards={"dense": dense(bias="mlp_bias")},
    mixer_schedule=layer_types(windowed("use_sliding_window")),
)
_INTERNLM = Family(mixers=grouped_attention(qkv_bias="bias", output_bias="bias"))
_INTERNLM2 = Family(
    mixers=grouped_attention(names=("wqkv", "wo"), qkv_bias="bias", output_bias="bias"),
    feed_forwards={"dense": dense(names=("w1", "w3", "w2"))},
)
_INTERNLM3 = Family(
    mixers=grouped_attention(qkv_bias="qkv_bias", output_bias="bias"),
    feed_forwards={"dense": dense(bias="bias")},
)
_BAICHUAN = Family(mixers=grouped_attention(names=("W_pack", "o_proj")))
_SEED_OSS = Family(
    defaults={
        "attention_bias": True,
        "head_dim": 128,
        "attention_dropout": 0.1,
        "residual_dropout": 0.1,
    },
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_out_bias"),
    feed_forwards={"dense": dense(bias="mlp_bias")},
)
_ERNIE = Family(
    defaults={"tie_word_embeddings": True, "head_dim": 128},
    mixers=grouped_attention(qkv_bias="use_bias", output_bias="use_bias"),
    feed_forwards={"dense": dense(bias="use_bias")},
)
_HELIUM = Family(mixers=grouped_attention(qkv_bias="attention_bias"))
_ARCEE = Family(
    mixers=OPTIONAL_BIAS,
    feed_forwards={"dense": dense(names=("up_proj", "down_proj"), bias="mlp_bias")},
)
_APERTUS = Family(
    mixers=_NORMED,
    feed_forwards={"dense": dense(names=("up_proj", "down_proj"), activation_parameters=2)},
)
_HUNYUAN = Family(mixers=_NORMED)
#: Granite with windows: a learned sink for each head, and every fourth layer without a window.
GRANITE_WINDOWS = layer_types(each_nth_starts_full(4))
_GRANITE_SINKS = Family(
    defaults={"sliding_window": 128},
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias", sinks=True),
    feed_forwards={"dense": dense(bias="mlp_bias")},
    mixer_schedule=GRANITE_WINDOWS,
)
_CWM = Family(
    defaults={"num_key_value_heads": 8, "sliding_window": 8192},
    mixer_schedule=layer_types(every_nth_full(4)),
)
_VAULTGEMMA = Family(
    defaults=_GEMMA2.defaults, mixers=OPTIONAL_BIAS, mixer_schedule=_GEMMA2.mixer_schedule
)
_MLLAMA = Family(
    defaults={"num_key_value_heads": 8, "cross_attention_layers": _MLLAMA_CROSS_LAYERS},
    mixers={**grouped_attention(), "cross": cross_attention},
    mixer_schedule=_cross_layers,
    extra_tensors=_image_tokens,
)


def _sub_normed(fields: Fields) -> DenseFeedForward:
    """BitNet: a norm before the last projection of the feed-forward part."""
    own = dense()(fields)
    return replace(own, tensors=own.tensors + norm("ffn_sub_norm", own.intermediate_size))


def _differential(build: AttentionBuilder) -> AttentionBuilder:
    """DiffLlama: four vectors over a head weigh the difference of two attentions."""

    def built(fields: Fields) -> Attention:
        own = build(fields)
        named = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")
        weights = tuple(vector(name, own.head_dim, Shard.REPLICATED) for name in named)
        return replace(own, tensors=own.tensors + weights)

    return built


def _post_normed(fields: Fields) -> tuple[str, ...]:
    """HyperCLOVA X may have norms after each part, too."""
    return SANDWICH_NORMS if fields.flag("use_post_norm") else PRE_NORMS


_BITNET = Family(
    mixers=OPTIONAL_BIAS,
    feed_forwards={"dense": _sub_normed},
    norms=(*PRE_NORMS, "attn_sub_norm"),
)
_DIFFLLAMA = Family(
    mixers={kind: _differential(build) for kind, build in OPTIONAL_BIAS.items()},
)
_HYPERCLOVAX = Family(
    mixers=OPTIONAL_BIAS, feed_forwards={"dense": dense(bias="mlp_bias")}, norms=_post_normed
)

LLAMA_LIKE_FAMILIES: Mapping[str, Family] = {
    "llama": _LLAMA,
    "code_llama": _LLAMA,
    "granite": _LLAMA,
    "granite_swa": _GRANITE_SINKS,
    "yi": _LLAMA,
    "mllama": _MLLAMA,
    "mllama_text_model": _MLLAMA,
    "mistral": _MISTRAL,
    "ministral": _MISTRAL,
    "ministral3": _MISTRAL,
    "qwen": _QWEN,
    "qwen2": _QWEN2,
    "qwen2_vl": _QWEN2,
    "step_audio_2": _QWEN2,
    "step_audio_2_text": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_omni_text": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_vl": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "phi3": _PHI3,
    "phi4_multimodal": _PHI3,
    "phi4mm": replace(_PHI3, extra_tensors=_adapters),
    "olmo": _OLMO,
    "olmo2": _OLMO2,
    "olmo3": _OLMO3,
    "glm": _GLM,
    "glm4": _GLM4,
    "chatglm": _CHATGLM,
    "exaone": _EXAONE,
    "exaone4": _EXAONE4,
    "smollm3": _SMOLLM3,
    "internlm": _INTERNLM,
    "internlm2": _INTERNLM2,
    "internlm3": _INTERNLM3,
    "baichuan": _BAICHUAN,
    "seed_oss": _SEED_OSS,
    "ernie4_5": _ERNIE,
    "helium": _HELIUM,
    "arcee": _ARCEE,
    "apertus": _APERTUS,
    "hunyuan_v1_dense": _HUNYUAN,
    "minicpm": _LLAMA,
    "iquestcoder": _LLAMA,
    "cwm": _CWM,
    "vaultgemma": _VAULTGEMMA,
    "glm4v_text": _GLM4,
    "glm_ocr_text": replace(_GLM4, defaults={"num_key_value_heads": 8}),
    "mimo": _QWEN2,
    "bitnet": _BITNET,
    "diffllama": _DIFFLLAMA,
    "hyperclovax": _HYPERCLOVAX,
}
