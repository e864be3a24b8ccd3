"""Figures whose intervals reach over the outcomes of choices that a request leaves open."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

from service.core.interval import Interval
from service.core.lightweight import computed_once
from service.core.memory.otherwise import spread_over

if TYPE_CHECKING:
    from functools import cached_property

    from service.core.memory.inference.memory import InferenceMemory


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
        return spread_over(usual, [[getattr(one, name) for one in outcomes] for outcomes in found])

    return computed_once(figure)
