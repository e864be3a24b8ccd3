"""Candidates in places: what a request costs in carbon, water and money, region by region.

A region enters only as factors of energy and time, so candidates that are beaten wherever they
stand, and places that are beaten whatever runs there, are set aside before the two are combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.core.deployment import Region
from service.core.elementwise import FloatArray
from service.core.interval import Interval


@dataclass(frozen=True, slots=True)
class Places:
    """Factors of regions, one element a region; NaN where a figure is unknown.

    ``carbon_g_per_kwh`` and ``water_l_per_kwh`` are per kWh of IT energy, the building's share
    included once; ``*_spread`` is the ratio of the upper end of an interval to its value [-].
    """

    carbon_g_per_kwh: FloatArray
    carbon_spread: FloatArray
    water_l_per_kwh: FloatArray
    water_spread: FloatArray


def places(regions: Sequence[Region], usual_wue: Interval) -> Places:
    """Factors of regions.

    Parameters
    ----------
    regions
        Places to consider.
    usual_wue
        Water on site where a region's is unknown [L/kWh].

    Returns
    -------
    Places
        In the order given.
    """
    carbon = [_carbon(region) for region in regions]
    water = [_water(region, usual_wue) for region in regions]
    return Places(
        carbon_g_per_kwh=np.array([value for value, _ in carbon]),
        carbon_spread=np.array([spread for _, spread in carbon]),
        water_l_per_kwh=np.array([value for value, _ in water]),
        water_spread=np.array([spread for _, spread in water]),
    )


def unbeaten_places(found: Places) -> NDArray[np.intp]:
    """Places with known factors that no other place beats in both carbon and water."""
    known = np.flatnonzero(np.isfinite(found.carbon_g_per_kwh) & np.isfinite(found.water_l_per_kwh))
    order = known[np.lexsort((found.water_l_per_kwh[known], found.carbon_g_per_kwh[known]))]
    kept: list[int] = []
    least_water = np.inf
    for at in order:
        if found.water_l_per_kwh[at] < least_water:
            kept.append(int(at))
            least_water = float(found.water_l_per_kwh[at])
    return np.array(sorted(kept), dtype=np.intp)


def _carbon(region: Region) -> tuple[float, float]:
    grid = region.grid_gco2e_per_kwh
    if grid is None:
        return float("nan"), float("nan")
    return _product(region.pue_ratio, grid)


def _water(region: Region, usual_wue: Interval) -> tuple[float, float]:
    if region.ewif_l_per_kwh is None:
        return float("nan"), float("nan")
    on_site = region.wue_l_per_kwh or usual_wue
    off_site, spread = _product(region.pue_ratio, region.ewif_l_per_kwh)
    value = on_site.value + off_site
    above = ((on_site.high - on_site.value) ** 2 + (off_site * (spread - 1.0)) ** 2) ** 0.5
    return value, 1.0 + above / value if value > 0.0 else 1.0


def _product(first: Interval, second: Interval) -> tuple[float, float]:
    """Product of two figures and the ratio of its upper end to it."""
    value = first.value * second.value
    if value <= 0.0:
        return value, 1.0
    logs = [np.log(one.high / one.value) for one in (first, second)]
    return value, float(np.exp(np.hypot(*logs)))
