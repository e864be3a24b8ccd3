"""Figures whose intervals reach over other outcomes of choices that a request leaves open."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

from service.core import otherwise
from service.core.interval import Interval
from service.core.lightweight import computed_once

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
        others = [one for outcomes in memory.otherwise.values() for one in outcomes]
        reached: Interval = otherwise.reaching_figures(memory.usual, others, (name,))[name]
        return reached

    return computed_once(figure)
