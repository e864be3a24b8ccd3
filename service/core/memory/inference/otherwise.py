"""Memory of inference over the outcomes of choices that a request leaves open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING

from service.core.interval import Interval
from service.core.lightweight import computed_once
from service.core.memory.otherwise import spread_over, spread_sizes

if TYPE_CHECKING:
    from functools import cached_property

    from service.core.memory.inference.memory import InferenceMemory

#: Sizes that depend on such choices.
_SIZES = (
    *("weights_bytes", "kv_cache_bytes", "activations_bytes", "libraries_bytes", "context_bytes"),
    *("graphs_bytes", "slack_bytes", "host_bytes"),
)
#: Room, which may be missing.
_ROOM = ("kv_cache_budget_bytes", "headroom_bytes")


def reaching(compute: Callable[[InferenceMemory], Interval]) -> cached_property[Interval]:
    """Declares a figure made of several parts, whose interval reaches over other outcomes.

    Parts move together with a choice, so that the figure is spread as a whole.
    """

    @wraps(compute)
    def figure(memory: InferenceMemory) -> Interval:
        if memory.usual is None:
            return compute(memory)
        name = compute.__name__
        usual: Interval = getattr(memory.usual, name)
        found = memory.otherwise.values()
        return spread_over(
            usual, [[getattr(one, name).value for one in outcomes] for outcomes in found]
        )

    return computed_once(figure)


def spread_parts(
    usual: InferenceMemory, others: Iterable[Sequence[InferenceMemory]]
) -> dict[str, Any]:
    """Parts of a memory, and the room beside them, over other outcomes of choices [B]."""
    found = list(others)
    parts = spread_sizes(usual, found, _SIZES)
    return parts | spread_sizes(usual, found, _ROOM, signed=True)
