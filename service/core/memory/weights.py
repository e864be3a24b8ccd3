"""Bytes of model weights on the fullest accelerator, by tensor class.

Weights are exact: every tensor is counted in the bits its number format stores it in, divided
the way engines divide it, and the most loaded pipeline stage is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from service.core.architecture.model import ModelArchitecture
from service.core.architecture.sharding import kv_heads, rank_elements, stage_layer_counts
from service.core.architecture.tensors import Tensor, TensorClass
from service.core.deployment import Parallelism
from service.core.number_formats import NumberFormat


@dataclass(frozen=True, slots=True)
class RankWeights:
    """Weights on one rank of a pipeline stage.

    ``by_class_bytes`` and ``total_bytes`` are bytes on that rank, ``elements`` the parameters
    behind them; ``total_model_bytes`` is the whole model stored once. ``layers`` is how many of the
    model's layers the stage holds.
    """

    stage: int
    layers: int
    elements: float
    by_class_bytes: Mapping[TensorClass, float]
    total_bytes: float
    total_model_bytes: float


@lru_cache(maxsize=4096)
def stage_weights(
    architecture: ModelArchitecture,
    weights_format: NumberFormat,
    parallelism: Parallelism,
    stage: int,
) -> RankWeights:
    """Weights on a rank of one pipeline stage [B].

    The first stage holds the embedding and tensors outside the layers, the last the head. A tied
    embedding that serves as the head is held by both. Where layers differ, each stage is taken
    to hold every kind in proportion.

    References
    ----------
    Shoeybi et al., Megatron-LM, 2019, https://arxiv.org/abs/1909.08053
    """
    layers = stage_layer_counts(architecture.layer_count, parallelism.pipeline)[stage]
    share = layers / architecture.layer_count
    by_class: dict[TensorClass, float] = {}
    elements = 0.0

    def add(tensors: Iterable[Tensor], times: float, kv_head_count: int) -> None:
        nonlocal elements
        for tensor in tensors:
            held = times * rank_elements(tensor, parallelism, kv_head_count)
            elements += held
            stored = held * stored_bits(architecture, weights_format, tensor) / 8.0
            by_class[tensor.tensor_class] = by_class.get(tensor.tensor_class, 0.0) + stored

    for group in architecture.groups:
        add(group.tensors, group.count * share, kv_heads(group))
    add(end_tensors(architecture, parallelism.pipeline, stage), 1.0, 1)
    return RankWeights(
        stage=stage,
        layers=layers,
        elements=elements,
        by_class_bytes=MappingProxyType(by_class),
        total_bytes=sum(by_class.values()),
        total_model_bytes=total_model_bytes(architecture, weights_format),
    )


def end_tensors(architecture: ModelArchitecture, pipeline: int, stage: int) -> tuple[Tensor, ...]:
    """Tensors outside the layers that a pipeline stage holds: embedding, head and others."""
    tensors: tuple[Tensor, ...] = ()
    if stage == 0:
        tensors += architecture.embedding + architecture.other
    if stage == pipeline - 1:
        tensors += architecture.head
        if architecture.tied_embeddings and pipeline > 1:
            tensors += architecture.embedding
    return tensors


@lru_cache(maxsize=1024)
def total_model_bytes(architecture: ModelArchitecture, weights_format: NumberFormat) -> float:
    """Bytes of the whole model stored once, tied tensors counted once [B]."""
    once = architecture.embedding + architecture.head + architecture.other
    counted = [(group.count, group.tensors) for group in architecture.groups] + [(1, once)]
    bits = sum(
        count * tensor.elements * stored_bits(architecture, weights_format, tensor)
        for count, tensors in counted
        for tensor in tensors
    )
    return bits / 8.0


def stored_bits(
    architecture: ModelArchitecture, weights_format: NumberFormat, tensor: Tensor
) -> float:
    """Bits per element of a tensor: a tied embedding is stored as the head that it serves as."""
    if architecture.tied_embeddings and tensor.tensor_class is TensorClass.EMBEDDING:
        return weights_format.bits(TensorClass.HEAD)
    return weights_format.tensor_bits(tensor)
