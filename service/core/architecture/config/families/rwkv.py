"""RWKV 6 and 7: recurrent networks with a matrix for each head as their state.

Sizes are those of the modelling code published with the checkpoints: RWKV 6 as in
``modeling_rwkv6.py`` of RWKV's repositories, RWKV 7 as in flash-linear-attention
(https://github.com/fla-org/flash-linear-attention, 2025).
"""

from __future__ import annotations

from collections.abc import Mapping

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
    for name in ("receptance", "key", "value", "gate"):
        tensors += linear(name, _STATE, hidden, hidden, Shard.COLUMN)
    tensors += linear("output", _STATE, hidden, hidden, Shard.ROW)
    tensors += norm("ln_x", hidden, bias=True)
    return _mixer("rwkv6", heads, width, _FLOPS_PER_ELEMENT, tensors)


def _channel_mix6(fields: Fields) -> DenseFeedForward:
    hidden = fields.size("hidden_size")
    inner = fields.optional_size("intermediate_size") or int(hidden * 3.5 // 32 * 32)
    tensors = (
        vector("time_maa", 2 * hidden),
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
_RWKV6 = Family(
    defaults={"head_size": 64},
    mixers={"mix": _time_mix6},
    feed_forwards={"mix": _channel_mix6},
    mixer_schedule=every("mix"),
    feed_forward_schedule=every("mix"),
    norms=_NORMS,
    norm_bias=True,
    embedding_norm=True,
)
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

RWKV_FAMILIES: Mapping[str, Family] = {"rwkv6": _RWKV6, "rwkv7": _RWKV7}
