"""Memory of inference over the outcomes of choices that a request leaves open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from service.core.left_open import LeftOpen
from service.core.memory.inference.memory import InferenceMemory, inference_memory
from service.core.memory.inference.runtime import RuntimeOverheads
from service.core.memory.otherwise import spread_sizes

#: Sizes, and room, that depend on such choices, besides those that are sums of others.
_SIZES = (
    *("weights_bytes", "kv_cache_bytes", "activations_bytes", "libraries_bytes", "context_bytes"),
    *("graphs_bytes", "slack_bytes", "host_bytes", "kv_cache_budget_bytes", "headroom_bytes"),
)


def over_choices(
    memory: InferenceMemory, left_open: Iterable[LeftOpen], overheads: RuntimeOverheads
) -> InferenceMemory:
    """Memory whose intervals reach over what it is by other outcomes of choices [B].

    Parameters
    ----------
    memory
        What it is by what most people mean.
    left_open
        The choices.
    overheads
        Measured runtime memory by engine.
    """
    others = {
        choice: tuple(
            inference_memory(
                memory.deployment,
                memory.workload,
                replace(memory.serving, **dict(other)),
                overheads,
            )
            for other in choice.others
        )
        for choice in left_open
    }
    if not others:
        return memory
    found = list(others.values())
    sizes = spread_sizes(memory, found, _SIZES)
    return replace(memory, usual=memory, otherwise=others, **sizes)
