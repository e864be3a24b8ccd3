"""Builders of attention, feed-forward and expert parts with every tensor they hold.

A builder reads the sizes from `Fields`; what differs between families (biases, norms on queries
and keys, fused projections) are its keyword arguments. Biases follow how engines divide the output
they are added to: those of column-divided projections are divided, those of row-divided ones are
not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from service.core.architecture.config.fields import (
    MAX_EXPERTS,
    MAX_POSITIONS,
    MAX_WIDTH,
    Fields,
    Flag,
)
from service.core.architecture.model import (
    Attention,
    DenseFeedForward,
    FeedForward,
    LatentAttention,
    Mixer,
    MixtureOfExperts,
    Span,
)
from service.core.architecture.tensors import Shard, Tensor, TensorClass

MixerBuilder: TypeAlias = Callable[[Fields], Mixer]
AttentionBuilder: TypeAlias = Callable[[Fields], Attention]
FeedForwardBuilder: TypeAlias = Callable[[Fields], FeedForward]

SPLIT = ("q_proj", "k_proj", "v_proj", "o_proj")
GATED = ("gate_proj", "up_proj", "down_proj")

#: How the bias of a projection is divided, where not like the projection's output.
_BIAS_SHARD = {
    Shard.ROW: Shard.REPLICATED,
    # Engines hold the second bias of their experts whole beside the first one, divided; at a few
    # megabytes a model it is counted like the first.
    Shard.EXPERT_ROW: Shard.EXPERT_COLUMN,
}


def linear(
    name: str,
    tensor_class: TensorClass,
    inputs: int,
    outputs: int,
    shard: Shard,
    *,
    bias: bool = False,
    copies: int = 1,
) -> tuple[Tensor, ...]:
    """A projection and, if it has one, its bias."""
    weight = Tensor(name, tensor_class, inputs, outputs, shard, copies)
    if not bias:
        return (weight,)
    bias_shard = _BIAS_SHARD.get(shard, shard)
    return (weight, Tensor(f"{name}.bias", TensorClass.BIAS, 1, outputs, bias_shard, copies))


def norm(name: str, width: int, *, bias: bool = False) -> tuple[Tensor, ...]:
    """A norm's weight and, for layer norms that have one, its bias."""
    weight = Tensor(name, TensorClass.NORM, 1, width, Shard.REPLICATED)
    if not bias:
        return (weight,)
    return (weight, Tensor(f"{name}.bias", TensorClass.BIAS, 1, width, Shard.REPLICATED))


def vector(name: str, width: int, shard: Shard = Shard.COLUMN) -> Tensor:
    """A parameter vector of a layer that is neither norm nor bias."""
    return Tensor(name, TensorClass.OTHER, 1, width, shard)


def head_dim(fields: Fields) -> int:
    """Width of one attention head: stated, or hidden size over heads [-]."""
    stated = fields.optional_size("head_dim")
    if stated is not None:
        return stated
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    if hidden % heads:
        raise fields.fault("num_attention_heads", f"must divide the hidden size {hidden:,}")
    return hidden // heads


def kv_head_count(fields: Fields) -> int:
    """Heads of keys and values: stated, or as many as query heads [-]."""
    heads = fields.size("num_attention_heads")
    kv_heads = fields.optional_size("num_key_value_heads", maximum=heads)
    if kv_heads is None:
        return heads
    if heads % kv_heads:
        raise fields.fault("num_key_value_heads", f"must divide the {heads:,} query heads")
    return kv_heads


def grouped_attention(
    *,
    names: tuple[str, ...] = SPLIT,
    qkv_bias: Flag = False,
    output_bias: Flag = False,
    qk_norm: Flag = False,
    qk_norm_width: str = "head",
    qk_norm_bias: bool = False,
    output_gate: Flag = False,
    sinks: Flag = False,
    kv_heads: Callable[[Fields], int] = kv_head_count,
    window: str = "sliding_window",
) -> Mapping[str, AttentionBuilder]:
    """Attention with keys and values of its own, one builder per span.

    Parameters
    ----------
    names
        Names of the four projections, or of a fused one and the output projection.
    qkv_bias, output_bias
        Whether the projections have biases.
    qk_norm, qk_norm_width, qk_norm_bias
        Whether queries and keys are normed, by one weight shared among heads ("head"), one of
        its own for each head ("heads") or over all heads together ("all", the same size).
    output_gate
        Whether the query projection also makes a gate on the output (Qwen3-Next).
    sinks
        Whether each head has a learned sink logit (gpt-oss).
    kv_heads
        Reads the number of KV heads.
    window
        Key of the window's length.

    Returns
    -------
    Mapping
        Builders by span name: full, sliding, chunked.
    """
    query_name, key_name, value_name, output_name = (
        names if len(names) == 4 else (names[0], names[0], names[0], names[1])
    )

    def build(fields: Fields, span: Span) -> Attention:
        hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
        groups, width = kv_heads(fields), head_dim(fields)
        bias = fields.flag(qkv_bias)
        query_width, kv_width = heads * width, groups * width
        gate = query_width if fields.flag(output_gate) else 0
        attention = TensorClass.ATTENTION
        tensors = linear(query_name, attention, hidden, query_width + gate, Shard.COLUMN, bias=bias)
        for name in (key_name, value_name):
            tensors += linear(name, attention, hidden, kv_width, Shard.KV_HEADS, bias=bias)
        tensors += linear(
            output_name, attention, query_width, hidden, Shard.ROW, bias=fields.flag(output_bias)
        )
        if fields.flag(qk_norm):
            shared = qk_norm_width == "head"
            tensors += norm("q_norm", width if shared else query_width, bias=qk_norm_bias)
            tensors += norm("k_norm", width if shared else kv_width, bias=qk_norm_bias)
        if fields.flag(sinks):
            tensors += (vector("sinks", heads),)
        window_tokens = None
        if span is not Span.FULL:
            window_tokens = fields.size(window, maximum=MAX_POSITIONS)
        return Attention(heads, groups, width, width, span, window_tokens, False, tensors)

    return {
        span.value: lambda fields, span=span: build(fields, span)  # type: ignore[misc]
        for span in Span
    }


_NORMED_ATTENTION = grouped_attention(qk_norm=True)


def cross_attention(fields: Fields) -> Attention:
    """Attention to an image's features, gated (Llama 3.2 Vision).

    Its keys and values are those of the image, so that text tokens add nothing to its cache.
    """
    own = _NORMED_ATTENTION["full"](fields)
    gates = (
        vector("cross_attn_attn_gate", 1, Shard.REPLICATED),
        vector("cross_attn_mlp_gate", 1, Shard.REPLICATED),
    )
    return replace(own, shares_kv=True, tensors=own.tensors + gates)


def latent_attention(fields: Fields) -> LatentAttention:
    """Multi-head latent attention, with DeepSeek's sparse-attention indexer where configured.

    References
    ----------
    DeepSeek-AI, DeepSeek-V2, 2024, section 2.1, https://arxiv.org/abs/2405.04434; DeepSeek-V3.2,
    2025, section 2 (indexer), https://arxiv.org/abs/2512.02556
    """
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    query_rank = fields.optional_size("q_lora_rank")
    kv_rank = fields.size("kv_lora_rank")
    nope, rope = fields.size("qk_nope_head_dim"), fields.size("qk_rope_head_dim")
    value = fields.size("v_head_dim")
    bias = fields.flag("attention_bias")
    attention = TensorClass.ATTENTION
    query_width = heads * (nope + rope)
    if query_rank is None:
        tensors = linear("q_proj", attention, hidden, query_width, Shard.COLUMN)
    else:
        tensors = (
            *linear("q_a_proj", attention, hidden, query_rank, Shard.REPLICATED, bias=bias),
            *norm("q_a_layernorm", query_rank),
            *linear("q_b_proj", attention, query_rank, query_width, Shard.COLUMN),
        )
    tensors += (
        *linear(
            "kv_a_proj_with_mqa", attention, hidden, kv_rank + rope, Shard.REPLICATED, bias=bias
        ),
        *norm("kv_a_layernorm", kv_rank),
        *linear("kv_b_proj", attention, kv_rank, heads * (nope + value), Shard.COLUMN),
        *linear("o_proj", attention, heads * value, hidden, Shard.ROW, bias=bias),
    )
    index_width = fields.optional_size("index_head_dim")
    if index_width is None:
        return LatentAttention(heads, query_rank, kv_rank, nope, rope, value, None, None, tensors)
    index_heads = fields.size("index_n_heads")
    index_input = hidden if query_rank is None else query_rank
    whole = Shard.REPLICATED
    tensors += (
        *linear("wq_b", attention, index_input, index_heads * index_width, whole),
        *linear("wk", attention, hidden, index_width, whole),
        *norm("k_norm", index_width, bias=True),
        *linear("weights_proj", attention, hidden, index_heads, whole),
    )
    top_k = fields.size("index_topk", maximum=MAX_POSITIONS)
    return LatentAttention(
        heads, query_rank, kv_rank, nope, rope, value, index_width, top_k, tensors, index_heads
    )


def expanded_width(fields: Fields) -> int:
    """Width of the feed-forward part: stated, or four times the hidden size [-]."""
    return fields.optional_size("intermediate_size") or 4 * fields.size("hidden_size")


def stated_width(fields: Fields) -> int:
    """Width of the feed-forward part, which must be stated [-]."""
    return fields.size("intermediate_size")


def dense(
    *,
    names: tuple[str, ...] = GATED,
    bias: Flag = False,
    fused_gate: bool = False,
    width: Callable[[Fields], int] = stated_width,
    activation_parameters: int = 0,
) -> Callable[[Fields], DenseFeedForward]:
    """A feed-forward part: gated if three names are given, or with ``fused_gate``.

    ``activation_parameters`` are learned scalars of the activation function (xIELU).
    """
    gated = fused_gate or len(names) == 3

    def build(fields: Fields) -> DenseFeedForward:
        size = width(fields)
        tensors = _block(fields, names, TensorClass.DENSE_FFN, size, fused_gate, fields.flag(bias))
        if activation_parameters:
            tensors += (vector("act_fn", activation_parameters, Shard.REPLICATED),)
        return DenseFeedForward(size, gated, tensors)

    return build


def _block(
    fields: Fields,
    names: tuple[str, ...],
    tensor_class: TensorClass,
    width: int,
    fused_gate: bool,
    bias: bool,
    copies: int | None = None,
    inputs: int | None = None,
) -> tuple[Tensor, ...]:
    hidden = inputs or fields.size("hidden_size")
    column, row = Shard.COLUMN, Shard.ROW
    if copies is not None:
        column, row = Shard.EXPERT_COLUMN, Shard.EXPERT_ROW
    count = copies or 1
    first = 2 * width if fused_gate else width
    tensors: tuple[Tensor, ...] = ()
    for name in names[:-1]:
        tensors += linear(name, tensor_class, hidden, first, column, bias=bias, copies=count)
    return tensors + linear(names[-1], tensor_class, width, hidden, row, bias=bias, copies=count)


def expert_width(fields: Fields) -> int:
    """Width of one expert: its own key, or the general one [-]."""
    return fields.optional_size("moe_intermediate_size") or fields.size("intermediate_size")


def no_shared_width(fields: Fields) -> int:  # noqa: ARG001 - same shape as the other widths
    """Width of the shared experts of a family that has none [-]."""
    return 0


def shared_experts_width(fields: Fields) -> int:
    """Width of ``n_shared_experts`` experts alike [-]."""
    return fields.count("n_shared_experts") * expert_width(fields)


def shared_expert_width(fields: Fields) -> int:
    """Width of the one shared expert of Qwen's models [-]."""
    return fields.count("shared_expert_intermediate_size", maximum=MAX_WIDTH)


def shared_block_width(fields: Fields) -> int:
    """Width of the block that Granite's models run beside their experts [-]."""
    return fields.count("shared_intermediate_size", maximum=MAX_WIDTH)


def experts(
    *,
    names: tuple[str, ...] = GATED,
    fused_gate: bool = False,
    bias: Flag = False,
    router: str = "gate",
    router_bias: Flag = False,
    correction_bias: Flag = False,
    width: Callable[[Fields], int] = expert_width,
    shared_width: Callable[[Fields], int] = no_shared_width,
    shared_names: tuple[str, ...] = GATED,
    shared_fused_gate: bool = False,
    shared_gate: bool = False,
    latent: str = "",
) -> Callable[[Fields], MixtureOfExperts]:
    """Routed experts, with shared ones beside them where ``shared_width`` is above zero.

    ``correction_bias`` is a per-expert bias on the routing scores (DeepSeek-V3), ``shared_gate`` a
    scalar gate on the shared experts (Qwen2-MoE), and ``latent`` the key of the width that tokens
    are projected to before the routed experts read them, and back (Nemotron 3).
    """
    gated = fused_gate or len(names) == 3

    def build(fields: Fields) -> MixtureOfExperts:
        hidden = fields.size("hidden_size")
        count = fields.size("num_experts", maximum=MAX_EXPERTS)
        used = fields.size("num_experts_per_tok", maximum=count)
        size, shared = width(fields), shared_width(fields)
        tensors = linear(
            router,
            TensorClass.ROUTER,
            hidden,
            count,
            Shard.REPLICATED,
            bias=fields.flag(router_bias),
        )
        if fields.flag(correction_bias):
            tensors += (
                Tensor("e_score_correction_bias", TensorClass.BIAS, 1, count, Shard.REPLICATED),
            )
        narrow = fields.optional_size(latent) if latent else None
        if narrow is not None:
            kind, whole = TensorClass.SHARED_EXPERT, Shard.REPLICATED
            tensors += linear("fc1_latent_proj", kind, hidden, narrow, whole)
            tensors += linear("fc2_latent_proj", kind, narrow, hidden, whole)
        tensors += _block(
            fields, names, TensorClass.EXPERT, size, fused_gate, fields.flag(bias), count, narrow
        )
        if shared:
            tensors += _block(
                fields, shared_names, TensorClass.SHARED_EXPERT, shared, shared_fused_gate, False
            )
            if shared_gate:
                tensors += linear(
                    "shared_expert_gate", TensorClass.ROUTER, hidden, 1, Shard.REPLICATED
                )
        return MixtureOfExperts(count, used, size, shared, gated, tensors)

    return build
