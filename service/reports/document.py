"""What a document is made of, whatever it is turned into, and how numbers are written in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from service.estimation import formatting

#: What stands where a figure is not known.
UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; ``weight`` is "plain", "strong", "note" or "code"."""

    text: str
    weight: str = "plain"
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the columns in ``numeric`` are set to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    numeric: tuple[int, ...] = ()
    kind: str = "table"


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a bar chart: how long it is of the longest there may be, and what is beside it."""

    label: str
    ratio: float
    text: str


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar chart, read from its texts as well as from its lengths."""

    bars: tuple[Bar, ...]
    caption: str
    kind: str = "bars"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what follows it; ``level`` 2 for chapters, 3 for parts of them.

    ``new_page`` starts it on a page of its own.
    """

    title: str
    blocks: tuple[Text | Table | Bars, ...]
    level: int = 2
    new_page: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """A document with its title, what it is about in a line, and its sections."""

    title: str
    subtitle: str
    sections: tuple[Section, ...] = field(default_factory=tuple)


def number(value: float | None, unit: str = "") -> str:
    """A number with its unit."""
    if value is None or not isfinite(value):
        return UNKNOWN
    return f"{formatting.number(value)} {unit}".rstrip()


def figure(given: Mapping[str, Any] | None, unit: str, factor: float = 1.0) -> str:
    """An estimated figure with its interval."""
    if given is None:
        return UNKNOWN
    value, low, high = (given[end] * factor for end in ("value", "low", "high"))
    if low == high:
        return number(value, unit)
    return f"{number(value, unit)} ({number(low)} to {number(high)})"


def in_words(given: Mapping[str, Any] | None, words: Callable[[float], str]) -> str:
    """An estimated figure with its interval, each as people say it."""
    if given is None:
        return UNKNOWN
    value, low, high = (words(given[end]) for end in ("value", "low", "high"))
    return value if low == high else f"{value} ({low} to {high})"


def percent(ratio: float | None) -> str:
    """A share in hundredths."""
    return UNKNOWN if ratio is None else f"{number(100.0 * ratio)} %"


def listed(texts: Sequence[str], most: int = 12) -> str:
    """Texts after each other, cut off with a count where they are many."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")


def renamed(document: Document, name: Callable[[str], str]) -> Document:
    """The document with every text as ``name`` puts it, but what is to be copied as it stands."""
    return replace(
        document,
        title=name(document.title),
        subtitle=name(document.subtitle),
        sections=tuple(
            replace(
                section,
                title=name(section.title),
                blocks=tuple(_renamed(block, name) for block in section.blocks),
            )
            for section in document.sections
        ),
    )


def _renamed(block: Text | Table | Bars, name: Callable[[str], str]) -> Text | Table | Bars:
    if isinstance(block, Text):
        return block if block.weight == "code" else replace(block, text=name(block.text))
    if isinstance(block, Table):
        rows = tuple(
            tuple(cell if "://" in cell else name(cell) for cell in row) for row in block.rows
        )
        return replace(block, rows=rows)
    bars = tuple(replace(bar, label=name(bar.label), text=name(bar.text)) for bar in block.bars)
    return replace(block, bars=bars)
