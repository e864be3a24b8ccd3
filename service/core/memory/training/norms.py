"""What norms of a layer keep, and whether one norm serves both parts of a layer."""

from __future__ import annotations

from service.core.architecture.model import LayerGroup
from service.core.architecture.tensors import TensorClass
from service.core.memory.training.adapters import is_trained_whole
from service.core.memory.training.settings import TrainingSettings

_WIDE = 4.0  # bytes of an element in 32 bit


def norms_bytes(
    group: LayerGroup, hidden: float, settings: TrainingSettings, width: float
) -> float:
    """Bytes per token that a layer's norms keep.

    A fused norm keeps its input. One of root mean squares that is written out in PyTorch keeps a
    32-bit copy of it and, for the gradient of its weight, what it made; norms with a bias are
    PyTorch's own, which is fused, as is one without a weight, of which each part has one.
    """
    names = {tensor.name for tensor in group.tensors}
    norms = [
        tensor
        for tensor in group.tensors
        if tensor.tensor_class is TensorClass.NORM and tensor.output_features == hidden
    ]
    if not norms:
        parts = sum(part is not None for part in (group.mixer, group.feed_forward))
        return parts * width * hidden
    kept = 0.0
    for norm in norms:
        if settings.fused_kernels or f"{norm.name}.bias" in names:
            kept += width * hidden
        else:
            kept += (_WIDE + (width if is_trained_whole(norm, settings) else 0.0)) * hidden
    return kept


def is_parallel(group: LayerGroup, hidden: float) -> bool:
    """Whether both parts of a layer read what one norm makes (GPT-J, Phi, Falcon, Cohere)."""
    widths = [norm.output_features for norm in group.norms if not norm.name.endswith(".bias")]
    both = group.mixer is not None and group.feed_forward is not None
    return both and widths == [hidden]
