"""Rows in regions: the footprint of single estimates, for arrays of energy and accelerator time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from service.core.deployment import Accelerator, Region
from service.core.elementwise import Truth, where
from service.core.impacts.footprint import Footprint, footprint
from service.core.impacts.infrastructure import Infrastructure, Making
from service.core.interval import Interval, exact
from service.core.platform import Site
from service.core.search.rows import picked

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
    site: Site | None = None,
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
    site
        PUE and WUE of where each row's machines usually stand, for regions that state none.
    """
    rows = len(np.atleast_1d(it_energy_kwh.value))
    each = np.repeat(np.arange(rows), len(regions))
    return in_places(
        picked(it_energy_kwh, each),
        picked(accelerator_hours, each),
        picked(made, each),
        at_places(stacked(regions), np.tile(np.arange(len(regions)), rows)),
        infrastructure,
        read,
        picked(site, each),
    )


def in_places(
    it_energy_kwh: Interval,
    accelerator_hours: Interval,
    made: Making,
    places: Region,
    infrastructure: Infrastructure,
    read: Callable[[Footprint], dict[str, Interval | None]],
    site: Site | None = None,
) -> dict[str, Interval]:
    """Figures of footprints of rows that each stand in a place of their own.

    Parameters as for :func:`in_regions`, but for ``places``, with an element a row.
    """
    usual = in_usual_site(places, site)
    found = footprint(it_energy_kwh, accelerator_hours, None, usual, infrastructure, made)
    rows = np.shape(it_energy_kwh.value)
    return {name: _filled(figure or UNKNOWN, rows) for name, figure in read(found).items()}


def _filled(figure: Interval, rows: tuple[int, ...]) -> Interval:
    """A figure with an element a row, even where it is the same for all of them."""
    return Interval(*(np.broadcast_to(getattr(figure, end), rows) for end in _ENDS))


def in_usual_site(region: Region, site: Site | None) -> Region:
    """A region, or a stack of them, with PUE and WUE of the usual site where it states none."""
    if site is None or not np.any(region.pue_stood_in | region.wue_stood_in):
        return region
    return replace(
        region,
        pue_ratio=_either(region.pue_stood_in, site.pue_ratio, region.pue_ratio),
        wue_l_per_kwh=_either(
            region.wue_stood_in, site.wue_l_per_kwh or UNKNOWN, region.wue_l_per_kwh or UNKNOWN
        ),
    )


def _either(first: Truth, one: Interval, other: Interval) -> Interval:
    """One figure or another, element by element."""
    pairs = ((getattr(one, end), getattr(other, end)) for end in _ENDS)
    return Interval(*(where(first, *pair) for pair in pairs))


def stacked(regions: Sequence[Region]) -> Region:
    """Regions as one, with arrays of an element a region; NaN where unknown.

    Of the figures that footprints of operation by location follow from; the others are the first's.
    """

    def column(name: str) -> Interval:
        known = [getattr(region, name) or UNKNOWN for region in regions]
        return Interval(*(np.array([float(getattr(one, end)) for one in known]) for end in _ENDS))

    return replace(
        regions[0],
        grid_gco2e_per_kwh=column("grid_gco2e_per_kwh"),
        pue_ratio=column("pue_ratio"),
        wue_l_per_kwh=column("wue_l_per_kwh"),
        ewif_l_per_kwh=column("ewif_l_per_kwh"),
        water_stress_ratio=column("water_stress_ratio"),
        pue_stood_in=np.array([region.pue_stood_in for region in regions]),
        wue_stood_in=np.array([region.wue_stood_in for region in regions]),
    )


def at_places(regions: Region, which: NDArray[np.intp]) -> Region:
    """Some regions of a stack, in the order of the given positions; as often as they are given."""
    return replace(
        regions,
        **{
            name: picked(getattr(regions, name), which)
            for name in (
                "grid_gco2e_per_kwh",
                "pue_ratio",
                "wue_l_per_kwh",
                "ewif_l_per_kwh",
                "water_stress_ratio",
                "pue_stood_in",
                "wue_stood_in",
            )
        },
    )


def scarce_water(regions: Sequence[Region]) -> NDArray[np.bool_]:
    """In which regions water is scarce, or may be as nobody publishes its stress."""
    stress = [region.water_stress_ratio for region in regions]
    return np.array([one is None or float(one.value) >= _SCARCE_RATIO for one in stress])


def site_of_rows(accelerators: Sequence[Accelerator], offer: NDArray[np.intp]) -> Site:
    """The site in which the machine of each row's accelerator usually stands."""
    sites = [accelerator.platform.site for accelerator in accelerators]
    return Site(
        _of_offers([one.pue_ratio for one in sites], offer),
        _of_offers([one.wue_l_per_kwh or UNKNOWN for one in sites], offer),
    )


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
    embodied = _of_offers([one or UNKNOWN for one in embodied_kgco2e], offer)
    return Making(embodied, None, None, None, infrastructure.service_hours())


def _of_offers(figures: Sequence[Interval], offer: NDArray[np.intp]) -> Interval:
    """Figures of offers as those of the rows that are made of them."""
    return Interval(
        *(np.array([float(getattr(one, end)) for one in figures])[offer] for end in _ENDS)
    )
