"""How reliable a figure is, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from service.catalog.entries.entry import Entry
from service.core.elementwise import finite
from service.core.impacts.footprint import Footprint
from service.core.interval import Interval
from service.estimation.impacts.answers import Confidence, Level

#: Upper over lower end of the 90 % interval up to which a figure counts as sure, and as rough.
_SURE_WIDTH = 1.6
_ROUGH_WIDTH = 4.0

#: Factors that figures of a footprint rest on beside energy and time, by the figure.
_FACTORS: Mapping[str, tuple[str, ...]] = {
    "operational_location_gco2e": ("grid_gco2e_per_kwh", "pue_ratio"),
    "operational_market_gco2e": ("market_gco2e_per_kwh",),
    "marginal_signal_gco2e": ("marginal_gco2e_per_kwh",),
    "embodied_gco2e": ("embodied_kgco2e",),
    "water_on_site_l": ("wue_l_per_kwh",),
    "water_off_site_l": ("ewif_l_per_kwh", "pue_ratio"),
    "water_stress_weighted_l": ("water_stress_ratio",),
    "e_waste_kg": ("mass_kg", "server_mass_kg"),
    "primary_energy_mj": ("primary_energy_mj_per_kwh",),
    "abiotic_depletion_kgsbeq": ("adpe_kgsbeq_per_kwh",),
}


def judged(interval: Interval | None, doubts: Iterable[str] = ()) -> Confidence:
    """Confidence in one figure.

    Parameters
    ----------
    interval
        The figure, None if unknown.
    doubts
        What it rests on that nobody measured; any of them makes the confidence low.
    """
    if interval is None:
        return {
            "level": "unknown",
            "reason": "a factor that it needs is not known; it is null, not zero",
        }
    named = "; ".join(doubts)
    width = interval.high / interval.low if interval.low > 0.0 else float("inf")
    span = (
        f"the 90 % interval spans a factor of {width:.3g}"
        if finite(width)
        else "the 90 % interval reaches down to zero"
    )
    if interval.high <= 0.0:
        span = "nothing is emitted or used"
        width = 1.0
    level: Level = "high" if width <= _SURE_WIDTH else "medium" if width <= _ROUGH_WIDTH else "low"
    if named:
        return {"level": "low", "reason": f"{named}; {span}"}
    return {"level": level, "reason": span}


def footprint_confidence(result: Footprint, entries: Iterable[Entry[Any]]) -> dict[str, Confidence]:
    """Confidence in every figure of a footprint, by the figure's name.

    Of two entries that state the same factor the later one counts.
    """
    kinds = {name: origin.kind for entry in entries for name, origin in entry.origins.items()}
    found = {
        "it_energy_kwh": judged(result.it_energy_kwh),
        "facility_energy_kwh": judged(result.facility_energy_kwh, _doubts(("pue_ratio",), kinds)),
    }
    for name, factors in _FACTORS.items():
        found[name] = judged(getattr(result, name), _doubts(factors, kinds))
    return found


def _doubts(factors: Iterable[str], kinds: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        f"{name} is assumed, not published" for name in factors if kinds.get(name) == "assumed"
    )
