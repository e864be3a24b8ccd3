"""Attention heads that are added so that tensor parallelism divides them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import ceil

from service.core.architecture.model import (
    Attention,
    LatentAttention,
    LayerGroup,
    ModelArchitecture,
)
from service.core.architecture.tensors import Shard, Tensor, TensorClass


@lru_cache(maxsize=256)
def with_padded_heads(architecture: ModelArchitecture, ranks: int) -> ModelArchitecture:
    """A model as an engine holds it that adds heads of zeros until ``ranks`` divide them.

    Query heads are filled up to the next multiple of the ranks. Keys and values with a head for
    each query head are filled up alike; fewer of them are copied to the ranks, as in
    :func:`service.core.architecture.sharding.rank_shape`. The model itself where nothing is added.

    References
    ----------
    AWS, neuronx-distributed, ``parallel_layers/pad.py`` (``get_number_of_extra_heads``) and
    ``modules/attention/gqa.py`` of neuronx-distributed-inference, 2024.
    """
    if all(heads % ranks == 0 for heads in architecture.query_head_counts):
        return architecture
    return replace(
        architecture, groups=tuple(_padded(group, ranks) for group in architecture.groups)
    )


def _padded(group: LayerGroup, ranks: int) -> LayerGroup:
    mixer = group.mixer
    if not isinstance(mixer, Attention | LatentAttention):
        return group
    heads = ceil(mixer.query_heads / ranks) * ranks
    tensors = tuple(_widened(tensor, heads, mixer.query_heads) for tensor in mixer.tensors)
    if isinstance(mixer, Attention) and mixer.kv_heads == mixer.query_heads:
        kv_tensors = tuple(_widened(one, heads, mixer.query_heads, kv=True) for one in tensors)
        every = replace(mixer, query_heads=heads, kv_heads=heads, tensors=kv_tensors)
        return replace(group, mixer=every)
    return replace(group, mixer=replace(mixer, query_heads=heads, tensors=tensors))


def _widened(tensor: Tensor, heads: int, before: int, *, kv: bool = False) -> Tensor:
    """A tensor with the outputs or inputs of more heads, where it has any by the head."""
    if tensor.tensor_class not in (TensorClass.ATTENTION, TensorClass.BIAS):
        return tensor
    if tensor.shard is (Shard.KV_HEADS if kv else Shard.COLUMN):
        return replace(tensor, output_features=tensor.output_features // before * heads)
    if tensor.shard is Shard.ROW and not kv:
        return replace(tensor, input_features=tensor.input_features // before * heads)
    return tensor
