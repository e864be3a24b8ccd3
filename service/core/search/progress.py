"""How far a search is, told to whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

#: Is told the share of a search that is done [-]; what it raises ends the search.
Told: TypeAlias = Callable[[float], None]


def nobody(_done_ratio: float) -> None:
    """Nobody waits."""


def part_of(told: Told, first_ratio: float, last_ratio: float) -> Told:
    """Tells the share of a part as that of the whole, of which it goes from one share to another.

    Parameters
    ----------
    told
        Is told of the whole.
    first_ratio, last_ratio
        Shares of the whole at which the part begins and ends [-].
    """
    return lambda done_ratio: told(first_ratio + (last_ratio - first_ratio) * done_ratio)
