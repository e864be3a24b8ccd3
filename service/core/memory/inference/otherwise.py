"""Memory whose ranges reach over what it is by other releases of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from service.core.memory.inference.memory import InferenceMemory
from service.core.otherwise import given, reaching_figures

#: Figures of memory, and those that follow from them.
_PARTS = (
    *("weights_bytes", "kv_cache_bytes", "activations_bytes", "libraries_bytes"),
    *("context_bytes", "graphs_bytes", "slack_bytes", "host_bytes"),
    *("headroom_bytes", "kv_cache_budget_bytes"),
)
_FOLLOWING = (
    *("runtime_bytes", "total_bytes", "allocated_bytes", "reserved_bytes", "process_bytes"),
    *("kv_cache_capacity_tokens", "max_concurrency", "max_context_tokens"),
)


def reaching_memory(memory: InferenceMemory, others: Sequence[InferenceMemory]) -> InferenceMemory:
    """The memory of a deployment over that by other releases; its values stay."""
    if not others:
        return memory
    parts = reaching_figures(memory, others, _PARTS)
    return given(replace(memory, **parts), reaching_figures(memory, others, _FOLLOWING))
