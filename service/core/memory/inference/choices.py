"""Memory of inference over the outcomes of choices that a request leaves open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from service.core.deployment import ServingSettings
from service.core.memory.inference.memory import InferenceMemory, inference_memory
from service.core.memory.inference.runtime import RuntimeOverheads
from service.core.memory.otherwise import spread_sizes

#: Sizes, and room, that depend on such choices, besides those that are sums of others.
_SIZES = (
    *("weights_bytes", "kv_cache_bytes", "activations_bytes", "libraries_bytes", "context_bytes"),
    *("graphs_bytes", "slack_bytes", "host_bytes", "kv_cache_budget_bytes", "headroom_bytes"),
)


def over_choices(
    memory: InferenceMemory,
    others: Mapping[str, Iterable[tuple[ServingSettings, RuntimeOverheads]]],
) -> InferenceMemory:
    """Memory whose intervals reach over what it is by other outcomes of choices [B].

    Parameters
    ----------
    memory
        What it is by what most people mean.
    others
        By setting, how engines serve by its other outcomes, with their measured runtime memory.
    """
    found = {
        setting: tuple(
            inference_memory(memory.deployment, memory.workload, serving, overheads)
            for serving, overheads in outcomes
        )
        for setting, outcomes in others.items()
    }
    if not found:
        return memory
    sizes = spread_sizes(memory, found.values(), _SIZES)
    return replace(memory, usual=memory, otherwise=found, **sizes)
