"""Builders of mixers with a state of constant size: Mamba, delta nets, linear attention.

The tail that a short convolution of ``k`` taps keeps is ``k − 1`` inputs of each channel.
Recurrent FLOPs count, per element of the state and token, one operation for the decay, two to
write and two to read, and what else a mixer does, as its builder says; projections and
convolutions are counted from the tensors.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from service.core.architecture.config.fields import Fields
from service.core.architecture.config.parts import head_dim, linear, norm, vector
from service.core.architecture.model import StateMixer
from service.core.architecture.tensors import Shard, Tensor, TensorClass

_STATE = TensorClass.STATE
#: Decay (1), write (2) and read (2) of each element of the state.
_FLOPS_PER_ELEMENT = 5.0
#: Mamba's first version also discretises each element: a product and an exponential.
_FLOPS_PER_MAMBA_ELEMENT = 7.0
#: The delta rule reads the state once more, to subtract what it already holds.
_FLOPS_PER_DELTA_ELEMENT = 7.0
_MAX_TAPS = 1024
#: KimiLinearConfig's linear_attn_config.
_KIMI_DEFAULTS = {"num_attention_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4}


def _convolution(channels: int, taps: int, *, bias: bool) -> tuple[Tensor, ...]:
    # Not of class STATE, for no quantiser converts these few weights.
    return linear("conv1d", TensorClass.OTHER, taps, channels, Shard.COLUMN, bias=bias)


def expanded_hidden(fields: Fields) -> int:
    """Inner width of a Mamba mixer: ``expand`` times the hidden size [-]."""
    return int((fields.ratio("expand", 1000.0) or 2.0) * fields.size("hidden_size")) or 1


def mamba(fields: Fields, *, inner: int, normed: bool, bias: bool) -> StateMixer:
    """A selective state space layer; ``normed`` ones norm time step and both inputs (Jamba).

    References
    ----------
    Gu and Dao, Mamba, 2023, https://arxiv.org/abs/2312.00752
    """
    hidden = fields.size("hidden_size")
    width, taps = fields.size("state_size"), fields.size("conv_kernel", _MAX_TAPS)
    rank = fields.automatic_size("time_step_rank") or ceil(hidden / 16)
    tensors = (
        *linear("in_proj", _STATE, hidden, 2 * inner, Shard.COLUMN, bias=bias),
        *_convolution(inner, taps, bias=fields.flag("use_conv_bias")),
        *linear("x_proj", _STATE, inner, rank + 2 * width, Shard.ROW),
        *linear("dt_proj", _STATE, rank, inner, Shard.COLUMN, bias=True),
        vector("A_log", inner * width),
        vector("D", inner),
        *linear("out_proj", _STATE, inner, hidden, Shard.ROW, bias=bias),
    )
    if normed:
        tensors += norm("dt_layernorm", rank) + norm("b_layernorm", width)
        tensors += norm("c_layernorm", width)
    elements = inner * width
    return StateMixer(
        "mamba", inner, elements, inner * (taps - 1), _FLOPS_PER_MAMBA_ELEMENT * elements, tensors
    )


def mamba2(
    fields: Fields,
    *,
    heads: int,
    width: int,
    bias: bool,
    normed: bool = True,
    output_bias: bool | None = None,
) -> StateMixer:
    """A layer of the second Mamba version with ``heads`` heads of ``width`` channels.

    The output is ``normed`` except in most of Falcon-H1, and its projection has a bias as the
    others have unless ``output_bias`` says otherwise.

    References
    ----------
    Dao and Gu, Transformers are SSMs, 2024, https://arxiv.org/abs/2405.21060
    """
    hidden = fields.size("hidden_size")
    state, groups = fields.size("state_size"), fields.size("n_groups")
    taps = fields.size("conv_kernel", _MAX_TAPS)
    inner = heads * width
    channels = inner + 2 * groups * state
    tensors = (
        *linear("in_proj", _STATE, hidden, inner + channels + heads, Shard.COLUMN, bias=bias),
        *_convolution(channels, taps, bias=fields.flag("use_conv_bias")),
        vector("dt_bias", heads),
        vector("A_log", heads),
        vector("D", heads),
        *((Tensor("norm", TensorClass.NORM, 1, inner, Shard.COLUMN),) if normed else ()),
        *linear(
            "out_proj",
            _STATE,
            inner,
            hidden,
            Shard.ROW,
            bias=bias if output_bias is None else output_bias,
        ),
    )
    elements = inner * state
    return StateMixer(
        "mamba2",
        heads,
        elements,
        channels * (taps - 1),
        _FLOPS_PER_ELEMENT * elements,
        tensors,
        wide=_is_wide(fields),
    )


def _is_wide(fields: Fields) -> bool:
    """Whether a checkpoint asks for states in 32 bit."""
    return fields.text("mamba_ssm_dtype") == "float32"


def gated_delta_net(fields: Fields) -> StateMixer:
    """A gated delta net (Qwen3-Next).

    References
    ----------
    Yang et al., Gated Delta Networks, 2024, https://arxiv.org/abs/2412.06464
    """
    hidden = fields.size("hidden_size")
    key_heads, heads = fields.size("linear_num_key_heads"), fields.size("linear_num_value_heads")
    key, value = fields.size("linear_key_head_dim"), fields.size("linear_value_head_dim")
    taps = fields.size("linear_conv_kernel_dim", _MAX_TAPS)
    key_width, value_width = key_heads * key, heads * value
    channels = 2 * key_width + value_width
    tensors = (
        *linear("in_proj_qkvz", _STATE, hidden, channels + value_width, Shard.COLUMN),
        *linear("in_proj_ba", _STATE, hidden, 2 * heads, Shard.COLUMN),
        *_convolution(channels, taps, bias=False),
        vector("dt_bias", heads),
        vector("A_log", heads),
        *norm("norm", value),
        *linear("out_proj", _STATE, value_width, hidden, Shard.ROW),
    )
    elements = heads * key * value
    return StateMixer(
        "gated_delta_net",
        heads,
        elements,
        channels * (taps - 1),
        _FLOPS_PER_DELTA_ELEMENT * elements,
        tensors,
        wide=_is_wide(fields),
    )


def kimi_delta_attention(fields: Fields) -> StateMixer:
    """A delta net whose decay is a vector per head (Kimi Linear, Kimi K3).

    References
    ----------
    Moonshot AI, Kimi Linear, 2025, section 3, https://arxiv.org/abs/2510.26692
    """
    sizes = fields.section("linear_attn_config", _KIMI_DEFAULTS) or Fields({}, _KIMI_DEFAULTS)
    full = frozenset({"g"}) if sizes.flag("use_full_rank_gate") else frozenset()
    return _vector_decay(
        fields,
        heads=sizes.size("num_attention_heads"),
        width=sizes.size("head_dim"),
        taps=sizes.size("short_conv_kernel_size", _MAX_TAPS),
        full_rank=full,
    )


def ling_delta_attention(fields: Fields) -> StateMixer:
    """The same with gates of full rank and as many heads as attention has (Ling 3.0)."""
    return _vector_decay(
        fields,
        heads=fields.size("num_attention_heads"),
        width=fields.optional_size("linear_head_dim") or fields.size("head_dim"),
        taps=fields.size("short_conv_kernel_size", _MAX_TAPS),
        full_rank=frozenset({"f", "g"}),
    )


def _vector_decay(
    fields: Fields, *, heads: int, width: int, taps: int, full_rank: frozenset[str]
) -> StateMixer:
    hidden = fields.size("hidden_size")
    inner = heads * width
    tensors: tuple[Tensor, ...] = ()
    for name in ("q_proj", "k_proj", "v_proj"):
        tensors += linear(name, _STATE, hidden, inner, Shard.COLUMN)
    for name in ("f", "g"):
        if name in full_rank:
            tensors += linear(f"{name}_proj", _STATE, hidden, inner, Shard.COLUMN)
            continue
        tensors += linear(f"{name}_a_proj", _STATE, hidden, width, Shard.REPLICATED)
        tensors += linear(f"{name}_b_proj", _STATE, width, inner, Shard.COLUMN)
    tensors += (
        *_convolution(3 * inner, taps, bias=False),
        *linear("b_proj", _STATE, hidden, heads, Shard.COLUMN),
        vector("dt_bias", inner),
        vector("A_log", heads),
        *norm("o_norm", width),
        *linear("o_proj", _STATE, inner, hidden, Shard.ROW),
    )
    elements = inner * width
    return StateMixer(
        "kimi_delta_attention",
        heads,
        elements,
        3 * inner * (taps - 1),
        _FLOPS_PER_DELTA_ELEMENT * elements,
        tensors,
        wide=True,
    )


def lightning_attention(fields: Fields) -> StateMixer:
    """Linear attention with a fixed decay per head and an output gate (MiniMax).

    References
    ----------
    MiniMax, MiniMax-01, 2025, section 2, https://arxiv.org/abs/2501.08313
    """
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    width = head_dim(fields)
    inner = heads * width
    tensors = (
        *linear("qkv_proj", _STATE, hidden, 3 * inner, Shard.COLUMN),
        *linear("output_gate", _STATE, hidden, inner, Shard.COLUMN),
        Tensor("norm", TensorClass.NORM, 1, inner, Shard.COLUMN),
        *linear("out_proj", _STATE, inner, hidden, Shard.ROW),
    )
    elements = heads * width * width
    return StateMixer(
        "lightning_attention", heads, elements, 0, _FLOPS_PER_ELEMENT * elements, tensors
    )


def gated_recurrence(fields: Fields) -> StateMixer:
    """A real-gated linear recurrent unit with a short convolution (RecurrentGemma).

    References
    ----------
    De et al., Griffin, 2024, section 2.4, https://arxiv.org/abs/2402.19427
    """
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    width = fields.optional_size("lru_width") or hidden
    if width % heads:
        raise fields.fault("lru_width", f"must be a multiple of the {heads:,} heads")
    taps, block = fields.size("conv1d_width", _MAX_TAPS), width // heads
    tensors: tuple[Tensor, ...] = ()
    for name in ("linear_y", "linear_x"):
        tensors += linear(name, _STATE, hidden, width, Shard.COLUMN, bias=True)
    tensors += (
        *_convolution(width, taps, bias=True),
        vector("rg_lru.recurrent_param", width),
        *linear("linear_out", _STATE, width, hidden, Shard.ROW, bias=True),
    )
    for name in ("input_gate", "recurrent_gate"):
        gate = linear(f"rg_lru.{name}", _STATE, block, block, Shard.REPLICATED, bias=True)
        tensors += tuple(replace(tensor, copies=heads) for tensor in gate)
    return StateMixer(
        "gated_recurrence",
        heads,
        width,
        width * (taps - 1),
        _FLOPS_PER_ELEMENT * width,
        tensors,
    )


def short_convolution(fields: Fields) -> StateMixer:
    """A gated short convolution without any other state (LFM2)."""
    hidden, taps = fields.size("hidden_size"), fields.size("conv_L_cache", _MAX_TAPS)
    bias = fields.flag("conv_bias")
    tensors = (
        *linear("in_proj", _STATE, hidden, 3 * hidden, Shard.COLUMN, bias=bias),
        *_convolution(hidden, taps, bias=bias),
        *linear("out_proj", _STATE, hidden, hidden, Shard.ROW, bias=bias),
    )
    # The two gates multiply each channel once.
    return StateMixer("short_convolution", hidden, 0, hidden * (taps - 1), 2.0 * hidden, tensors)
