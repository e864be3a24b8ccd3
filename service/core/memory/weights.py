"""Bytes of model weights on the fullest accelerator, by tensor class.

Weights are exact: every tensor is counted in the bits its number format stores it in, divided
the way engines divide it, and the most loaded pipeline stage is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log
from types import MappingProxyType

from service.core.architecture.model import LayerGroup, MixtureOfExperts, ModelArchitecture
from service.core.architecture.sharding import (
    kv_heads,
    rank_elements,
    rank_shape,
    stage_layer_counts,
)
from service.core.architecture.tensors import Shard, Tensor, TensorClass
from service.core.deployment import Parallelism
from service.core.interval import Z_90
from service.core.lightweight import lightweight
from service.core.number_formats import NumberFormat

#: Projections that some engines join into one matrix.
_SINGLE_PROJECTIONS = frozenset({"q_proj", "k_proj", "v_proj"})
#: Standard deviation of a mix's size over what its tensors of more bits add to it [-]. llama.cpp's
#: own mix of a name raises certain tensors; others who make files of that name choose tensors by
#: importance, none to some more of them. If half of the files are theirs, and anything from none to
#: twice as much is as likely, one in twenty lies below a fifth of the way up, at 1.65 deviations.
#: Source: llama.cpp tensor type choices and Unsloth Dynamic 2.0 (layers chosen by model), 2025.
_MIX_SPREAD_RATIO = 0.8 / Z_90
#: Bytes per element of a matrix that is widened for a product.
_WIDENED_BYTES = 2.0


@lightweight
class Loading:
    """How an engine holds what a checkpoint stores.

    Experts in a format whose kernels want it are padded to a multiple of ``expert_multiple``
    features, and what a rank has of their inner width to one of ``expert_inner_multiple`` (0: not
    at all). Cosines and sines of all positions are held in ``position_bytes`` each (0: not at all).
    With a ``host_embedding`` the input table stays in the host's memory.
    """

    expert_multiple: float = 0.0
    expert_inner_multiple: float = 0.0
    position_bytes: float = 0.0
    host_embedding: bool = False


AS_STORED = Loading()


@dataclass(frozen=True, slots=True)
class RankWeights:
    """Weights on one rank of a pipeline stage.

    ``by_class_bytes`` and ``total_bytes`` are bytes on that rank, ``elements`` the parameters
    behind them; ``total_model_bytes`` is the whole model stored once, ``host_bytes`` what stays in
    the host's memory. ``layers`` is how many of the model's layers the stage holds.
    ``widest_bytes`` is the largest quantised matrix of layers once it is widened to 16 bit, and
    ``widened_bytes`` the same if its format is one whose kernels do so before they multiply,
    ``repeated_bytes`` a second copy of a table that the
    checkpoint stores twice though it is shared, and ``single_bytes`` projections of queries, keys
    and values that are stored one by one; zero otherwise. ``inward_bytes`` are matrices that the
    routed experts of one layer read their input by. ``mix_log_sigma`` is how far files of the
    format differ in size by who made them, as a standard deviation of the logarithm [-].
    """

    stage: int
    layers: int
    elements: float
    by_class_bytes: Mapping[TensorClass, float]
    total_bytes: float
    total_model_bytes: float
    host_bytes: float
    widest_bytes: float
    widened_bytes: float
    repeated_bytes: float
    single_bytes: float
    inward_bytes: float
    mix_log_sigma: float


@lru_cache(maxsize=4096)
def stage_weights(
    architecture: ModelArchitecture,
    weights_format: NumberFormat,
    parallelism: Parallelism,
    stage: int,
    loading: Loading = AS_STORED,
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
    elements = host = widest = single = raised = 0.0
    unmixed = weights_format.unmixed

    def stored(tensor: Tensor, kv_head_count: int) -> float:
        bits = stored_bits(architecture, weights_format, tensor)
        return rank_elements(tensor, parallelism, kv_head_count) * bits / 8.0

    def add(
        tensors: Iterable[Tensor], times: float, kv_head_count: int, inner_ratio: float = 1.0
    ) -> None:
        nonlocal elements, single, raised
        for tensor in tensors:
            elements += times * rank_elements(tensor, parallelism, kv_head_count)
            factor = times * _held_ratio(tensor, weights_format, loading, inner_ratio)
            size = factor * stored(tensor, kv_head_count)
            by_class[tensor.tensor_class] = by_class.get(tensor.tensor_class, 0.0) + size
            if unmixed is not weights_format:
                bits = stored_bits(architecture, weights_format, tensor)
                raised += size * (1.0 - stored_bits(architecture, unmixed, tensor) / bits)
            if tensor.name in _SINGLE_PROJECTIONS:
                single += size

    for group in architecture.groups:
        inner_ratio = _inner_ratio(group, parallelism, loading)
        add(group.tensors, group.count * share, kv_heads(group), inner_ratio)
        for tensor in group.tensors:
            if tensor.tensor_class in weights_format.quantised_classes:
                _, rows, columns = rank_shape(tensor, parallelism, kv_heads(group))
                widest = max(widest, rows * columns * _WIDENED_BYTES)
    ends = end_tensors(architecture, parallelism.pipeline, stage)
    if loading.host_embedding and stage == 0:
        host = sum(stored(tensor, 1) for tensor in architecture.embedding)
        if not (architecture.tied_embeddings and parallelism.pipeline == 1):
            ends = ends[len(architecture.embedding) :]
    add(ends, 1.0, 1)
    if loading.position_bytes:
        tables = architecture.position_elements * loading.position_bytes
        by_class[TensorClass.OTHER] = by_class.get(TensorClass.OTHER, 0.0) + tables
    repeats = architecture.tied_embeddings and weights_format.repeats_table
    total = sum(by_class.values())
    return RankWeights(
        stage=stage,
        layers=layers,
        elements=elements,
        by_class_bytes=MappingProxyType(by_class),
        total_bytes=total,
        total_model_bytes=total_model_bytes(architecture, weights_format),
        host_bytes=host,
        widest_bytes=widest,
        widened_bytes=widest if weights_format.widened_whole else 0.0,
        repeated_bytes=sum(stored(tensor, 1) for tensor in architecture.embedding)
        if repeats
        else 0.0,
        single_bytes=single,
        inward_bytes=max(
            sum(
                stored(tensor, kv_heads(group))
                for tensor in group.tensors
                if tensor.shard is Shard.EXPERT_COLUMN
            )
            for group in architecture.groups
        ),
        mix_log_sigma=abs(log(1.0 - raised / total)) * _MIX_SPREAD_RATIO if raised else 0.0,
    )


def _inner_ratio(group: LayerGroup, parallelism: Parallelism, loading: Loading) -> float:
    """How much wider experts are inside where a rank's part of them is padded [-]."""
    moe, multiple = group.feed_forward, loading.expert_inner_multiple
    if not multiple or not isinstance(moe, MixtureOfExperts):
        return 1.0
    inner = moe.expert_intermediate_size / parallelism.expert_tensor
    return ceil(inner / multiple) * multiple / inner


def _held_ratio(
    tensor: Tensor, weights_format: NumberFormat, loading: Loading, inner_ratio: float
) -> float:
    """What an engine holds of a tensor over what the checkpoint stores of it [-]."""
    multiple = loading.expert_multiple
    if multiple and weights_format.padded_experts and tensor.tensor_class is TensorClass.EXPERT:
        inward = tensor.shard is Shard.EXPERT_COLUMN
        features = tensor.input_features if inward else tensor.output_features
        return inner_ratio * ceil(features / multiple) * multiple / features
    return 1.0


def end_tensors(architecture: ModelArchitecture, pipeline: int, stage: int) -> tuple[Tensor, ...]:
    """Tensors outside the layers that a pipeline stage holds: embedding, head and others."""
    tensors: tuple[Tensor, ...] = ()
    if stage == 0:
        tensors += architecture.embedding + architecture.other
    if stage == pipeline - 1:
        tensors += architecture.head
        embeds = architecture.tied_embeddings or architecture.trained_predictions
        if embeds and pipeline > 1:
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
        return weights_format.of_rows(tensor.input_features).bits(TensorClass.HEAD)
    return weights_format.tensor_bits(tensor)
