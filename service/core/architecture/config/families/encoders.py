"""Encoders that embed text: BERT and its kin. They have no output matrix.

Defaults and quirks are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2024–2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.family import Family
from service.core.architecture.config.fields import MAX_POSITIONS, Fields
from service.core.architecture.config.parts import (
    dense,
    expanded_width,
    grouped_attention,
    linear,
    norm,
)
from service.core.architecture.config.schedules import every_nth_full, layer_types
from service.core.architecture.model import DenseFeedForward
from service.core.architecture.tensors import Shard, Tensor, TensorClass

#: Probabilities of dropout of BERT's configuration class and those made from it.
_DROPOUT = {"attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1}
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


def _gated_with_last_bias(fields: Fields) -> DenseFeedForward:
    """A gated part of which only the last matrix has a bias (GTE)."""
    part = dense(names=("up_gate_proj", "down_proj"), fused_gate=True)(fields)
    hidden = fields.size("hidden_size")
    bias = Tensor("down_proj.bias", TensorClass.BIAS, 1, hidden, Shard.REPLICATED)
    return replace(part, tensors=(*part.tensors, bias))


def _biased_positions(fields: Fields) -> int:
    return _positions(fields) if fields.flag("position_biased_input") else 0


def _relative_embeddings(fields: Fields) -> tuple[Tensor, ...]:
    """The table of relative positions that all layers of DeBERTa share, and its norm."""
    if not fields.flag("relative_attention"):
        return ()
    if not fields.flag("share_att_key"):
        raise fields.fault("share_att_key", "must be true: other attention is not computed")
    if fields.count("conv_kernel_size"):
        raise fields.fault("conv_kernel_size", "must be 0: convolutions are not computed")
    hidden = fields.size("hidden_size")
    stated = fields.optional_size("position_buckets", MAX_POSITIONS, minimum=-1) or -1
    if stated < 0:
        stated = fields.optional_size("max_relative_positions", MAX_POSITIONS, minimum=-1) or -1
    rows = 2 * (stated if stated > 0 else _positions(fields))
    table = Tensor("rel_embeddings", TensorClass.EMBEDDING, hidden, rows, Shard.REPLICATED)
    normed = "layer_norm" in (fields.text("norm_rel_ebd") or "none").lower()
    return (table, *(norm("rel_embeddings_norm", hidden, bias=True) if normed else ()))


_DISTILBERT = Family(
    defaults={
        "tie_word_embeddings": True,
        "max_position_embeddings": 512,
        "attention_dropout": 0.1,
        "dropout": 0.1,
    },
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
    defaults={"tie_word_embeddings": True, "max_position_embeddings": 512, **_DROPOUT},
    mixers=grouped_attention(names=("q", "k", "v", "o"), qkv_bias=True, output_bias=True),
    feed_forwards={"dense": dense(names=("intermediate.dense", "output.dense"), bias=True)},
    norms=("attention.LayerNorm", "output.LayerNorm"),
    extra_tensors=_pooler_and_relative_positions,
)
_BERT = replace(
    _MPNET,
    defaults={**_MPNET.defaults, "type_vocab_size": 2},
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

_EUROBERT = Family(
    defaults={"tie_word_embeddings": True},
    mixers=grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias"),
    feed_forwards={"dense": dense(bias="mlp_bias")},
    head=False,
    causal=False,
)
_GTE = replace(
    _NOMIC_BERT,
    defaults={
        "tie_word_embeddings": True,
        "type_vocab_size": 0,
        "pack_qkv": True,
        "hidden_dropout_prob": 0.1,
    },
    mixers=grouped_attention(names=("qkv_proj", "o_proj"), qkv_bias=True, output_bias=True),
    feed_forwards={"dense": _gated_with_last_bias},
    norms=("attn_ln", "mlp_ln"),
)
_DEBERTA = replace(
    _BERT,
    defaults={**_MPNET.defaults, "position_biased_input": True, "type_vocab_size": 0},
    learned_positions=_biased_positions,
    extra_tensors=_relative_embeddings,
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
    "data2vec-text": _BERT,
    "deberta-v2": _DEBERTA,
    "eurobert": _EUROBERT,
    "gte": _GTE,
    "new": _GTE,
}
