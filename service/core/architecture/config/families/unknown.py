"""What is assumed of a model type that is not known: Llama's parts, as far as keys say so."""

from __future__ import annotations

from service.core.architecture.config.family import Family
from service.core.architecture.config.fields import Fields
from service.core.architecture.config.parts import (
    dense,
    expanded_width,
    experts,
    grouped_attention,
    latent_attention,
    shared_experts_width,
)
from service.core.architecture.config.schedules import (
    LayerKinds,
    dense_first,
    layer_types,
    sparse_steps,
    windowed,
)


def _mixers(fields: Fields, layers: int) -> LayerKinds:
    if fields.has("kv_lora_rank"):
        return ("latent",) * layers
    return layer_types(windowed())(fields, layers)


def _feed_forwards(fields: Fields, layers: int) -> LayerKinds:
    if not fields.has("num_experts") or fields.count("num_experts") < 2:
        return ("dense",) * layers
    return (sparse_steps if fields.has("mlp_only_layers") else dense_first)(fields, layers)


UNKNOWN_FAMILY = Family(
    mixers={
        **grouped_attention(qkv_bias="attention_bias", output_bias="attention_bias"),
        "latent": latent_attention,
    },
    feed_forwards={
        "dense": dense(bias="mlp_bias", width=expanded_width),
        "experts": experts(shared_width=shared_experts_width),
    },
    mixer_schedule=_mixers,
    feed_forward_schedule=_feed_forwards,
)
