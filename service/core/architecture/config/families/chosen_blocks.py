"""Decoders whose queries attend to blocks of keys that an indexer chooses (MiniMax-M3).

Sizes and quirks are those of Hugging Face transformers' minimax_m3_vl
(https://github.com/huggingface/transformers, 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.family import Family
from service.core.architecture.config.fields import MAX_POSITIONS, MAX_WIDTH, Fields
from service.core.architecture.config.parts import (
    dense,
    experts,
    grouped_attention,
    linear,
    norm,
)
from service.core.architecture.config.schedules import LayerKinds, dense_first
from service.core.architecture.model import Attention
from service.core.architecture.tensors import Shard, TensorClass

_ATTENTION = grouped_attention(qk_norm="use_qk_norm")
_INDEX_DEFAULTS: Mapping[str, object] = {
    "sparse_num_index_heads": 4,
    "sparse_index_dim": 128,
    "sparse_block_size": 128,
    "sparse_topk_blocks": 16,
}


def _chosen_blocks(fields: Fields) -> Attention:
    """Attention to the best blocks of keys, of which the query's own is always one."""
    own = _ATTENTION["full"](fields)
    stated = fields.section("sparse_attention_config", _INDEX_DEFAULTS)
    sizes = stated or Fields({}, _INDEX_DEFAULTS)
    hidden, width = fields.size("hidden_size"), sizes.size("sparse_index_dim")
    heads, kind, whole = (
        sizes.size("sparse_num_index_heads"),
        TensorClass.ATTENTION,
        Shard.REPLICATED,
    )
    tensors = (
        *linear("index_q_proj", kind, hidden, heads * width, whole),
        *linear("index_k_proj", kind, hidden, width, whole),
        *norm("index_q_norm", width),
        *norm("index_k_norm", width),
    )
    block = sizes.size("sparse_block_size", MAX_POSITIONS)
    blocks = sizes.size("sparse_topk_blocks", MAX_POSITIONS // block)
    return replace(
        own,
        tensors=own.tensors + tensors,
        chosen_tokens=block * blocks,
        index_head_dim=width,
    )


def _choosing_layers(fields: Fields, layers: int) -> LayerKinds:
    """Layers that choose blocks are marked by 1, or named in ``layer_types``."""
    named = fields.array("layer_types", layers)
    if named is not None:
        return tuple("blocks" if kind == "minimax_m3_sparse" else "full" for kind in named)
    section = fields.section("sparse_attention_config", {})
    marked = None if section is None else section.array("sparse_attention_freq", layers)
    if marked is None:
        return ("full",) * layers
    if any(type(one) is not int or one not in (0, 1) for one in marked):
        raise fields.fault("sparse_attention_config", "must mark each layer by 0 or 1")
    return tuple("blocks" if one else "full" for one in marked)


def _dense_width(fields: Fields) -> int:
    return fields.size("dense_intermediate_size")


def _shared_width(fields: Fields) -> int:
    each = fields.count("shared_intermediate_size", MAX_WIDTH)
    return fields.count("n_shared_experts") * each


_MINIMAX_M3 = Family(
    defaults={
        "num_key_value_heads": 4,
        "head_dim": 128,
        "dense_intermediate_size": 12288,
        "shared_intermediate_size": 3072,
        "n_shared_experts": 1,
        "num_experts": 128,
        "num_experts_per_tok": 4,
        "use_qk_norm": True,
    },
    mixers={"full": _ATTENTION["full"], "blocks": _chosen_blocks},
    feed_forwards={
        "dense": dense(width=_dense_width),
        "experts": experts(correction_bias=True, shared_width=_shared_width),
    },
    mixer_schedule=_choosing_layers,
    feed_forward_schedule=dense_first,
)

CHOSEN_BLOCKS_FAMILIES: Mapping[str, Family] = {
    "minimax_m3": _MINIMAX_M3,
    "minimax_m3_vl": _MINIMAX_M3,
    "minimax_m3_vl_text": _MINIMAX_M3,
}
