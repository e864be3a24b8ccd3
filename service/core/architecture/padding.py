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
    each query head are filled up alike; fewer of them, which ranks do not divide, are copied: to
    each rank once where ranks share heads evenly, else to each query head. The model itself where
    nothing is added.

    References
    ----------
    AWS, neuronx-distributed, ``parallel_layers/pad.py`` (``get_number_of_extra_heads``),
    ``modules/attention/gqa.py`` of neuronx-distributed-inference, and ``get_qkv_padding`` of
    Transformers NeuronX, 2024.
    """
    groups = tuple(_padded(group, ranks) for group in architecture.groups)
    if all(one is group for one, group in zip(groups, architecture.groups, strict=True)):
        return architecture
    return replace(architecture, groups=groups)


def _padded(group: LayerGroup, ranks: int) -> LayerGroup:
    mixer = group.mixer
    if not isinstance(mixer, Attention | LatentAttention):
        return group
    heads = ceil(mixer.query_heads / ranks) * ranks
    tensors = tuple(_widened(tensor, heads, mixer.query_heads) for tensor in mixer.tensors)
    if isinstance(mixer, LatentAttention):
        if heads == mixer.query_heads:
            return group
        return replace(group, mixer=replace(mixer, query_heads=heads, tensors=tensors))
    kv_heads = _copied(mixer.kv_heads, mixer.query_heads, heads, ranks)
    if (heads, kv_heads) == (mixer.query_heads, mixer.kv_heads):
        return group
    tensors = tuple(_widened(one, kv_heads, mixer.kv_heads, kv=True) for one in tensors)
    held = replace(mixer, query_heads=heads, kv_heads=kv_heads, tensors=tensors)
    return replace(group, mixer=held)


def _copied(kv_heads: int, query_heads: int, filled: int, ranks: int) -> int:
    """Heads of keys and values as they are held, with copies, beside so many filled up queries."""
    if kv_heads % ranks == 0:
        return kv_heads
    if kv_heads == query_heads:
        return filled
    shared = query_heads % ranks == 0 or (filled - query_heads) % kv_heads == 0
    if ranks % kv_heads == 0 and shared:
        return ranks
    if filled * kv_heads == query_heads * ranks:
        # All queries of a rank share a head.
        return max(kv_heads, ranks)
    return filled


def _widened(tensor: Tensor, heads: int, before: int, *, kv: bool = False) -> Tensor:
    """A tensor with the outputs or inputs of more heads, where it has any by the head."""
    if tensor.tensor_class not in (TensorClass.ATTENTION, TensorClass.BIAS):
        return tensor
    if tensor.shard is (Shard.KV_HEADS if kv else Shard.COLUMN):
        return replace(tensor, output_features=tensor.output_features // before * heads)
    if tensor.shard is Shard.ROW and not kv:
        return replace(tensor, input_features=tensor.input_features // before * heads)
    return tensor
