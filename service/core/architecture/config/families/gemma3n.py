"""Gemma 3n: four residual streams, a low-rank path beside attention, per-layer inputs.

Defaults and quirks are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2025–2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.families.gemma4 import (
    READER,
    cache_readers,
    layer_embeddings,
    layer_inputs,
)
from service.core.architecture.config.families.llama_like import SANDWICH_NORMS
from service.core.architecture.config.family import Family
from service.core.architecture.config.fields import Fields
from service.core.architecture.config.parts import (
    AttentionBuilder,
    dense,
    grouped_attention,
    linear,
    norm,
    vector,
)
from service.core.architecture.config.schedules import every_nth_full
from service.core.architecture.model import Attention, DenseFeedForward
from service.core.architecture.tensors import Shard, Tensor, TensorClass

_OWN = grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True)
_DENSE = dense()


def _reader(build: AttentionBuilder) -> AttentionBuilder:
    """Attention that reads the cache of an earlier layer, and has no keys and values itself."""

    def read(fields: Fields) -> Attention:
        own = build(fields)
        tensors = tuple(
            tensor
            for tensor in own.tensors
            if tensor.shard is not Shard.KV_HEADS and tensor.name != "k_norm"
        )
        return replace(own, shares_kv=True, tensors=tensors)

    return read


def _part(fields: Fields) -> DenseFeedForward:
    """The feed-forward part with what else a layer has: LAuReL, AltUp and its own input.

    References
    ----------
    Baykal et al., Alternating Updates, 2023, https://arxiv.org/abs/2301.13310; Menghani et al.,
    LAuReL, 2024, https://arxiv.org/abs/2411.07501
    """
    hidden, rank = fields.size("hidden_size"), fields.size("laurel_rank")
    streams = fields.size("altup_num_inputs", maximum=64)
    kind, whole = TensorClass.OTHER, Shard.REPLICATED
    tensors = (
        *linear("laurel.linear_left", kind, hidden, rank, whole),
        *linear("laurel.linear_right", kind, rank, hidden, whole),
        *norm("laurel.post_laurel_norm", hidden),
        vector("altup.correct_output_scale", hidden, whole),
        vector("altup.correction_coefs", streams**2, whole),
        vector("altup.prediction_coefs", streams**3, whole),
        *linear("altup.modality_router", kind, hidden, streams, whole),
        *norm("altup.router_norm", hidden),
    )
    part = _DENSE(fields)
    return replace(part, tensors=part.tensors + tensors + layer_inputs(fields))


def _outside(fields: Fields) -> tuple[Tensor, ...]:
    """Per-layer embeddings, and matrices between the residual streams before and after layers."""
    hidden = fields.size("hidden_size")
    between = 2 * (fields.size("altup_num_inputs", maximum=64) - 1)
    streams: tuple[Tensor, ...] = ()
    if between:
        streams = linear(
            "altup_projections", TensorClass.OTHER, hidden, hidden, Shard.REPLICATED, copies=between
        )
    return layer_embeddings(fields) + streams


_GEMMA3N = Family(
    defaults={
        "final_logit_softcapping": 30.0,
        "tie_word_embeddings": True,
        "vocab_size": 262_400,
        "hidden_size": 2048,
        "intermediate_size": 16_384,
        "num_hidden_layers": 35,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "max_position_embeddings": 32_768,
        "sliding_window": 512,
        "vocab_size_per_layer_input": 262_144,
        "hidden_size_per_layer_input": 256,
        "altup_num_inputs": 4,
        "num_kv_shared_layers": 15,
        "laurel_rank": 64,
    },
    mixers={
        "sliding": _OWN["sliding"],
        "full": _OWN["full"],
        f"sliding{READER}": _reader(_OWN["sliding"]),
        f"full{READER}": _reader(_OWN["full"]),
    },
    feed_forwards={"dense": _part},
    mixer_schedule=cache_readers(every_nth_full(5)),
    norms=(*SANDWICH_NORMS, "post_per_layer_input_norm"),
    extra_tensors=_outside,
)

GEMMA3N_FAMILIES: Mapping[str, Family] = {"gemma3n": _GEMMA3N, "gemma3n_text": _GEMMA3N}
