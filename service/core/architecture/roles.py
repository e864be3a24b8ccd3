"""What matrices do in their layers, whatever their families call them."""

from __future__ import annotations

from service.core.architecture.tensors import Shard, Tensor, TensorClass

_FEED_FORWARD = frozenset({TensorClass.DENSE_FFN, TensorClass.EXPERT, TensorClass.SHARED_EXPERT})
#: What families call a projection of values.
_VALUE_PROJECTIONS = frozenset(
    {"v_proj", "value", "v", "v_lin", "self_attn.v_proj", "cross_attn.v_proj"}
)


def role(tensor: Tensor) -> str:
    """What a matrix does in its layer, under the name that most families give it.

    Files of ggml name tensors by that, whatever the family calls them.
    """
    if tensor.tensor_class in _FEED_FORWARD:
        return "down_proj" if tensor.shard in (Shard.ROW, Shard.EXPERT_ROW) else "up_proj"
    if tensor.tensor_class is TensorClass.ATTENTION:
        if tensor.shard is Shard.ROW:
            return "o_proj"
        return "v_proj" if tensor.name in _VALUE_PROJECTIONS else tensor.name
    return tensor.name
