"""Machines over years: how many a growing load needs, and what is bought and retired when."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

#: Copies that rounding of a quotient may add.
_NOTHING = 1e-9


def copies_needed(
    peak_requests_per_s: float, capacity_requests_per_s: float, reserve_ratio: float, spare: int
) -> int:
    """Copies of a deployment that carry a peak with a reserve.

    Parameters
    ----------
    peak_requests_per_s
        Highest rate of requests [1/s]; without any, no copy is needed.
    capacity_requests_per_s
        Highest rate of one copy [1/s], above zero.
    reserve_ratio
        Share of the capacity that stays free at the peak, from 0 to below 1.
    spare
        Copies that stand by in case others fail.
    """
    if peak_requests_per_s <= 0.0:
        return 0
    usable = capacity_requests_per_s * (1.0 - reserve_ratio)
    return max(1, ceil(peak_requests_per_s / usable - _NOTHING)) + spare


def grown(first: float, growth_per_year_ratio: float, years: int) -> float:
    """A figure that grows by the same ratio every year, some years later."""
    return first * float((1.0 + growth_per_year_ratio) ** years)


def present_value(amounts: Sequence[float], discount_per_year_ratio: float) -> float:
    """Value at the start of the first year of amounts that are paid in the middle of each year."""
    factor = 1.0 / (1.0 + discount_per_year_ratio)
    return sum(amount * float(factor ** (year + 0.5)) for year, amount in enumerate(amounts))


@dataclass(frozen=True, slots=True)
class YearOfMachines:
    """What is held in a year.

    ``held`` are ``in_use`` and switched off together. ``retired`` left at the start of the year,
    and ``bought`` came.
    """

    in_use: int
    held: int
    bought: int
    retired: int


def machines_over_years(
    needed: Sequence[int], life_years: int, together: int = 1
) -> tuple[YearOfMachines, ...]:
    """Purchases and retirements that always hold what is needed, and no more than they must.

    Machines are bought at the start of a year, stay for their whole life, and are retired at its
    end; what a smaller need leaves over is kept, switched off, and used again before others are
    bought.

    Parameters
    ----------
    needed
        Machines in use, year by year.
    life_years
        Years that each is kept, at least 1.
    together
        How many are sold as one.
    """
    ages: deque[tuple[int, int]] = deque()
    years = []
    held = 0
    for year, in_use in enumerate(needed):
        retired = 0
        while ages and ages[0][0] + life_years <= year:
            retired += ages.popleft()[1]
        held -= retired
        bought = ceil(max(0, in_use - held) / together) * together
        if bought:
            ages.append((year, bought))
        held += bought
        years.append(YearOfMachines(in_use, held, bought, retired))
    return tuple(years)
