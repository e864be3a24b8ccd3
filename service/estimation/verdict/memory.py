"""The memory of one accelerator, in parts that add up to all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Parts of an estimate of inference and of training, in the order in which they are drawn: their
#: key, the figure, and what they are called.
_PARTS = (
    ("weights", "weights_bytes", "Weights"),
    ("gradients", "gradients_bytes", "Gradients"),
    ("optimizer", "optimizer_bytes", "Optimizer states"),
    ("cache", "kv_cache_bytes", "KV cache"),
    ("activations", "activations_bytes", "Working memory"),
    ("logits", "logits_bytes", "Logits"),
    ("runtime", "runtime_bytes", "Engine and driver"),
)
#: Less than this is rounding [B].
_NOTHING_BYTES = 1e6


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an accelerator's memory: its key, what it is called, and its size [B]."""

    id: str
    name: str
    size_bytes: float


def memory_parts(memory: Mapping[str, Any]) -> tuple[Part, ...]:
    """What is used, what is free, and what is kept back, which is the capacity together.

    Free is what more requests, or larger batches, can take. Engines leave a share of the memory
    alone, which is kept back. Without room the parts are more than the capacity, and none is free.

    Parameters
    ----------
    memory
        Of an estimate of inference or of training.
    """
    used = [
        Part(id_, name, float(memory[figure]["value"]))
        for id_, figure, name in _PARTS
        if figure in memory
    ]
    total = float(memory["total_bytes"]["value"])
    rest = total - sum(part.size_bytes for part in used)
    free = max(float(memory["headroom_bytes"]["value"]), 0.0)
    kept = max(float(memory["capacity_bytes"]) - total - free, 0.0)
    ends = (
        Part("rest", "Other", rest),
        Part("free", "Free", free),
        Part("kept", "Kept back", kept),
    )
    return tuple(part for part in (*used, *ends) if part.size_bytes > _NOTHING_BYTES)
