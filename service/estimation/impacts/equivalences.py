"""Everyday things that amount to as much as a footprint."""

from __future__ import annotations

from service.catalog.snapshot import CatalogSnapshot
from service.core.impacts.footprint import Footprint
from service.core.interval import Interval, quotient
from service.estimation.answers import known_figure
from service.estimation.impacts.answers import Equivalence

EQUIVALENCES = "equivalences/default"

#: What is counted, in which unit, of which figure of the footprint, by which yardstick.
_YARDSTICKS = (
    (
        "driving an average passenger car of the United States",
        "km",
        "total_location_gco2e",
        "passenger_car_gco2e_per_km",
    ),
    (
        "electricity of an average home in the United States",
        "years",
        "facility_energy_kwh",
        "home_electricity_kwh_per_year",
    ),
    ("flushing a water-saving toilet", "flushes", "water_total_l", "toilet_flush_l"),
)


def equivalences(result: Footprint, count: float, snapshot: CatalogSnapshot) -> list[Equivalence]:
    """A footprint in things that people know, each with its yardstick and source.

    Parameters
    ----------
    result
        Footprint of one.
    count
        How many of them are compared [-].
    snapshot
        Holds the yardsticks.
    """
    entry = snapshot.calibrations.get(EQUIVALENCES)
    if entry is None:
        return []
    found: list[Equivalence] = []
    for name, unit, attribute, yardstick in _YARDSTICKS:
        figure: Interval | None = getattr(result, attribute)
        measure = entry.value[yardstick]
        source = snapshot.sources[entry.origins[yardstick].source or ""].document
        amount = None if figure is None else quotient(figure, measure)
        found.append(
            {
                "name": name,
                "unit": unit,
                "of": attribute,
                "amount": None
                if amount is None
                else known_figure(
                    Interval(amount.value * count, amount.low * count, amount.high * count)
                ),
                "yardstick": yardstick,
                "yardstick_value": float(measure.value),
                "source": source["title"],
                "url": source["url"],
            }
        )
    return found
