"""How a field behaves when several values are stacked into one with arrays for figures."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from functools import lru_cache
from typing import Any


class Stacking(Enum):
    """What becomes of a field: declared beside it, so that no figure is ever taken from the first.

    ``FIGURE`` is a number, an interval, a mapping to numbers, or a value made of such: one element
    a value. By what is ``ALIKE`` formulas choose before they compute, so that it must be the same
    for all. A ``NAME`` says what a value is; no formula computes with it.
    """

    FIGURE = "figure"
    ALIKE = "alike"
    NAME = "name"


_KEY = "stacking"

#: Metadata of a dataclass field that declares it.
FIGURE = {_KEY: Stacking.FIGURE}
ALIKE = {_KEY: Stacking.ALIKE}
NAME = {_KEY: Stacking.NAME}


@lru_cache
def declared(kind: Any) -> tuple[tuple[str, Stacking], ...]:
    """Fields of a dataclass in order, with what each declares.

    Raises
    ------
    TypeError
        If a field declares nothing.
    """
    missing = [each.name for each in fields(kind) if _KEY not in each.metadata]
    if missing:
        raise TypeError(f"{kind.__name__} does not declare how to stack {', '.join(missing)}")
    return tuple((each.name, each.metadata[_KEY]) for each in fields(kind))
