"""Rows in regions: the footprint of single estimates, for arrays of energy and accelerator time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from service.core.deployment import Accelerator, Region
from service.core.elementwise import FloatArray
from service.core.impacts.footprint import Footprint, footprint
from service.core.impacts.infrastructure import Infrastructure, Making
from service.core.interval import Interval, exact

#: Withdrawals of water over supply from which Aqueduct 4.0 calls the stress high.
_SCARCE_RATIO = 0.4
_ENDS = ("value", "low", "high")
#: What stands in arrays where nobody knows a figure.
UNKNOWN = exact(np.array(np.nan))


def in_regions(
    it_energy_kwh: Interval,
    accelerator_hours: Interval,
    made: Making,
    regions: Sequence[Region],
    infrastructure: Infrastructure,
    read: Callable[[Footprint], dict[str, Interval | None]],
    site_pue_ratio: Interval | None = None,
) -> dict[str, Interval]:
    """Figures of footprints by row, then region; NaN where a factor is unknown.

    Parameters
    ----------
    it_energy_kwh, accelerator_hours, made
        Arrays with an element a row: energy [kWh], time of accelerators [h] and their making.
    regions, infrastructure
        Where the rows may run, and what stands around accelerators.
    read
        Takes the figures wanted from the footprint of all rows in a region.
    site_pue_ratio
        PUE of the site in which each row's machines usually stand, for regions that state none.
    """
    rows = len(np.atleast_1d(it_energy_kwh.value))
    figures = [
        read(
            footprint(
                it_energy_kwh,
                accelerator_hours,
                None,
                in_usual_site(region, site_pue_ratio),
                infrastructure,
                made,
            )
        )
        for region in regions
    ]
    return {name: _by_row([each[name] or UNKNOWN for each in figures], rows) for name in figures[0]}


def in_usual_site(region: Region, site_pue_ratio: Interval | None) -> Region:
    """A region with the PUE of the usual site, where it states none of its own."""
    if site_pue_ratio is None or not region.pue_stood_in:
        return region
    return replace(region, pue_ratio=site_pue_ratio)


def scarce_water(regions: Sequence[Region]) -> NDArray[np.bool_]:
    """In which regions water is scarce, or may be as nobody publishes its stress."""
    stress = [region.water_stress_ratio for region in regions]
    return np.array([one is None or float(one.value) >= _SCARCE_RATIO for one in stress])


def site_pue_of_rows(accelerators: Sequence[Accelerator], offer: NDArray[np.intp]) -> Interval:
    """PUE of the site in which the machine of each row's accelerator usually stands [-]."""
    each = [accelerator.platform.site_pue_ratio for accelerator in accelerators]
    return Interval(*(np.array([getattr(one, end) for one in each])[offer] for end in _ENDS))


def making_of_rows(
    embodied_kgco2e: Sequence[Interval | None],
    offer: NDArray[np.intp],
    infrastructure: Infrastructure,
) -> Making:
    """Making of the accelerator of each row, without other materials than carbon.

    Parameters
    ----------
    embodied_kgco2e
        Making of one accelerator with its share of the server, by offer [kgCO2e]; None is NaN.
    offer
        Position of each row's accelerator.
    infrastructure
        Says how long hardware serves.
    """
    each = [one or UNKNOWN for one in embodied_kgco2e]
    embodied = Interval(
        *(np.array([float(getattr(one, end)) for one in each])[offer] for end in _ENDS)
    )
    return Making(embodied, None, None, None, infrastructure.service_hours())


def _by_row(figures: Sequence[Interval], rows: int) -> Interval:
    """Figures of regions, each an array of rows, as one array by row, then region."""

    def joined(end: str) -> FloatArray:
        columns = np.empty((rows, len(figures)))
        for index, one in enumerate(figures):
            columns[:, index] = getattr(one, end)
        return columns.ravel()

    return Interval(joined("value"), joined("low"), joined("high"))
