"""DeepSeek-V4: attention to the last tokens and to entries that sum up runs of earlier ones.

Sizes and quirks are those of Hugging Face transformers' deepseek_v4
(https://github.com/huggingface/transformers, 2026), after DeepSeek-AI, DeepSeek-V4, 2026, sections
2.1 to 2.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from service.core.architecture.config.family import PRE_NORMS, Family
from service.core.architecture.config.fields import MAX_POSITIONS, Fields
from service.core.architecture.config.parts import (
    experts,
    linear,
    norm,
    shared_experts_width,
    vector,
)
from service.core.architecture.model import LatentAttention, LayerGroup
from service.core.architecture.tensors import Shard, Tensor, TensorClass

_SLIDING, _CHOSEN, _SUMMED = (
    "sliding_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
)
#: Kinds of layers by the tokens that an entry of theirs stands for, in configurations of 2026.
_BY_TOKENS: Mapping[object, str] = {0: _SLIDING, 4: _CHOSEN, 128: _SUMMED}
_HASHED, _ROUTED = (
    experts(shared_width=shared_experts_width),
    experts(shared_width=shared_experts_width, correction_bias=True),
)
_ATTENTION, _WHOLE = TensorClass.ATTENTION, Shard.REPLICATED


def _windowed(fields: Fields) -> LatentAttention:
    """Queries, outputs, and the last tokens: keys and values are one vector for all heads."""
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    width, rank = fields.size("head_dim"), fields.size("q_lora_rank")
    groups, output_rank = fields.size("o_groups"), fields.size("o_lora_rank")
    return _attention(
        fields,
        (
            *linear("q_a_proj", _ATTENTION, hidden, rank, _WHOLE),
            *norm("q_a_norm", rank),
            *linear("q_b_proj", _ATTENTION, rank, heads * width, Shard.COLUMN),
            *linear("kv_proj", _ATTENTION, hidden, width, _WHOLE),
            *norm("kv_norm", width),
            # Each group of heads has a product of its own.
            *linear(
                "o_a_proj", _ATTENTION, heads * width // groups, groups * output_rank, Shard.COLUMN
            ),
            *linear("o_b_proj", _ATTENTION, groups * output_rank, hidden, Shard.ROW),
            vector("sinks", heads),
            *_hyper_connection(fields, "attn_hc"),
        ),
        window_tokens=fields.size("sliding_window", MAX_POSITIONS),
    )


def _compressed(fields: Fields, kind: str) -> LatentAttention:
    """Entries for runs of tokens: all of them, or those that an indexer chooses."""
    chosen = kind == _CHOSEN
    stated = fields.section("compress_rates", {})
    tokens = 4 if chosen else 128
    if stated is not None and stated.has(kind):
        tokens = stated.size(kind, MAX_POSITIONS)
    # Chosen entries are made of two series, one of the run before.
    tensors = _compressor(fields, "compressor", fields.size("head_dim"), tokens, 1 + chosen)
    if not chosen:
        return _attention(fields, tensors, tokens_per_entry=tokens)
    hidden, rank = fields.size("hidden_size"), fields.size("q_lora_rank")
    index_heads, index_width = fields.size("index_n_heads"), fields.size("index_head_dim")
    return _attention(
        fields,
        (
            *tensors,
            *_compressor(fields, "indexer", index_width, tokens, 2),
            *linear("indexer_q_b_proj", _ATTENTION, rank, index_heads * index_width, _WHOLE),
            *linear("weights_proj", _ATTENTION, hidden, index_heads, _WHOLE),
        ),
        tokens_per_entry=tokens,
        indexer_head_dim=index_width,
        indexer_heads=index_heads,
        indexer_top_k=fields.size("index_topk", MAX_POSITIONS // tokens),
    )


def _attention(
    fields: Fields,
    tensors: tuple[Tensor, ...],
    *,
    tokens_per_entry: int = 1,
    window_tokens: int | None = None,
    indexer_head_dim: int | None = None,
    indexer_heads: int = 0,
    indexer_top_k: int | None = None,
) -> LatentAttention:
    """Attention of all heads to entries whose vector is key and value at once."""
    width, rope = fields.size("head_dim"), fields.size("qk_rope_head_dim")
    if rope >= width:
        raise fields.fault("qk_rope_head_dim", "must be less than head_dim")
    return LatentAttention(
        query_heads=fields.size("num_attention_heads"),
        q_lora_rank=fields.size("q_lora_rank"),
        kv_lora_rank=width - rope,
        qk_nope_head_dim=width - rope,
        qk_rope_head_dim=rope,
        v_head_dim=width,
        indexer_head_dim=indexer_head_dim,
        indexer_top_k=indexer_top_k,
        tensors=tensors,
        indexer_heads=indexer_heads,
        tokens_per_entry=tokens_per_entry,
        window_tokens=window_tokens,
    )


def _compressor(
    fields: Fields, name: str, width: int, tokens: int, series: int
) -> tuple[Tensor, ...]:
    hidden = fields.size("hidden_size")
    return (
        *linear(f"{name}_kv_proj", _ATTENTION, hidden, series * width, _WHOLE),
        *linear(f"{name}_gate_proj", _ATTENTION, hidden, series * width, _WHOLE),
        vector(f"{name}_position_bias", tokens * series * width, _WHOLE),
        *norm(f"{name}_kv_norm", width),
    )


def _hyper_connection(fields: Fields, name: str) -> tuple[Tensor, ...]:
    """How a part's input is mixed of several residual streams, and its output added to them."""
    streams, hidden = fields.size("hc_mult"), fields.size("hidden_size")
    mixed = streams * (2 + streams)
    return (
        *linear(f"{name}_fn", TensorClass.ROUTER, streams * hidden, mixed, _WHOLE),
        vector(f"{name}_base", mixed, _WHOLE),
        vector(f"{name}_scale", 3, _WHOLE),
    )


def _head_connection(fields: Fields) -> tuple[Tensor, ...]:
    streams, hidden = fields.size("hc_mult"), fields.size("hidden_size")
    return (
        *linear("hc_head_fn", TensorClass.ROUTER, streams * hidden, streams, _WHOLE),
        vector("hc_head_base", streams, _WHOLE),
        vector("hc_head_scale", 1, _WHOLE),
    )


def _kinds(fields: Fields, layers: int) -> tuple[str, ...]:
    """The kind of each layer: named, or by the tokens that its entries stand for."""
    named = fields.array("layer_types", layers)
    if named is None:
        stated = fields.array("compress_ratios")
        if stated is None:
            return tuple(_CHOSEN if at > 1 and at % 2 else _SUMMED for at in range(layers))
        if len(stated) < layers or any(one not in _BY_TOKENS for one in stated[:layers]):
            raise fields.fault("compress_ratios", f"must hold 0, 4 or 128 for all {layers} layers")
        named = [_BY_TOKENS[one] for one in stated[:layers]]
    if any(kind not in _BY_TOKENS.values() for kind in named):
        raise fields.fault("layer_types", f"must hold {', '.join(_BY_TOKENS.values())}")
    return tuple(str(kind) for kind in named)


def _layers(fields: Fields, layers: int) -> tuple[LayerGroup, ...]:
    """Layers by kind; entries for runs of tokens stand beside the attention to the last ones."""
    hashed = fields.count("num_hash_layers", layers)
    parts = tuple("hashed" if layer < hashed else "routed" for layer in range(layers))
    norms = tuple(tensor for name in PRE_NORMS for tensor in norm(name, fields.size("hidden_size")))
    norms += _hyper_connection(fields, "ffn_hc")
    kinds = _kinds(fields, layers)
    return (
        *(
            LayerGroup(count, _windowed(fields), build(fields), norms)
            for part, build in (("hashed", _HASHED), ("routed", _ROUTED))
            if (count := parts.count(part))
        ),
        *(
            LayerGroup(count, _compressed(fields, kind), None, (), beside=True)
            for kind, count in sorted(Counter(kinds).items())
            if kind != _SLIDING
        ),
    )


_DEEPSEEK_V4 = Family(
    defaults={
        "head_dim": 512,
        "qk_rope_head_dim": 64,
        "q_lora_rank": 1024,
        "num_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 6,
        "moe_intermediate_size": 2048,
        "num_hash_layers": 3,
        "sliding_window": 128,
        "o_groups": 8,
        "o_lora_rank": 1024,
        "hc_mult": 4,
        "index_n_heads": 64,
        "index_head_dim": 128,
        "index_topk": 512,
    },
    groups=_layers,
    extra_tensors=_head_connection,
)

COMPRESSED_FAMILIES: Mapping[str, Family] = {
    "deepseek_v4": _DEEPSEEK_V4,
    # What SGLang's own conversions to 8 bits are called.
    "deepseek_ref": _DEEPSEEK_V4,
}
