"""Sums and multiples of figures whose errors are alike: what is wrong with one is with all."""

from __future__ import annotations

from collections.abc import Iterable

from service.core.interval import Interval
from service.estimation import answers


def together(parts: Iterable[answers.Interval | None]) -> answers.Interval | None:
    """Sum of figures, end by end; null where one of them is unknown."""
    total: answers.Interval = {"value": 0.0, "low": 0.0, "high": 0.0}
    for part in parts:
        if part is None:
            return None
        total["value"] += part["value"]
        total["low"] += part["low"]
        total["high"] += part["high"]
    return total


def highest(parts: Iterable[answers.Interval | None]) -> answers.Interval | None:
    """The figure with the highest central value; null where one of them is unknown."""
    known = list(parts)
    found = [part for part in known if part is not None]
    return max(found, key=lambda part: part["value"]) if len(found) == len(known) else None


def times(
    figure: answers.Interval | Interval | None, factor: Interval | float
) -> answers.Interval | None:
    """A figure times another whose errors are alike; null if it is unknown."""
    if figure is None:
        return None
    if isinstance(figure, Interval):
        figure = {
            "value": float(figure.value),
            "low": float(figure.low),
            "high": float(figure.high),
        }
    by = factor if isinstance(factor, Interval) else Interval(factor, factor, factor)
    return {
        "value": figure["value"] * float(by.value),
        "low": figure["low"] * float(by.low),
        "high": figure["high"] * float(by.high),
    }
