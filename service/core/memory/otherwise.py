"""Intervals that reach over what people make of choices that a request leaves open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from service.core.elementwise import Number, maximum, minimum, sqrt
from service.core.interval import Interval


def spread_sizes(
    memory: Any, others: Iterable[Sequence[Any]], names: Iterable[str], *, signed: bool = False
) -> dict[str, Any]:
    """Named sizes of a memory over those of the same deployment otherwise [B].

    ``signed`` ones may be below zero, as room that is missing is.
    """
    found = list(others)
    return {
        name: spread_over(
            getattr(memory, name),
            [[getattr(one, name).value for one in outcomes] for outcomes in found],
            signed=signed,
        )
        for name in names
    }


def spread_over(
    figure: Interval, others: Sequence[Sequence[Number]], *, signed: bool = False
) -> Interval:
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
    signed
        Whether it may be below zero, which sizes and counts never are.
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
    if not signed:
        low = maximum(low, 0.0)
    return Interval(value, low, value + sqrt((figure.high - value) ** 2 + above))


def _is_nothing(squared: Number) -> bool:
    return isinstance(squared, float) and squared == 0.0
