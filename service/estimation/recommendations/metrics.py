"""What candidates are compared by: carbon, water, cost and energy in regions, beside the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.impacts.footprint import Footprint
from service.core.impacts.infrastructure import Making
from service.core.interval import Interval, exact, independent_sum
from service.core.search.regions import at_places, in_places, making_of_rows, site_of_rows
from service.core.search.rows import taken
from service.estimation.recommendations.search_context import SearchContext

_WH_PER_KWH = 1000.0


@dataclass(frozen=True, slots=True)
class MetricRows:
    """What configurations are compared by before they stand anywhere, one row each.

    ``sharing`` are those that have to share a machine, ``filled`` the share of memory filled beyond
    the target of headroom [-], ``seconds`` the time that counts [s]; energy of IT equipment and
    accelerator time are those of a unit of work [Wh, h]. ``*_spread`` is the ratio of the upper
    end of an interval to its value [-]. ``beside_usd`` and ``beside_kgco2e`` are what memory beside
    its machine takes to buy and to make, for each accelerator [USD, kgCO2e].
    """

    offer: NDArray[np.intp]
    accelerators: FloatArray
    sharing: NDArray[np.intp]
    filled: FloatArray
    memory_spread: FloatArray
    seconds: FloatArray
    seconds_spread: FloatArray
    it_wh: FloatArray
    it_wh_spread: FloatArray
    accelerator_hours: FloatArray
    accelerator_hours_spread: FloatArray
    beside_usd: FloatArray
    beside_kgco2e: FloatArray

    def taken(self, rows: NDArray[Any]) -> MetricRows:
        """The given rows only."""
        return taken(self, rows)


@dataclass(frozen=True, slots=True)
class ImpactTotals:
    """What rows emit, evaporate, cost and draw for a unit of work, by row, then region.

    Units are g, L, USD and kWh of the facility.
    """

    carbon_g: FloatArray
    water_l: FloatArray
    usd: FloatArray
    facility_kwh: FloatArray


@dataclass(frozen=True, slots=True)
class Units:
    """What figures of a unit of work are multiplied by to become metrics.

    ``carbon`` multiplies grams, ``water`` litres weighted by stress, ``cost`` dollars, ``energy``
    kilowatt-hours of the facility. ``least`` are the smallest amounts of the metrics that make a
    difference, as columns of ``METRICS``.
    """

    carbon: float
    water: float
    cost: float
    energy: float
    least: FloatArray


def metrics_in_places(
    rows: MetricRows,
    usd_per_hour: FloatArray,
    metered_usd_per_kwh: FloatArray,
    region: NDArray[np.intp],
    context: SearchContext,
    units: Units,
) -> tuple[ImpactTotals, FloatArray, FloatArray]:
    """Totals, metrics and spreads of candidates that each stand in a region.

    Parameters
    ----------
    rows, usd_per_hour
        Candidates, and the price of all accelerators of each [USD/h].
    metered_usd_per_kwh
        Price of the facility's electricity that comes on top [USD/kWh].
    region
        Where each stands, by positions in the context.
    context
        The regions, and what stands around accelerators.
    units
        What figures of a unit of work are multiplied by.
    """
    impacts = _impacts(rows, region, context)
    hours = rows.accelerator_hours / rows.accelerators
    facility_kwh = np.asarray(impacts["facility_kwh"].value)
    totals = ImpactTotals(
        carbon_g=np.asarray(impacts["carbon_g"].value),
        water_l=np.asarray(impacts["water_l"].value),
        usd=hours * usd_per_hour + facility_kwh * metered_usd_per_kwh,
        facility_kwh=facility_kwh,
    )
    metrics = (
        rows.filled,
        rows.seconds,
        totals.carbon_g * units.carbon,
        np.asarray(impacts["stressed_l"].value) * units.water,
        totals.usd * units.cost,
        facility_kwh * units.energy,
    )
    spreads = (
        rows.memory_spread,
        rows.seconds_spread,
        _spread(impacts["carbon_g"]),
        _spread(impacts["stressed_l"]),
        # A price is what it is, but not how long it is paid for.
        rows.accelerator_hours_spread,
        _spread(impacts["facility_kwh"]),
    )
    return totals, np.column_stack(metrics), np.column_stack(spreads)


def _impacts(
    rows: MetricRows, region: NDArray[np.intp], context: SearchContext
) -> dict[str, Interval]:
    """Carbon, water and energy of a unit of work, of each row where it stands."""

    def read(one: Footprint) -> dict[str, Interval | None]:
        return {
            "carbon_g": one.total_location_gco2e,
            "water_l": one.water_total_l,
            "stressed_l": one.water_stress_weighted_l,
            "facility_kwh": one.facility_energy_kwh,
        }

    around = context.infrastructure
    kwh = _within_spread(rows.it_wh / _WH_PER_KWH, rows.it_wh_spread)
    hours = _within_spread(rows.accelerator_hours, rows.accelerator_hours_spread)
    made = making_of_rows(context.embodied_kgco2e, rows.offer, around)
    made = with_memory_beside(made, rows.beside_kgco2e)
    site = site_of_rows([entry.value for entry in context.accelerators], rows.offer)
    places = at_places(context.stacked_regions, region)
    return in_places(kwh, hours, made, places, around, read, site)


def with_memory_beside(made: Making, beside_kgco2e: FloatArray) -> Making:
    """Making of each row's accelerator, with that of memory beside its machine [kgCO2e]."""
    if made.embodied_kgco2e is None or not beside_kgco2e.any():
        return made
    both = independent_sum((made.embodied_kgco2e, exact(beside_kgco2e)))
    return replace(made, embodied_kgco2e=both)


def _within_spread(value: FloatArray, spread: FloatArray) -> Interval:
    return Interval(value, value / spread, value * spread)


def _spread(figure: Interval) -> FloatArray:
    """Ratio of the upper end to the value [-]; 1 where that is zero."""
    value, high = np.asarray(figure.value), np.asarray(figure.high)
    ratio: FloatArray = np.divide(high, value, out=np.ones(len(value)), where=value > 0.0)
    return ratio
