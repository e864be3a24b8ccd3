"""Figures as people read them, the same in pages, charts, reports and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, log10
from typing import Any


def number(value: float) -> str:
    """A number of three digits, thousands apart, or a whole one below a million in full.

    With an exponent if it is very small or very large.
    """
    size = abs(value)
    if size < 1e6 and value == int(value):
        return f"{value:,.0f}"
    if not 1e-4 <= size < 1e12:
        return f"{value:.3g}"
    places = 2 - floor(log10(size))
    text = f"{round(value, places):,.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def gigabytes(size_bytes: float) -> str:
    """Bytes as gigabytes (1e9 bytes) of three digits."""
    return f"{number(size_bytes / 1e9)} GB"


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    if seconds < 1.0:
        return f"{number(seconds * 1e3)} ms"
    return f"{number(seconds)} s"


def deployment_name(echoed: Mapping[str, Any]) -> str:
    """Model, formats and accelerators of an echoed deployment."""
    return (
        f"{echoed['model']} in {echoed['precision']['weights']} on "
        f"{echoed['accelerator_count']} × {echoed['accelerator']}"
    )
