"""Layers that predict tokens further ahead than the next: in training, and as drafts.

References
----------
DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 2.2, https://arxiv.org/abs/2412.19437;
NVIDIA/Megatron-LM megatron/core/transformer/multi_token_prediction.py, 2025
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from service.core.architecture.model import (
    Attention,
    LatentAttention,
    LayerGroup,
    ModelArchitecture,
    Span,
)
from service.core.architecture.tensors import Shard, Tensor, TensorClass

#: No model has more: DeepSeek-V3 has one, MiMo-V2-Flash three.
MOST_PREDICTION_LAYERS = 16
#: Code of the warning that a checkpoint's own are not counted.
PREDICTORS_LEFT_OUT = "prediction_layers_left_out"


@lru_cache(maxsize=256)
def predicting(architecture: ModelArchitecture, layers: int) -> ModelArchitecture:
    """The model with so many layers that predict further ahead, beside those that it has.

    Each joins the states before it with the embedding of the next token by a matrix, is a layer
    like the model's last that attends to all tokens, and passes the head once more.
    """
    if not layers:
        return architecture
    hidden = architecture.hidden_size
    pattern, mixer = _pattern(architecture)
    joining = Tensor("eh_proj", TensorClass.OTHER, 2 * hidden, hidden, Shard.COLUMN)
    norms = tuple(
        Tensor(name, TensorClass.NORM, 1, hidden, Shard.REPLICATED)
        for name in ("enorm", "hnorm", "shared_head.norm")
    )
    predicted = replace(
        pattern,
        count=layers,
        mixer=replace(mixer, tensors=(joining, *mixer.tensors)),
        norms=pattern.norms + norms,
    )
    return replace(
        architecture, groups=(*architecture.groups, predicted), trained_predictions=layers
    )


@lru_cache(maxsize=256)
def predictors(architecture: ModelArchitecture) -> ModelArchitecture | None:
    """What drafts tokens of a checkpoint that has layers for it: these alone, None of others.

    They share table and head with the model, and their states are caches of their own.
    """
    layers = architecture.prediction_layers
    if not layers or not can_predict(architecture):
        return None
    whole = predicting(architecture, layers)
    return replace(
        architecture,
        groups=whole.groups[-1:],
        embedding=(),
        head=(),
        other=(),
        images=None,
        audio=None,
        prediction_layers=0,
    )


def can_predict(architecture: ModelArchitecture) -> bool:
    """Whether such layers are computed: for decoders with layers that attend."""
    decodes = architecture.generates and architecture.encoder is None
    return decodes and bool(_attending(architecture))


def _pattern(architecture: ModelArchitecture) -> tuple[LayerGroup, Attention | LatentAttention]:
    """What each of the layers is like: one with attention, and with the last feed-forward part."""
    attending = _attending(architecture)
    whole = [
        (group, mixer)
        for group, mixer in attending
        if isinstance(mixer, LatentAttention) or mixer.span is Span.FULL
    ]
    chosen, mixer = (whole or attending)[-1]
    feeding = [group for group in architecture.groups if group.feed_forward is not None]
    if chosen.feed_forward is not None or not feeding:
        return chosen, mixer
    # Where parts are layers of their own (Nemotron-H), the layer has one of each.
    last = feeding[-1]
    return replace(chosen, feed_forward=last.feed_forward, norms=chosen.norms + last.norms), mixer


def _attending(
    architecture: ModelArchitecture,
) -> list[tuple[LayerGroup, Attention | LatentAttention]]:
    return [
        (group, group.mixer)
        for group in architecture.groups
        if isinstance(group.mixer, Attention | LatentAttention)
        and group.cross is None
        and not group.beside
    ]
