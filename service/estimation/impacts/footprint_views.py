"""Footprints as they go over the wire, for one request, a task, a year or any other basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from service.core.deployment import Accelerator
from service.core.elementwise import finite, plain
from service.core.impacts.footprint import Footprint
from service.core.impacts.waste import Waste, waste
from service.core.interval import Interval, independent_sum, product, scale
from service.core.platform import share_of
from service.estimation import answers
from service.estimation.answers import figure, scaled_figure
from service.estimation.detail import WHOLE, Detail
from service.estimation.impacts.answers import (
    Carbon,
    DetailedImpact,
    EmbodiedParts,
    Impact,
    WasteStreams,
    Water,
)

#: Writes a footprint times a count of whatever it is the footprint of.
Basis: TypeAlias = Callable[[float], Impact]
DetailedBasis: TypeAlias = Callable[[float], DetailedImpact]

_GRAMS = 1000.0


Numbers: TypeAlias = tuple[float, float, float]

#: Figures of a footprint that are always written, and those of its breakdown.
_FIGURES = (
    "facility_energy_kwh",
    "operational_location_gco2e",
    "operational_market_gco2e",
    "embodied_gco2e",
    "total_location_gco2e",
    "water_total_l",
)
_BREAKDOWN = (
    "it_energy_kwh",
    "accelerator_hours",
    "marginal_signal_gco2e",
    "water_on_site_l",
    "water_off_site_l",
    "water_stress_weighted_l",
    "e_waste_kg",
    "primary_energy_mj",
    "primary_energy_electricity_mj",
    "abiotic_depletion_kgsbeq",
    "abiotic_depletion_hardware_kgsbeq",
)


def basis(result: Footprint, *beside: Footprint, detail: Detail = WHOLE) -> Basis:
    """The footprint of one, ready to be written for any number of them.

    Numbers are taken out of the intervals once, as most footprints are written several times.
    With others ``beside`` it, the footprint of all.
    """
    names = (*_FIGURES, *_BREAKDOWN) if detail.has("impacts.breakdown") else _FIGURES
    held = {name: _numbers(_total(name, (result, *beside))) for name in names}

    def times(count: float) -> Impact:
        amount = {name: _written(numbers, count) for name, numbers in held.items()}
        carbon: Carbon = {
            "operational_location_gco2e": amount["operational_location_gco2e"],
            "operational_market_gco2e": amount["operational_market_gco2e"],
            "embodied_gco2e": amount["embodied_gco2e"],
            "total_gco2e": amount["total_location_gco2e"],
        }
        water: Water = {"total_l": amount["water_total_l"]}
        if not detail.has("impacts.breakdown"):
            return {
                "facility_energy_kwh": amount["facility_energy_kwh"],
                "carbon": carbon,
                "water": water,
            }
        return {
            "it_energy_kwh": amount["it_energy_kwh"],
            "facility_energy_kwh": amount["facility_energy_kwh"],
            "accelerator_hours": amount["accelerator_hours"],
            "carbon": {**carbon, "marginal_signal_gco2e": amount["marginal_signal_gco2e"]},
            "water": {
                "on_site_l": amount["water_on_site_l"],
                "off_site_l": amount["water_off_site_l"],
                **water,
                "stress_weighted_l": amount["water_stress_weighted_l"],
            },
            "e_waste_kg": amount["e_waste_kg"],
            "primary_energy_mj": amount["primary_energy_mj"],
            "primary_energy_electricity_mj": amount["primary_energy_electricity_mj"],
            "abiotic_depletion_kgsbeq": amount["abiotic_depletion_kgsbeq"],
            "abiotic_depletion_hardware_kgsbeq": amount["abiotic_depletion_hardware_kgsbeq"],
        }

    return times


def _total(name: str, results: Sequence[Footprint]) -> Interval | None:
    """A figure of all footprints together; None where one of them has none."""
    known = [found for each in results if (found := getattr(each, name)) is not None]
    if len(known) < len(results):
        return None
    return known[0] if len(known) == 1 else independent_sum(known)


def detailed_basis(
    result: Footprint,
    accelerator: Accelerator | None,
    land_m2_years: Interval | None,
    detail: Detail,
) -> DetailedBasis:
    """The same with embodied carbon by part, waste by stream, and land, where parts are told."""
    plain = basis(result, detail=detail)
    if not detail.has("impacts.breakdown"):
        # Without its parts, a detailed footprint is a plain one.
        return cast("DetailedBasis", plain)
    embodied = _embodied_parts(result, accelerator)
    streams = None
    if accelerator is not None and result.accelerator_hours is not None:
        streams = waste(result.accelerator_hours, accelerator, result.infrastructure)
    land = _numbers(land_m2_years)

    def times(count: float) -> DetailedImpact:
        return {
            **plain(count),
            "embodied_parts": None if embodied is None else embodied(count),
            "e_waste_streams": None if streams is None else _streams(streams, count),
            "land_m2_years": _written(land, count),
        }

    return times


def _embodied_parts(
    result: Footprint, accelerator: Accelerator | None
) -> Callable[[float], EmbodiedParts] | None:
    worn = result.worn_ratio
    if worn is None or accelerator is None:
        return None
    around, platform = result.infrastructure, accelerator.platform
    made = None if platform.whole_ratio else accelerator.embodied_kgco2e
    machine = share_of(platform.embodied_kgco2e, platform)
    if made is None and machine is None:
        return None

    def times(count: float) -> EmbodiedParts:
        def grams(part: Interval | None) -> answers.Interval | None:
            return (
                None if part is None else scaled_figure(scale(product(worn, part), _GRAMS), count)
            )

        return {
            "accelerators_gco2e": grams(made),
            "servers_gco2e": grams(machine),
            "added_memory_gco2e": grams(around.memory_kgco2e),
        }

    return times


def _streams(found: Waste, count: float) -> WasteStreams:
    def mass(of: Interval) -> answers.Interval:
        return figure(scale(of, count))

    return {
        "accelerators_kg": mass(found.accelerators_kg),
        "servers_kg": mass(found.servers_kg),
        "boards_kg": scaled_figure(found.boards_kg, count),
        "batteries_kg": scaled_figure(found.batteries_kg, count),
        "other_kg": scaled_figure(found.other_kg, count),
        "collected_kg": scaled_figure(found.collected_kg, count),
        "uncollected_kg": scaled_figure(found.uncollected_kg, count),
        "avoided_kg": mass(found.avoided_kg),
        "treatment_gco2e": None
        if found.treatment_kgco2e is None
        else scaled_figure(scale(found.treatment_kgco2e, _GRAMS), count),
    }


def _written(numbers: Numbers | None, count: float) -> answers.Interval | None:
    if numbers is None:
        return None
    value, low, high = numbers
    return {"value": value * count, "low": low * count, "high": high * count}


def _numbers(interval: Interval | None) -> Numbers | None:
    """Value, low and high; None where they are unknown or without bound."""
    if interval is None or not finite(interval.high):
        return None
    return plain(interval.value), plain(interval.low), plain(interval.high)
