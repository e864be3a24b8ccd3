"""Memory of training over the outcomes of choices that a request leaves open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from service.core.otherwise import NOT_RARE_RATIO, Computed, Other

#: Sizes that depend on such choices.
SIZES = (
    *("weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes", "logits_bytes"),
    *("update_bytes", "communication_bytes", "libraries_bytes", "unallocated_bytes"),
    *("runtime_bytes", "total_bytes", "without_optimizer_bytes"),
)


def others_of(otherwise: Mapping[Any, Iterable[Computed]]) -> list[Other[Computed]]:
    """What is found by other outcomes of each choice, of which none is rare or usual."""
    return [Other(one, NOT_RARE_RATIO) for found in otherwise.values() for one in found]
