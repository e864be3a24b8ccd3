"""Memory of training over the outcomes of choices that a request leaves open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from service.core.memory.training.settings import LeftOpen
from service.core.otherwise import NOT_RARE_RATIO, Computed, Other

#: Sizes that depend on such choices.
SIZES = (
    *("weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes", "logits_bytes"),
    *("update_bytes", "communication_bytes", "libraries_bytes", "unallocated_bytes"),
    *("runtime_bytes", "total_bytes", "without_optimizer_bytes"),
)


def others_of(otherwise: Mapping[LeftOpen, Iterable[Computed]]) -> list[Other[Computed]]:
    """What is found by other outcomes of each choice, none rare or usual where nobody counted."""
    return [
        Other(one, NOT_RARE_RATIO if choice.share_ratio is None else choice.share_ratio)
        for choice, found in otherwise.items()
        for one in found
    ]
