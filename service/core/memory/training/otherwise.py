"""Intervals that reach over what people make of choices that a request leaves open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from service.core.elementwise import Number, maximum, minimum, sqrt
from service.core.interval import Interval

#: Sizes of a training run that depend on such choices.
_SIZES = (
    *("weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes", "logits_bytes"),
    *("update_bytes", "communication_bytes", "libraries_bytes", "unallocated_bytes"),
    *("runtime_bytes", "total_bytes", "without_optimizer_bytes"),
)


def spread_sizes(memory: Any, others: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """Sizes of a `TrainingMemory` over those of the same run otherwise, by name [B]."""
    found = list(others)
    return {
        name: spread_over(
            getattr(memory, name),
            [[getattr(one, name).value for one in outcomes] for outcomes in found],
        )
        for name in _SIZES
    }


def spread_over(figure: Interval, others: Sequence[Sequence[Number]]) -> Interval:
    """A size or count whose interval reaches over its values under other outcomes of choices.

    Choices are independent of each other and of what is uncertain anyway: how far the furthest
    outcome of each lies off adds in quadrature, on its own side. The value stays that of what most
    people mean.

    Parameters
    ----------
    figure
        The figure by what most people mean.
    others
        Its value under every other outcome, by choice, in its unit.
    """
    value = figure.value
    below: Number = 0.0
    above: Number = 0.0
    for outcomes in others:
        below = below + (value - reduce(minimum, outcomes, value)) ** 2
        above = above + (reduce(maximum, outcomes, value) - value) ** 2
    if not others or (_is_nothing(below) and _is_nothing(above)):
        return figure
    low = value - sqrt((value - figure.low) ** 2 + below)
    # Sizes and counts are never below zero, however many choices are left open.
    return Interval(value, maximum(low, 0.0), value + sqrt((figure.high - value) ** 2 + above))


def _is_nothing(squared: Number) -> bool:
    return isinstance(squared, float) and squared == 0.0
