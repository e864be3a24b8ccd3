"""Bars that compare figures, drawn in the page itself: no script and no picture is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from service.estimation.formatting import number
from service.portal.figures import line


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its label, what it says, and its length and range as shares of the longest."""

    label: str
    text: str
    ratio: float
    low: float
    high: float


def bars(
    counted: Iterable[tuple[str, float, float, float]], words: Callable[[float], str] = number
) -> tuple[Bar, ...]:
    """Bars of figures with their ranges.

    Parameters
    ----------
    counted
        Of each bar its label, value, and the ends of its range.
    words
        How a value is written.
    """
    rows = list(counted)
    longest = max((high for *_, high in rows), default=0.0) or 1.0
    return tuple(
        Bar(label, _told(value, low, high, words), value / longest, low / longest, high / longest)
        for label, value, low, high in rows
    )


def _told(value: float, low: float, high: float, words: Callable[[float], str]) -> str:
    told = line("", {"value": value, "low": low, "high": high}, words)
    return f"{told.value} ({told.interval})" if told.interval else told.value
