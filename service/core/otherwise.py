"""Ranges of figures that depend on a choice which nobody told, such as the release of an engine.

The value stays that of the usual choice. Any other is taken to be what runs in one case of four: a
90 % interval over such cases ends where one in five of that choice's own does, which is half as far
from its value as its own 90 % interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from service.core.elementwise import maximum, minimum
from service.core.interval import Interval

#: Quantile of a normal distribution at 80 % over that at 95 %: 0.842 / 1.645.
_PART_OF_SPREAD = 0.512

Computed = TypeVar("Computed")


def reaching(figure: Interval, others: Sequence[Interval]) -> Interval:
    """A figure whose interval reaches over what it is by other choices.

    Parameters
    ----------
    figure
        The figure by the usual choice.
    others
        The same by every other choice, in its unit.
    """
    low, high = figure.low, figure.high
    for other in others:
        middle = (1.0 - _PART_OF_SPREAD) * other.value
        low = minimum(low, middle + _PART_OF_SPREAD * other.low)
        high = maximum(high, middle + _PART_OF_SPREAD * other.high)
    return Interval(figure.value, low, high)


def reaching_figures(found: Any, others: Sequence[Any], names: Iterable[str]) -> dict[str, Any]:
    """Figures of an estimate, by name, that reach over those of the same by other choices."""
    return {
        name: reaching(getattr(found, name), [getattr(one, name) for one in others])
        for name in names
    }


def given(found: Computed, figures: dict[str, Interval]) -> Computed:
    """An estimate with figures that it would compute once from its parts.

    Sums of parts that reach over other choices would reach too far: choices of all parts are one.
    """
    vars(found).update(figures)
    return found
