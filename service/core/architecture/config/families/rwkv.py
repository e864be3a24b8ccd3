"""RWKV 4 to 7: recurrent networks, from RWKV 5 on with a matrix for each head as their state.

Sizes are those of the modelling code published with the checkpoints: RWKV 4 as in Hugging Face
transformers, RWKV 5 and 6 as in ``modeling_rwkv5.py`` and ``modeling_rwkv6.py`` of RWKV's
repositories, RWKV 7 as in flash-linear-attention
(https://github.com/fla-org/flash-linear-attention, 2025).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.family import Family
from service.core.architecture.config.fields import Fields
from service.core.architecture.config.parts import linear, norm, vector
from service.core.architecture.config.schedules import LayerKinds, every
from service.core.architecture.model import DenseFeedForward, StateMixer
from service.core.architecture.tensors import Shard, Tensor, TensorClass

_STATE = TensorClass.STATE
_PART = TensorClass.DENSE_FFN
#: Each element of the state decays (1), is written (2) and read (2).
_FLOPS_PER_ELEMENT = 5.0
#: RWKV 7 also takes away what the state holds for a key: it is read once more and written (4).
_FLOPS_PER_DELTA_ELEMENT = 9.0
#: RWKV 4 keeps a sum of values, one of weights and the largest exponent; each is scaled by an
#: exponential, added to and compared.
_SUMS, _FLOPS_PER_SUM = 3, 5.0
#: Width from which RWKV 6 has adapters twice as wide (modeling_rwkv6.py).
_WIDE = 4096
#: Mixtures of a token with the one before it that RWKV 6 makes.
_MIXTURES = 5


def _heads(fields: Fields, key: str) -> tuple[int, int]:
    hidden, width = fields.size("hidden_size"), fields.size(key)
    if hidden % width:
        raise fields.fault(key, f"must divide the hidden size {hidden:,}")
    return hidden // width, width


def _adapter(name: str, hidden: int, narrow: int, *, bias: bool) -> tuple[Tensor, ...]:
    """A projection to a narrow vector and back."""
    return (
        *linear(f"{name}.down", _STATE, hidden, narrow, Shard.REPLICATED),
        *linear(f"{name}.up", _STATE, narrow, hidden, Shard.COLUMN, bias=bias),
    )


def _mixer(
    kind: str, heads: int, width: int, flops: float, tensors: tuple[Tensor, ...]
) -> StateMixer:
    hidden = heads * width
    elements = hidden * width
    # Of the token before, both parts of a layer keep what they read.
    return StateMixer(kind, heads, elements, 2 * hidden, flops * elements, tensors)


def _time_mix4(fields: Fields) -> StateMixer:
    """RWKV 4, whose state is two sums and their scale for each element of a token.

    References
    ----------
    Peng et al., RWKV: Reinventing RNNs for the Transformer Era, 2023, section 3.2,
    https://arxiv.org/abs/2305.13048
    """
    hidden = fields.size("hidden_size")
    inner = fields.optional_size("attention_hidden_size") or hidden
    tensors: tuple[Tensor, ...] = (vector("time_mix", 3 * hidden),)
    tensors += (vector("time_decay", inner), vector("time_first", inner))
    for name in ("key", "value", "receptance"):
        tensors += linear(name, _STATE, hidden, inner, Shard.COLUMN)
    tensors += linear("output", _STATE, inner, hidden, Shard.ROW)
    elements = _SUMS * inner
    flops = _FLOPS_PER_SUM * elements
    return StateMixer("rwkv4", inner, elements, 2 * hidden, flops, tensors)


def _channel_mix4(fields: Fields) -> DenseFeedForward:
    hidden = fields.size("hidden_size")
    return _channel_mix(fields, "time_mix", fields.optional_size("intermediate_size") or 4 * hidden)


def _time_mix5(fields: Fields) -> StateMixer:
    """RWKV 5.2, in which each element of a head decays at a rate of its own.

    References
    ----------
    Peng et al., Eagle and Finch, 2024, section 4, https://arxiv.org/abs/2404.05892
    """
    hidden = fields.size("hidden_size")
    heads, width = _heads(fields, "head_size")
    tensors: tuple[Tensor, ...] = (vector("time_mix", 4 * hidden),)
    tensors += (vector("time_decay", hidden), vector("time_faaaa", hidden))
    return _mixer("rwkv5", heads, width, _FLOPS_PER_ELEMENT, tensors + _projections(hidden))


def _projections(hidden: int) -> tuple[Tensor, ...]:
    """The matrices of RWKV 5 and 6, and the norm of their heads."""
    tensors: tuple[Tensor, ...] = ()
    for name in ("receptance", "key", "value", "gate"):
        tensors += linear(name, _STATE, hidden, hidden, Shard.COLUMN)
    tensors += linear("output", _STATE, hidden, hidden, Shard.ROW)
    return tensors + norm("ln_x", hidden, bias=True)


def _time_mix6(fields: Fields) -> StateMixer:
    """RWKV 6.

    References
    ----------
    Peng et al., Eagle and Finch, 2024, section 4, https://arxiv.org/abs/2404.05892
    """
    hidden = fields.size("hidden_size")
    heads, width = _heads(fields, "head_size")
    narrow = 64 if hidden >= _WIDE else 32
    tensors: tuple[Tensor, ...] = (vector("time_maa", (_MIXTURES + 1) * hidden),)
    tensors += linear("time_maa_w1", _STATE, hidden, _MIXTURES * narrow, Shard.REPLICATED)
    tensors += linear("time_maa_w2", _STATE, _MIXTURES * narrow, hidden, Shard.COLUMN)
    tensors += _adapter("time_decay", hidden, 2 * narrow, bias=False)
    tensors += (vector("time_decay", hidden), vector("time_faaaa", hidden))
    return _mixer("rwkv6", heads, width, _FLOPS_PER_ELEMENT, tensors + _projections(hidden))


def _channel_mix6(fields: Fields) -> DenseFeedForward:
    hidden = fields.size("hidden_size")
    inner = fields.optional_size("intermediate_size") or int(hidden * 3.5 // 32 * 32)
    return _channel_mix(fields, "time_maa", inner)


def _channel_mix(fields: Fields, mixture: str, inner: int) -> DenseFeedForward:
    hidden = fields.size("hidden_size")
    tensors = (
        vector(mixture, 2 * hidden),
        *linear("key", _PART, hidden, inner, Shard.COLUMN),
        *linear("receptance", _PART, hidden, hidden, Shard.REPLICATED),
        *linear("value", _PART, inner, hidden, Shard.ROW),
    )
    return DenseFeedForward(inner, False, tensors)


def _time_mix7(fields: Fields, *, first: bool) -> StateMixer:
    """RWKV 7, whose first layer has no adapter for values.

    References
    ----------
    Peng et al., RWKV-7 "Goose", 2025, section 4, https://arxiv.org/abs/2503.14456
    """
    hidden = fields.size("hidden_size")
    heads, width = _heads(fields, "head_dim")
    tensors: tuple[Tensor, ...] = (
        vector("token_shift", 6 * hidden),
        vector("k_k", hidden),
        vector("k_a", hidden),
        vector("r_k", hidden),
    )
    for name in ("r_proj", "k_proj", "v_proj"):
        tensors += linear(name, _STATE, hidden, hidden, Shard.COLUMN)
    tensors += linear("o_proj", _STATE, hidden, hidden, Shard.ROW)
    for name, key in (("w", "decay"), ("a", "a"), ("v", "v"), ("g", "gate")):
        if name == "v" and first:
            continue
        narrow = fields.size(f"{key}_low_rank_dim")
        tensors += _adapter(f"{name}_lora", hidden, narrow, bias=name != "g")
    tensors += norm("g_norm", hidden, bias=True)
    return _mixer("rwkv7", heads, width, _FLOPS_PER_DELTA_ELEMENT, tensors)


def _channel_mix7(fields: Fields) -> DenseFeedForward:
    hidden = fields.size("hidden_size")
    inner = fields.optional_size("intermediate_size")
    inner = inner or round((fields.ratio("hidden_ratio", 64.0) or 4.0) * hidden)
    tensors = (
        vector("x_k", hidden),
        *linear("key", _PART, hidden, inner, Shard.COLUMN),
        *linear("value", _PART, inner, hidden, Shard.ROW),
    )
    return DenseFeedForward(inner, False, tensors)


def _first_apart(fields: Fields, layers: int) -> LayerKinds:  # noqa: ARG001 - a schedule takes both
    return ("first", *("later",) * (layers - 1))


_NORMS = ("ln1", "ln2")
_RWKV4 = Family(
    mixers={"mix": _time_mix4},
    feed_forwards={"mix": _channel_mix4},
    mixer_schedule=every("mix"),
    feed_forward_schedule=every("mix"),
    norms=_NORMS,
    norm_bias=True,
    embedding_norm=True,
)
_RWKV6 = replace(
    _RWKV4,
    defaults={"head_size": 64},
    mixers={"mix": _time_mix6},
    feed_forwards={"mix": _channel_mix6},
)
_RWKV5 = replace(_RWKV6, mixers={"mix": _time_mix5})
_RWKV7 = Family(
    defaults={"head_dim": 64},
    mixers={
        "first": lambda fields: _time_mix7(fields, first=True),
        "later": lambda fields: _time_mix7(fields, first=False),
    },
    feed_forwards={"mix": _channel_mix7},
    mixer_schedule=_first_apart,
    feed_forward_schedule=every("mix"),
    norms=_NORMS,
    norm_bias=True,
    embedding_norm=True,
)

RWKV_FAMILIES: Mapping[str, Family] = {
    "rwkv": _RWKV4,
    "rwkv5": _RWKV5,
    "rwkv6": _RWKV6,
    "rwkv7": _RWKV7,
}
