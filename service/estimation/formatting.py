"""Figures as people read them, the same in pages, charts, reports and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import floor, inf, log10
from typing import Literal

from service.core.tracing import worded

Words = Callable[[float], str]

_BYTES = {"GB": 1e9, "GiB": float(2**30)}


@dataclass(frozen=True, slots=True)
class Units:
    """What people read memory and money in; ``per_usd`` is how much of the currency is 1 USD."""

    memory: Literal["GB", "GiB"] = "GB"
    currency: str = "USD"
    per_usd: float = 1.0


_UNITS: ContextVar[Units] = ContextVar("units", default=Units())  # noqa: B039 - it is frozen


@contextmanager
def shown_in(units: Units) -> Iterator[None]:
    """Writes memory and money in these units, within its block and nowhere else."""
    token = _UNITS.set(units)
    try:
        yield
    finally:
        _UNITS.reset(token)


@worded
def number(value: float) -> str:
    """A number of three digits, thousands apart, or a whole one below a million in full.

    With an exponent if it is very small or very large.
    """
    if value < 0.0:
        return f"\N{MINUS SIGN}{number(-value)}"
    size = value
    if size < 1e6 and value == int(value):
        return f"{value:,.0f}"
    if not 1e-4 <= size < 1e12:
        return f"{value:.3g}"
    places = 2 - floor(log10(size))
    text = f"{round(value, places):,.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def counted(count: float) -> str:
    """A count of three digits, with millions, billions and trillions by name."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{number(count / size)} {word}"
    return number(count)


def gigabytes(size_bytes: float) -> str:
    """Bytes as gigabytes (1e9 bytes) of three digits, or as GiB for those who chose that."""
    value, unit = in_gigabytes(size_bytes)
    return f"{number(value)} {unit}"


def megabytes(size_bytes: float) -> str:
    """Bytes of a file or a body as megabytes (1e6 bytes), or as bytes where there are few."""
    return f"{number(size_bytes / 1e6)} MB" if size_bytes >= 1e5 else f"{size_bytes:,.0f} bytes"


def in_gigabytes(size_bytes: float) -> tuple[float, str]:
    """Bytes as a number of the unit that people read, and that unit."""
    unit = _UNITS.get().memory
    return size_bytes / _BYTES[unit], unit


@worded
def money(usd: float) -> str:
    """An amount of three digits in US dollars, or in the currency that was chosen."""
    value, currency = in_currency(usd)
    return f"{number(float(f'{value:.3g}'))} {currency}"


def in_currency(usd: float) -> tuple[float, str]:
    """US dollars as an amount of the currency that people read, and that currency."""
    units = _UNITS.get()
    return usd * units.per_usd, units.currency


@dataclass(frozen=True, slots=True)
class Scale:
    """Words for the figures of a quantity, in the unit that suits them.

    ``units`` are, from the smallest on: below which figure one suits, its size, and its name.
    """

    units: tuple[tuple[float, float, str], ...]

    def __call__(self, figure: float) -> str:
        """A figure in the unit that suits it."""
        return self.suited(figure)(figure)

    def suited(self, figure: float) -> Words:
        """Words for several figures, in the unit that suits one of them."""
        _, size, unit = next((one for one in self.units if figure < one[0]), self.units[-1])
        return lambda value: f"{number(value / size)} {unit}"


#: Seconds as people read them.
duration = Scale(((1.0, 1e-3, "ms"), (inf, 1.0, "s")))


def range_words(words: Words, value: float, low: float, high: float) -> str:
    """Both ends of a range in the unit of its value, which stands once; empty if they are equal."""
    suited = words.suited(value) if isinstance(words, Scale) else words
    least, most = suited(low), suited(high)
    if least == most:
        return ""
    bare, _, unit = least.partition(" ")
    return f"{bare if most.partition(' ')[2] == unit else least} … {most}"
