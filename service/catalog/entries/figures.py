"""Figures of catalog documents: one number, its interval, its year and the source it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from service.catalog.entries.documents import DocumentInvalid
from service.catalog.entries.specs import Bounds, FigureSpec
from service.core.interval import Interval


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a document. ``low`` and ``high`` bound a 90 % interval, or are both None.

    ``year`` is what the number is about, and None with ``source`` None for numbers that came
    with a request instead of from a document.
    """

    value: float
    low: float | None
    high: float | None
    year: int | None
    source: str | None
    kind: str

    def interval(self, spread_ratio: float = 0.0) -> Interval:
        """The figure as an interval; ``value/(1+spread)…value·(1+spread)`` where none is given."""
        if self.low is None or self.high is None:
            return Interval(
                self.value, self.value / (1.0 + spread_ratio), self.value * (1.0 + spread_ratio)
            )
        return Interval(self.value, self.low, self.high)


_ANY = Bounds(0.0, 1e30)
#: ``date`` and ``price_kind`` are of prices: the day, and whether launch, list or street.
_FIGURE_KEYS = frozenset(
    {"value", "low", "high", "year", "date", "price_kind", "source", "kind", "note"}
)
_MOST_DATED_FIGURES = 200


def read_figure(raw: Any, pointer: str, bounds: Bounds = _ANY) -> Figure:
    """A figure from a plain number or from an object with value, low, high, year and source.

    Raises
    ------
    DocumentInvalid
        If it is neither, out of bounds, or its interval does not hold its value.
    """
    if not isinstance(raw, Mapping):
        return Figure(_number(raw, pointer, bounds), None, None, None, None, "given")
    unknown = sorted(str(key) for key in raw if key not in _FIGURE_KEYS)
    if unknown:
        raise DocumentInvalid(pointer, f"unknown field {unknown[0]!r:.80}")
    if "value" not in raw:
        raise DocumentInvalid(pointer, "a figure needs a value")
    value = _number(raw["value"], f"{pointer}/value", bounds)
    low, high = raw.get("low"), raw.get("high")
    if (low is None) != (high is None):
        raise DocumentInvalid(pointer, "low and high must be given together")
    if low is not None and high is not None:
        low = _number(low, f"{pointer}/low", bounds)
        high = _number(high, f"{pointer}/high", bounds)
        if not low <= value <= high:
            raise DocumentInvalid(pointer, "low ≤ value ≤ high does not hold")
    return Figure(
        value,
        low,
        high,
        _year(raw.get("year"), f"{pointer}/year"),
        _source(raw.get("source"), f"{pointer}/source"),
        str(raw.get("kind", "given"))[:32],
    )


def read_figures(raw: Any, pointer: str, specs: Mapping[str, FigureSpec]) -> dict[str, Figure]:
    """All figures of an object, each a single one; unknown names are refused, nulls left out."""
    return {
        name: read_figure(figure, f"{pointer}/{name}", specs[name].bounds)
        for name, figure in _known(raw, pointer, specs)
    }


def read_dated_figures(
    raw: Any, pointer: str, specs: Mapping[str, FigureSpec], as_of: int | None
) -> dict[str, Figure]:
    """All figures of an object, each the newest of a list of dated ones.

    With ``as_of`` the newest of that year or before; where all are of later years, the earliest,
    whose year tells.
    """
    chosen = {}
    for name, given in _known(raw, pointer, specs):
        listed = given if isinstance(given, (list, tuple)) else [given]
        if len(listed) > _MOST_DATED_FIGURES:
            raise DocumentInvalid(f"{pointer}/{name}", f"more than {_MOST_DATED_FIGURES} figures")
        figures = [
            read_figure(
                item, _item_pointer(given, f"{pointer}/{name}", position), specs[name].bounds
            )
            for position, item in enumerate(listed)
        ]
        if figures:
            chosen[name] = _nearest(figures, as_of)
    return chosen


def _nearest(figures: list[Figure], as_of: int | None) -> Figure:
    """The figure of the latest year, the last listed among equals; undated ones are current."""
    if as_of is not None:
        earlier = [item for item in figures if item.year is None or item.year <= as_of]
        if not earlier:
            return min(figures, key=_recency)
        figures = earlier
    newest = figures[0]
    for figure in figures:
        if _recency(figure) >= _recency(newest):
            newest = figure
    return newest


def _recency(figure: Figure) -> float:
    return float("inf") if figure.year is None else figure.year


def _item_pointer(given: Any, pointer: str, position: int) -> str:
    return f"{pointer}/{position}" if isinstance(given, (list, tuple)) else pointer


def _known(raw: Any, pointer: str, specs: Mapping[str, FigureSpec]) -> list[tuple[str, Any]]:
    if not isinstance(raw, Mapping):
        raise DocumentInvalid(pointer, "must be an object of figures")
    for name in raw:
        if name not in specs:
            raise DocumentInvalid(pointer, f"unknown figure {name!r:.80}")
    return [(name, figure) for name, figure in raw.items() if figure is not None]


def _number(raw: Any, pointer: str, bounds: Bounds) -> float:
    if isinstance(raw, bool) or not isinstance(raw, (int, float)):
        raise DocumentInvalid(pointer, "must be a number")
    try:
        number = float(raw)
    except OverflowError:
        number = float("inf")
    if not isfinite(number):
        raise DocumentInvalid(pointer, "must be a finite number")
    if not bounds.least <= number <= bounds.most:
        raise DocumentInvalid(pointer, f"must be between {bounds.least:g} and {bounds.most:g}")
    return number


def _year(raw: Any, pointer: str) -> int | None:
    if raw is None:
        return None
    if isinstance(raw, bool) or not isinstance(raw, int) or not 1900 <= raw <= 2200:
        raise DocumentInvalid(pointer, "must be a year")
    return raw


def _source(raw: Any, pointer: str) -> str | None:
    if raw is not None and not isinstance(raw, str):
        raise DocumentInvalid(pointer, "must be the id of a source")
    return raw
