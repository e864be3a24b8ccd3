"""Decoders whose layers have sizes of their own: Nemotron by architecture search, MiMo-V2.

Quirks are those of the modelling code published with the checkpoints and of Hugging Face
transformers (https://github.com/huggingface/transformers, 2026).
"""

from __future__ import annotations

from collections.abc import Mapping

from service.core.architecture.config.family import PRE_NORMS, Family
from service.core.architecture.config.fields import MAX_POSITIONS, Fields
from service.core.architecture.config.parts import (
    MixerBuilder,
    dense,
    experts,
    grouped_attention,
    linear,
    norm,
    vector,
)
from service.core.architecture.config.schedules import LayerKinds, dense_first
from service.core.architecture.model import Attention, DenseFeedForward, LayerGroup, Mixer, Span
from service.core.architecture.tensors import Shard, Tensor, TensorClass

_ATTENTION = grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias")
_DENSE = dense(bias="mlp_bias")
#: Widths of feed-forward parts are multiples of this (DeciLMMLP).
_WIDTH_MULTIPLE = 256
_MAX_MULTIPLE = 1000.0


def _searched_layers(fields: Fields, layers: int) -> tuple[LayerGroup, ...]:
    """Nemotron by architecture search: each layer's attention and width are in ``block_configs``.

    References
    ----------
    Bercovich et al., Puzzle, 2024, https://arxiv.org/abs/2411.19146
    """
    blocks = fields.array("block_configs", layers)
    if blocks is None:
        raise fields.fault("block_configs", "is missing")
    groups: dict[LayerGroup, int] = {}
    for block in blocks:
        if not isinstance(block, Mapping):
            raise fields.fault("block_configs", "must hold an object for each layer")
        layer = Fields(block, {}, "block_configs/")
        attention, part = layer.section("attention", {}), layer.section("ffn", {})
        if attention is None or part is None:
            raise fields.fault("block_configs", "must say attention and ffn of each layer")
        mixer = _searched_attention(fields, attention)
        width = _searched_width(fields, part)
        norms: tuple[Tensor, ...] = ()
        for name, there in zip(PRE_NORMS, (mixer, width), strict=True):
            norms += norm(name, fields.size("hidden_size")) if there is not None else ()
        group = LayerGroup(1, mixer, width, norms)
        groups[group] = groups.get(group, 0) + 1
    return tuple(
        LayerGroup(count, group.mixer, group.feed_forward, group.norms)
        for group, count in groups.items()
    )


def _replaced_by_matrix(fields: Fields, section: Fields) -> DenseFeedForward | None:
    """One square matrix in the place of a part, or None."""
    if not section.flag("replace_with_linear"):
        return None
    hidden = fields.size("hidden_size")
    tensors = linear("linear", TensorClass.DENSE_FFN, hidden, hidden, Shard.REPLICATED)
    return DenseFeedForward(hidden, False, tensors)


def _searched_attention(fields: Fields, section: Fields) -> Mixer | None:
    if section.flag("no_op"):
        return None
    if section.flag("replace_with_linear"):
        raise fields.fault("block_configs", "has a matrix for attention, which is not supported")
    heads = fields.size("num_attention_heads")
    shared = section.size("n_heads_in_group", maximum=heads)
    if heads % shared:
        raise section.fault("n_heads_in_group", f"must divide the {heads:,} query heads")
    window = section.optional_size("window_length", MAX_POSITIONS)
    sized = fields.replaced(num_key_value_heads=heads // shared, sliding_window=window)
    return _ATTENTION["full" if window is None else "sliding"](sized)


def _searched_width(fields: Fields, section: Fields) -> DenseFeedForward | None:
    if section.flag("no_op"):
        return None
    matrix = _replaced_by_matrix(fields, section)
    if matrix is not None:
        return matrix
    width = section.optional_size("intermediate_size")
    if width is None:
        multiple = section.ratio("ffn_mult", _MAX_MULTIPLE)
        if multiple is None:
            raise section.fault("ffn_mult", "is missing")
        two_thirds = int(2 * multiple * fields.size("hidden_size") / 3)
        width = max(1, -(-two_thirds // _WIDTH_MULTIPLE)) * _WIDTH_MULTIPLE
    return _DENSE(fields.replaced(intermediate_size=width))


def _own_values(span: Span, prefix: str, sinks: str) -> MixerBuilder:
    """Attention of MiMo-V2: values narrower than keys, and other heads where a window slides."""

    def build(fields: Fields) -> Attention:
        hidden = fields.size("hidden_size")
        heads = fields.size(f"{prefix}num_attention_heads")
        groups = fields.size(f"{prefix}num_key_value_heads", maximum=heads)
        if heads % groups:
            raise fields.fault(
                f"{prefix}num_key_value_heads", f"must divide the {heads:,} query heads"
            )
        width, value = fields.size(f"{prefix}head_dim"), fields.size(f"{prefix}v_head_dim")
        bias, kind = fields.flag("attention_bias"), TensorClass.ATTENTION
        tensors = (
            *linear("q_proj", kind, hidden, heads * width, Shard.COLUMN, bias=bias),
            *linear("k_proj", kind, hidden, groups * width, Shard.KV_HEADS, bias=bias),
            *linear("v_proj", kind, hidden, groups * value, Shard.KV_HEADS, bias=bias),
            *linear("o_proj", kind, heads * value, hidden, Shard.ROW),
        )
        if fields.flag(sinks):
            tensors += (vector("sinks", heads),)
        window = None
        if span is Span.SLIDING:
            window = fields.size("sliding_window", maximum=MAX_POSITIONS)
        return Attention(heads, groups, width, value, span, window, False, tensors)

    return build


def _marked_windows(fields: Fields, layers: int) -> LayerKinds:
    """MiMo-V2 marks layers with a window by 1."""
    marked = fields.array("hybrid_layer_pattern", layers)
    if marked is None:
        raise fields.fault("hybrid_layer_pattern", "is missing")
    if any(type(one) is not int or one not in (0, 1) for one in marked):
        raise fields.fault("hybrid_layer_pattern", "must hold 1 for layers with a window, else 0")
    return tuple("sliding" if one else "full" for one in marked)


_NEMOTRON_NAS = Family(groups=_searched_layers)
_MIMO_V2 = Family(
    mixers={
        "full": _own_values(Span.FULL, "", "add_full_attention_sink_bias"),
        "sliding": _own_values(Span.SLIDING, "swa_", "add_swa_attention_sink_bias"),
    },
    feed_forwards={"dense": dense(), "experts": experts(correction_bias=True)},
    mixer_schedule=_marked_windows,
    feed_forward_schedule=dense_first,
)

PER_LAYER_FAMILIES: Mapping[str, Family] = {
    "nemotron-nas": _NEMOTRON_NAS,
    "mimo_v2_flash": _MIMO_V2,
    "mimo_v2": _MIMO_V2,
}
