"""Decoders with latent attention (MLA): DeepSeek and its descendants.

Defaults and quirks are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2024–2026) and of the DeepSeek
checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.families.state import (
    kimi_delta_attention,
    ling_delta_attention,
)
from service.core.architecture.config.family import PRE_NORMS, Family
from service.core.architecture.config.fields import MAX_LAYERS, Fields
from service.core.architecture.config.parts import (
    MixerBuilder,
    dense,
    experts,
    grouped_attention,
    latent_attention,
    linear,
    norm,
    shared_experts_width,
    vector,
)
from service.core.architecture.config.schedules import LayerKinds, dense_first, layer_types
from service.core.architecture.model import LatentAttention, Mixer
from service.core.architecture.tensors import Shard, Tensor, TensorClass

_LATENT_DEFAULTS: Mapping[str, object] = {
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "kv_lora_rank": 512,
}

_WITHOUT_LATENTS = grouped_attention()["full"]


def _latent_or_plain(fields: Fields) -> Mixer:
    """Latent attention, unless the configuration says that it has none (DeepSeek-VL2-Tiny)."""
    return (latent_attention if fields.flag("use_mla") else _WITHOUT_LATENTS)(fields)


_DEEPSEEK_V2 = Family(
    defaults={
        **_LATENT_DEFAULTS,
        "q_lora_rank": 1536,
        "first_k_dense_replace": 0,
        "use_mla": True,
    },
    mixers={"full": _latent_or_plain},
    feed_forwards={"dense": dense(), "experts": experts(shared_width=shared_experts_width)},
    feed_forward_schedule=dense_first,
)
_DEEPSEEK_V3 = Family(
    defaults={
        **_LATENT_DEFAULTS,
        "q_lora_rank": 1536,
        "num_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 2048,
        "first_k_dense_replace": 3,
    },
    mixers={"full": latent_attention},
    feed_forwards={
        "dense": dense(),
        "experts": experts(correction_bias=True, shared_width=shared_experts_width),
    },
    feed_forward_schedule=dense_first,
)
_DEEPSEEK_V32 = replace(
    _DEEPSEEK_V3,
    defaults={
        **_DEEPSEEK_V3.defaults,
        "index_head_dim": 128,
        "index_n_heads": 64,
        "index_topk": 2048,
    },
)
_INDEXER = frozenset({"wq_b", "wk", "k_norm", "k_norm.bias", "weights_proj"})


def _shares_index(fields: Fields) -> LatentAttention:
    """Attends to the tokens that an earlier layer chose, and has no indexer (GLM-5.2)."""
    own = latent_attention(fields)
    tensors = tuple(tensor for tensor in own.tensors if tensor.name not in _INDEXER)
    return replace(own, indexer_head_dim=None, tensors=tensors)


def _indexers(fields: Fields, layers: int) -> LayerKinds:
    """Layers with an indexer and without: as listed, or one in ``index_topk_freq`` has one."""
    listed = fields.array("indexer_types", layers)
    if listed is not None:
        if any(kind not in ("full", "shared") for kind in listed):
            raise fields.fault("indexer_types", "must hold full and shared")
        return tuple(str(kind) for kind in listed)
    step = fields.optional_size("index_topk_freq", MAX_LAYERS) or 1
    first = fields.count("index_skip_topk_offset", MAX_LAYERS)
    return tuple(
        "full" if max(layer - first + 1, 0) % step == 0 else "shared" for layer in range(layers)
    )


_GLM_SPARSE = replace(
    _DEEPSEEK_V32,
    defaults={**_DEEPSEEK_V32.defaults, "index_n_heads": 32, "index_skip_topk_offset": 2},
    mixers={"full": latent_attention, "shared": _shares_index},
    mixer_schedule=_indexers,
)


def _narrow_values(fields: Fields) -> LatentAttention:
    """Latent attention whose values are as wide as heads would be without it (MiniCPM3)."""
    if fields.has("v_head_dim"):
        return latent_attention(fields)
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    return latent_attention(fields.replaced(v_head_dim=max(1, hidden // heads)))


def _kimi_layers(fields: Fields, layers: int) -> LayerKinds:
    """Kimi Linear: the listed layers, counted from one, have latent attention."""
    section = fields.section("linear_attn_config", {})
    listed = section.indices("full_attn_layers", layers + 1) if section is not None else None
    if listed is None:
        return tuple("full" if layer and layer % 4 == 0 else "linear" for layer in range(layers))
    return tuple("full" if layer + 1 in listed else "linear" for layer in range(layers))


def _gated(fields: Fields, gate_width: int) -> LatentAttention:
    """Latent attention with a gate on its output."""
    own = latent_attention(fields)
    hidden = fields.size("hidden_size")
    gate = linear("g_proj", TensorClass.ATTENTION, hidden, gate_width, Shard.COLUMN)
    return replace(own, tensors=own.tensors + gate)


def _kimi_attention(fields: Fields) -> LatentAttention:
    if not fields.flag("mla_use_output_gate"):
        return latent_attention(fields)
    return _gated(fields, fields.size("num_attention_heads") * fields.size("v_head_dim"))


def _kimi_norms(fields: Fields) -> tuple[str, ...]:
    """Norms, and the vectors by which layers attend to the outputs of earlier blocks (Kimi K3)."""
    if not fields.has("attn_res_block_size"):
        return PRE_NORMS
    residuals = ("self_attention_res", "mlp_res")
    return (*PRE_NORMS, *(f"{name}_{part}" for name in residuals for part in ("norm", "proj")))


_KIMI_LINEAR = replace(
    _DEEPSEEK_V3,
    defaults={
        **_DEEPSEEK_V3.defaults,
        "q_lora_rank": None,
        "moe_intermediate_size": 1024,
        "first_k_dense_replace": 1,
    },
    mixers={"full": _kimi_attention, "linear": kimi_delta_attention},
    feed_forwards={
        "dense": dense(),
        "experts": experts(
            correction_bias=True,
            shared_width=shared_experts_width,
            latent="routed_expert_hidden_size",
        ),
    },
    mixer_schedule=layer_types(_kimi_layers),
    norms=_kimi_norms,
)


def _ling_attention(fields: Fields) -> LatentAttention:
    return _gated(fields, fields.size("num_attention_heads"))


def _ling_layers(fields: Fields, layers: int) -> LayerKinds:
    """Ling 3.0: the last layer of each group has latent attention, the others a delta net."""
    if not fields.has("short_conv_kernel_size"):
        # Ling 2.5 and 2.6, which share the name, have linear attention of another kind.
        raise fields.fault("short_conv_kernel_size", "is missing: only Ling 3.0 is computed")
    size = fields.size("layer_group_size", MAX_LAYERS)
    return tuple("full" if (layer + 1) % size == 0 else "linear" for layer in range(layers))


_LING_3 = replace(
    _DEEPSEEK_V3,
    defaults={
        **_DEEPSEEK_V3.defaults,
        "q_lora_rank": None,
        "num_experts": 512,
        "moe_intermediate_size": 768,
        "first_k_dense_replace": 2,
        "head_dim": 128,
        "layer_group_size": 6,
    },
    mixers={"full": _ling_attention, "linear": ling_delta_attention},
    mixer_schedule=layer_types(_ling_layers),
)

_MINICPM3 = Family(
    defaults={"kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32},
    mixers={"full": _narrow_values},
)
_YOUTU = Family(
    defaults={
        "tie_word_embeddings": True,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
    },
    mixers={"full": latent_attention},
)
_MISTRAL4 = Family(
    defaults={"num_experts": 128, "num_experts_per_tok": 4, "n_shared_experts": 1},
    mixers={"full": latent_attention},
    feed_forwards=_DEEPSEEK_V2.feed_forwards,
    feed_forward_schedule=dense_first,
)

_AXK1 = replace(
    _DEEPSEEK_V3,
    defaults={**_DEEPSEEK_V3.defaults, "num_experts": 192, "first_k_dense_replace": 1},
    norms=(*PRE_NORMS, "post_mlp_layernorm"),
)


def _gated_with_queries(fields: Fields) -> LatentAttention:
    """Latent attention whose gate comes of the queries' vector, before and after its norm (A.X K2).

    The gates of the two norms over the hidden size stand here, too.
    """
    own = latent_attention(fields)
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    width = sum(fields.size(f"{name}_head_dim") for name in ("qk_nope", "qk_rope", "v"))
    rank, narrow = fields.size("q_lora_rank"), fields.size("gated_norm_rank")
    whole, attention = Shard.REPLICATED, TensorClass.ATTENTION
    tensors = tuple(tensor for tensor in own.tensors if tensor.name != "q_b_proj")
    tensors += linear("q_gate_proj", attention, 2 * rank, heads * width, Shard.COLUMN)
    tensors += linear("norm_gates.down", attention, hidden, narrow, whole, copies=2)
    tensors += linear("norm_gates.up", attention, narrow, hidden, whole, copies=2)
    return replace(own, tensors=tensors)


_AXK2 = replace(
    _DEEPSEEK_V32,
    defaults={
        **_DEEPSEEK_V32.defaults,
        "num_experts": 128,
        "moe_intermediate_size": 512,
        "first_k_dense_replace": 1,
        "index_n_heads": 16,
        "gated_norm_rank": 16,
    },
    mixers={"full": _gated_with_queries},
)


def _in_streams(attention: MixerBuilder) -> MixerBuilder:
    """Latent attention with a gate on its output and sinks, between residual streams (Hy4)."""

    def build(fields: Fields) -> Mixer:
        own = attention(fields)
        hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
        streams, whole = fields.size("hc_mult"), Shard.REPLICATED
        gate = heads * fields.size("v_head_dim")
        tensors = linear("gate_proj", TensorClass.ATTENTION, hidden, gate, Shard.COLUMN)
        tensors += (vector("sinks", heads),)
        tensors += linear(
            "hc.fn", TensorClass.ROUTER, streams * hidden, 2 * streams, whole, copies=2
        )
        return replace(own, tensors=own.tensors + tensors)

    return build


def _leave_streams(fields: Fields) -> tuple[Tensor, ...]:
    """What makes one vector of the residual streams before the head."""
    streams, hidden = fields.size("hc_mult"), fields.size("hidden_size")
    return linear("hc_head.fn", TensorClass.ROUTER, streams * hidden, streams, Shard.REPLICATED)


def _each_fourth_indexes(fields: Fields, layers: int) -> LayerKinds:
    """Layers with an indexer as listed, or the first and one in four from the second on (Hy4)."""
    if fields.has("indexer_types"):
        return _indexers(fields, layers)
    return tuple("full" if at == 0 or at % 4 == 1 else "shared" for at in range(layers))


_HUNYUAN_4 = replace(
    _GLM_SPARSE,
    defaults={
        **_GLM_SPARSE.defaults,
        "moe_intermediate_size": 768,
        "first_k_dense_replace": 1,
        "index_n_heads": 16,
        "hc_mult": 4,
    },
    mixers={kind: _in_streams(build) for kind, build in _GLM_SPARSE.mixers.items()},
    mixer_schedule=_each_fourth_indexes,
    extra_tensors=_leave_streams,
)


def _reading_latents(*, rotary: bool, indexes: bool, reads: bool) -> MixerBuilder:
    """Latent attention of Mistral Large 4, without a latent of queries.

    Layers without rotary positions keep the latent alone, and those that read the latents of an
    earlier layer keep none.
    """

    def build(fields: Fields) -> Mixer:
        own = latent_attention(fields)
        heads, hidden = own.query_heads, fields.size("hidden_size")
        positions = own.qk_rope_head_dim if rotary else 0
        plain = own.qk_nope_head_dim + own.qk_rope_head_dim - positions
        left_out = {"kv_a_proj_with_mqa", "kv_b_proj"}
        left_out |= {"kv_a_layernorm"} if reads else set()
        left_out |= set() if indexes else _INDEXER
        attention, whole = TensorClass.ATTENTION, Shard.REPLICATED
        tensors = tuple(tensor for tensor in own.tensors if tensor.name not in left_out)
        if not reads:
            rank = own.kv_lora_rank + positions
            tensors += linear("kv_a_proj_with_mqa", attention, hidden, rank, whole)
        tensors += linear(
            "kv_b_proj",
            attention,
            own.kv_lora_rank,
            heads * (plain + own.v_head_dim),
            Shard.COLUMN,
        )
        tensors += (vector("softmax_scaling", 2 * heads),)
        tensors += norm("q_input_norm", hidden, bias=True) if indexes else ()
        return replace(
            own,
            qk_nope_head_dim=plain,
            qk_rope_head_dim=positions,
            indexer_head_dim=own.indexer_head_dim if indexes else None,
            shares_kv=reads,
            tensors=tensors,
        )

    return build


def _large4_kind(*, rotary: bool, indexes: bool, reads: bool) -> str:
    return f"rotary {rotary}, indexes {indexes}, reads {reads}"


def _large4_layers(fields: Fields, layers: int) -> LayerKinds:
    """Which layers have rotary positions, an index, and the latents of an earlier one."""
    indexers = _indexers(fields, layers)
    rotary = fields.array("no_rope_layers", layers) or [(at + 1) % 4 for at in range(layers)]
    sources = fields.array("kv_source_layers", layers) or range(layers)
    return tuple(
        _large4_kind(rotary=bool(turned), indexes=index == "full", reads=source != at)
        for at, (index, turned, source) in enumerate(zip(indexers, rotary, sources, strict=True))
    )


_BOTH = (False, True)
_MISTRAL_LARGE_4 = replace(
    _MISTRAL4,
    defaults={
        **_LATENT_DEFAULTS,
        **_MISTRAL4.defaults,
        "qk_nope_head_dim": 64,
        "q_lora_rank": None,
        "index_head_dim": 128,
        "index_n_heads": 32,
        "index_topk": 2048,
        "first_k_dense_replace": 1,
    },
    mixers={
        _large4_kind(rotary=rotary, indexes=indexes, reads=reads): _reading_latents(
            rotary=rotary, indexes=indexes, reads=reads
        )
        for rotary in _BOTH
        for indexes in _BOTH
        for reads in _BOTH
    },
    mixer_schedule=_large4_layers,
)

LATENT_FAMILIES: Mapping[str, Family] = {
    "deepseek_v2": _DEEPSEEK_V2,
    "deepseek_vl_v2": _DEEPSEEK_V2,
    "deepseek_v3": _DEEPSEEK_V3,
    "deepseek_v32": _DEEPSEEK_V32,
    "kimi_k2": _DEEPSEEK_V3,
    "kimi_k25": _DEEPSEEK_V3,
    "kimi_linear": _KIMI_LINEAR,
    "kimi_k3": _KIMI_LINEAR,
    "bailing_hybrid": _LING_3,
    "glm4_moe_lite": replace(
        _DEEPSEEK_V3, defaults={**_DEEPSEEK_V3.defaults, "first_k_dense_replace": 1}
    ),
    "glm_moe_dsa": _GLM_SPARSE,
    "axk1": _AXK1,
    "axk2": _AXK2,
    "hy_v4": _HUNYUAN_4,
    "minicpm3": _MINICPM3,
    "mistral4": _MISTRAL4,
    "mistral_large4": _MISTRAL_LARGE_4,
    "mistral_large4_text": _MISTRAL_LARGE_4,
    "youtu": _YOUTU,
}
