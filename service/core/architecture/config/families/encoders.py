"""Encoders that embed text: BERT and its kin. They have no output matrix.

Defaults and quirks are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2024–2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.family import Family
from service.core.architecture.config.fields import MAX_POSITIONS, Fields
from service.core.architecture.config.parts import dense, expanded_width, grouped_attention, linear
from service.core.architecture.config.schedules import every_nth_full, layer_types
from service.core.architecture.tensors import Shard, Tensor, TensorClass

#: Buckets of MPNet's relative positions (MPNetConfig.relative_attention_num_buckets).
_RELATIVE_BUCKETS = 32


def _positions(fields: Fields) -> int:
    return fields.size("max_position_embeddings", maximum=MAX_POSITIONS)


def _token_types(fields: Fields) -> int:
    return fields.count("type_vocab_size")


def _pooler(fields: Fields) -> tuple[Tensor, ...]:
    hidden = fields.size("hidden_size")
    return linear("pooler", TensorClass.OTHER, hidden, hidden, Shard.REPLICATED, bias=True)


def _pooler_and_relative_positions(fields: Fields) -> tuple[Tensor, ...]:
    buckets = fields.optional_size("relative_attention_num_buckets") or _RELATIVE_BUCKETS
    table = buckets * fields.size("num_attention_heads")
    return (
        *_pooler(fields),
        Tensor("relative_attention_bias", TensorClass.OTHER, 1, table, Shard.REPLICATED),
    )


_DISTILBERT = Family(
    defaults={"tie_word_embeddings": True, "max_position_embeddings": 512},
    mixers=grouped_attention(
        names=("q_lin", "k_lin", "v_lin", "out_lin"), qkv_bias=True, output_bias=True
    ),
    feed_forwards={"dense": dense(names=("lin1", "lin2"), bias=True, width=expanded_width)},
    norms=("sa_layer_norm", "output_layer_norm"),
    norm_bias=True,
    final_norm=False,
    learned_positions=_positions,
    embedding_norm=True,
    head=False,
    causal=False,
)
_MPNET = replace(
    _DISTILBERT,
    mixers=grouped_attention(names=("q", "k", "v", "o"), qkv_bias=True, output_bias=True),
    feed_forwards={"dense": dense(names=("intermediate.dense", "output.dense"), bias=True)},
    norms=("attention.LayerNorm", "output.LayerNorm"),
    extra_tensors=_pooler_and_relative_positions,
)
_BERT = replace(
    _MPNET,
    defaults={**_DISTILBERT.defaults, "type_vocab_size": 2},
    mixers=grouped_attention(
        names=("query", "key", "value", "dense"), qkv_bias=True, output_bias=True
    ),
    token_types=_token_types,
    extra_tensors=_pooler,
)
_NOMIC_BERT = Family(
    defaults={"tie_word_embeddings": True, "type_vocab_size": 2},
    mixers=grouped_attention(
        names=("Wqkv", "out_proj"), qkv_bias="qkv_proj_bias", output_bias="qkv_proj_bias"
    ),
    feed_forwards={"dense": dense(names=("fc11", "fc12", "fc2"), bias="mlp_fc1_bias")},
    norms=("norm1", "norm2"),
    norm_bias=True,
    final_norm=False,
    token_types=_token_types,
    embedding_norm=True,
    head=False,
    causal=False,
)
_MODERNBERT = Family(
    defaults={"tie_word_embeddings": True, "local_attention": 128, "global_attn_every_n_layers": 3},
    mixers=grouped_attention(
        names=("Wqkv", "Wo"),
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        window="local_attention",
    ),
    feed_forwards={"dense": dense(names=("Wi", "Wo"), fused_gate=True, bias="mlp_bias")},
    mixer_schedule=layer_types(every_nth_full("global_attn_every_n_layers", other="sliding")),
    norms=("attn_norm", "mlp_norm"),
    embedding_norm=True,
    head=False,
    causal=False,
)

ENCODER_FAMILIES: Mapping[str, Family] = {
    "bert": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "camembert": _BERT,
    "mpnet": _MPNET,
    "distilbert": _DISTILBERT,
    "nomic_bert": _NOMIC_BERT,
    "modernbert": _MODERNBERT,
}
