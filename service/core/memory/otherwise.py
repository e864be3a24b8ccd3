"""Intervals that reach over what people make of choices that a request leaves open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from service.core.elementwise import Number, maximum, minimum, sqrt
from service.core.interval import Interval

#: Sizes of a training run that depend on such choices.
SIZES_OF_TRAINING = (
    *("weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes", "logits_bytes"),
    *("update_bytes", "communication_bytes", "libraries_bytes", "unallocated_bytes"),
    *("runtime_bytes", "total_bytes", "without_optimizer_bytes"),
)


def spread_sizes(
    memory: Any, others: Iterable[Sequence[Any]], names: Iterable[str]
) -> dict[str, Any]:
    """Named sizes of a memory over those of the same deployment otherwise [B]."""
    found = list(others)
    return {
        name: spread_over(
            getattr(memory, name),
            [[getattr(one, name) for one in outcomes] for outcomes in found],
        )
        for name in names
    }


def spread_over(figure: Interval, others: Sequence[Sequence[Interval]]) -> Interval:
    """A size or count whose interval reaches over those under other outcomes of choices.

    Choices are independent of each other: how far the furthest end of each lies beyond the interval
    adds in quadrature, on its own side. The value stays that of what most people mean.

    Parameters
    ----------
    figure
        The figure by what most people mean.
    others
        The same under every other outcome, by choice, in its unit.
    """
    below: Number = 0.0
    above: Number = 0.0
    # Choices together leave nothing below zero where none of them does by itself.
    floor: Number = 0.0
    for outcomes in others:
        lowest = reduce(minimum, (one.low for one in outcomes), figure.low)
        highest = reduce(maximum, (one.high for one in outcomes), figure.high)
        floor = minimum(floor, lowest)
        below = below + (figure.low - lowest) ** 2
        above = above + (highest - figure.high) ** 2
    if not others or (_is_nothing(below) and _is_nothing(above)):
        return figure
    low = maximum(figure.low - sqrt(below), floor)
    return Interval(figure.value, low, figure.high + sqrt(above))


def _is_nothing(squared: Number) -> bool:
    return isinstance(squared, float) and squared == 0.0
