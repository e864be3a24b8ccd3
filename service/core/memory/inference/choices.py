"""Memory of inference over the outcomes of choices that a request leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from service.core.memory.inference.memory import InferenceMemory
from service.core.otherwise import Other, reaching_figures

#: Sizes, and room, that depend on such choices, besides those that are sums of others.
_SIZES = (
    *("weights_bytes", "kv_cache_bytes", "activations_bytes", "libraries_bytes", "context_bytes"),
    *("graphs_bytes", "slack_bytes", "host_bytes", "room_bytes", "headroom_bytes"),
)


def over_choices(
    memory: InferenceMemory, others: Mapping[str, Sequence[Other[InferenceMemory]]]
) -> InferenceMemory:
    """Memory whose intervals reach over what it is by other outcomes of choices [B].

    Parameters
    ----------
    memory
        What it is by what most people mean.
    others
        The same by other outcomes, by setting.
    """
    found = [one for outcomes in others.values() for one in outcomes]
    if not found:
        return memory
    sizes = reaching_figures(memory, found, _SIZES)
    return replace(
        memory,
        usual=memory,
        otherwise={setting: tuple(outcomes) for setting, outcomes in others.items()},
        **sizes,
    )
