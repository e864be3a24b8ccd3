"""Ranges of figures that depend on a choice which nobody told, such as the release of an engine.

The value stays that of the usual choice. A 90 % interval over all cases leaves out one in twenty at
each end, so that it ends where as many are left of those in which another choice is made: of a
choice that one case of four makes, one in five; of one that half of them make, one in ten. Of one
that a tenth of them make or fewer, half at least are left out; such a choice moves no end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Generic, TypeVar

from service.core.elementwise import maximum, minimum
from service.core.interval import Z_90, Interval
from service.core.lightweight import lightweight

Computed = TypeVar("Computed")
Derived = TypeVar("Derived")

#: How many cases a 90 % interval leaves out at each end [-].
_LEFT_OUT_RATIO = 0.05
#: Choices that so many cases make or fewer move no end [-].
RARE_RATIO = 0.1
#: How often another choice is made that is neither rare nor usual, where nobody has counted [-].
NOT_RARE_RATIO = 0.25


@lightweight
class Other(Generic[Computed]):
    """What is found by another choice than the usual one.

    ``share_ratio`` says in how many cases it is made, or one still further from the usual [-].
    """

    found: Computed
    share_ratio: float

    def then(self, compute: Callable[[Computed], Derived]) -> Other[Derived]:
        """What follows from it, by the same choice."""
        return Other(compute(self.found), self.share_ratio)


def reaching(figure: Interval, others: Iterable[Other[Interval]]) -> Interval:
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
        if other.share_ratio <= RARE_RATIO:
            continue
        part = part_of_spread(other.share_ratio)
        middle = (1.0 - part) * other.found.value
        # By rounding alone an end would lie beyond the other's own where that is its value.
        low = minimum(low, maximum(middle + part * other.found.low, other.found.low))
        high = maximum(high, minimum(middle + part * other.found.high, other.found.high))
    return Interval(figure.value, low, high)


@lru_cache(maxsize=1024)
def part_of_spread(share_ratio: float) -> float:
    """How far the end lies from another choice's value, in half-widths of its own interval [-].

    ``share_ratio`` is in how many cases that choice is made, or one still further off [-].
    """
    return NormalDist().inv_cdf(1.0 - _LEFT_OUT_RATIO / share_ratio) / Z_90


def reaching_figures(
    found: Any, others: Sequence[Other[Any]], names: Iterable[str]
) -> dict[str, Any]:
    """Figures of an estimate, by name, that reach over those of the same by other choices."""
    return {
        name: reaching(
            getattr(found, name),
            [Other(getattr(one.found, name), one.share_ratio) for one in others],
        )
        for name in names
    }


def given(found: Computed, figures: dict[str, Interval]) -> Computed:
    """An estimate with figures that it would compute once from its parts.

    Sums of parts that reach over other choices would reach too far: choices of all parts are one.
    """
    vars(found).update(figures)
    return found
