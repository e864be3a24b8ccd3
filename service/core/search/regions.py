"""Rows in regions: the footprint of single estimates, for arrays of energy and accelerator time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from service.core.deployment import Region
from service.core.elementwise import FloatArray
from service.core.impacts.footprint import Footprint, footprint
from service.core.impacts.infrastructure import Infrastructure, Making
from service.core.interval import Interval, exact

#: What stands in arrays where nobody knows a figure.
UNKNOWN = exact(np.array(np.nan))


def in_regions(
    it_energy_kwh: Interval,
    accelerator_hours: Interval,
    made: Making,
    regions: Sequence[Region],
    infrastructure: Infrastructure,
    read: Callable[[Footprint], dict[str, Interval | None]],
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
    """
    rows = len(np.atleast_1d(it_energy_kwh.value))
    figures = [
        read(footprint(it_energy_kwh, accelerator_hours, None, region, infrastructure, made))
        for region in regions
    ]
    return {name: _by_row([each[name] or UNKNOWN for each in figures], rows) for name in figures[0]}


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
        *(
            np.array([float(getattr(one, end)) for one in each])[offer]
            for end in ("value", "low", "high")
        )
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
