"""Footprints as they go over the wire, for one request, a task, a year or any other basis."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

from service.core.deployment import Accelerator
from service.core.impacts.footprint import Footprint
from service.core.impacts.waste import Waste, waste
from service.core.interval import Interval, product, scale

#: Writes a footprint times a count of whatever it is the footprint of.
Basis = Callable[[float], dict[str, Any]]

_GRAMS = 1000.0


#: Figures of a footprint by group and by the name that they have in an answer.
_ENERGY = {
    "it_energy_kwh": "it_energy_kwh",
    "facility_energy_kwh": "facility_energy_kwh",
    "accelerator_hours": "accelerator_hours",
}
_CARBON = {
    "operational_location_gco2e": "operational_location_gco2e",
    "operational_market_gco2e": "operational_market_gco2e",
    "embodied_gco2e": "embodied_gco2e",
    "total_gco2e": "total_location_gco2e",
    "marginal_signal_gco2e": "marginal_signal_gco2e",
}
_WATER = {
    "on_site_l": "water_on_site_l",
    "off_site_l": "water_off_site_l",
    "total_l": "water_total_l",
    "stress_weighted_l": "water_stress_weighted_l",
}
_MATERIAL = {
    "e_waste_kg": "e_waste_kg",
    "primary_energy_mj": "primary_energy_mj",
    "primary_energy_electricity_mj": "primary_energy_electricity_mj",
    "abiotic_depletion_kgsbeq": "abiotic_depletion_kgsbeq",
    "abiotic_depletion_hardware_kgsbeq": "abiotic_depletion_hardware_kgsbeq",
}


def basis(result: Footprint) -> Basis:
    """The footprint of one, ready to be written for any number of them.

    Numbers are taken out of the intervals once, as most footprints are written five times.
    """
    energy, carbon = _held(result, _ENERGY), _held(result, _CARBON)
    water, material = _held(result, _WATER), _held(result, _MATERIAL)

    def times(count: float) -> dict[str, Any]:
        answer = _scaled(energy, count)
        answer["carbon"] = _scaled(carbon, count)
        answer["water"] = _scaled(water, count)
        answer |= _scaled(material, count)
        return answer

    return times


def detailed_basis(
    result: Footprint, accelerator: Accelerator | None, land_m2_years: Interval | None
) -> Basis:
    """The same with embodied carbon by part, waste by stream, and land."""
    plain = basis(result)
    embodied = _embodied_parts(result, accelerator)
    streams = _streams(
        waste(result.accelerator_hours, accelerator, result.infrastructure)
        if accelerator is not None and result.accelerator_hours is not None
        else None
    )
    land = _numbers(land_m2_years)

    def times(count: float) -> dict[str, Any]:
        return plain(count) | {
            "embodied_parts": None if embodied is None else _scaled(embodied, count),
            "e_waste_streams": None if streams is None else _scaled(streams, count),
            "land_m2_years": _written(land, count),
        }

    return times


Numbers = tuple[float, float, float]


def _embodied_parts(
    result: Footprint, accelerator: Accelerator | None
) -> dict[str, Numbers | None] | None:
    worn = result.worn_ratio
    if worn is None or accelerator is None or accelerator.embodied_kgco2e is None:
        return None
    around = result.infrastructure
    parts = {
        "accelerators_gco2e": accelerator.embodied_kgco2e,
        "servers_gco2e": around.server_embodied_kgco2e,
        "added_memory_gco2e": around.memory_kgco2e,
    }
    return {
        name: None if part is None else _numbers(scale(product(worn, part), _GRAMS))
        for name, part in parts.items()
    }


def _streams(result: Waste | None) -> dict[str, Numbers | None] | None:
    if result is None:
        return None
    return {
        "accelerators_kg": _numbers(result.accelerators_kg),
        "servers_kg": _numbers(result.servers_kg),
        "boards_kg": _numbers(result.boards_kg),
        "batteries_kg": _numbers(result.batteries_kg),
        "other_kg": _numbers(result.other_kg),
        "collected_kg": _numbers(result.collected_kg),
        "uncollected_kg": _numbers(result.uncollected_kg),
        "avoided_kg": _numbers(result.avoided_kg),
    }


def _held(result: Footprint, names: dict[str, str]) -> dict[str, Numbers | None]:
    return {name: _numbers(getattr(result, held)) for name, held in names.items()}


def _scaled(figures: dict[str, Numbers | None], count: float) -> dict[str, Any]:
    return {name: _written(numbers, count) for name, numbers in figures.items()}


def _written(numbers: Numbers | None, count: float) -> dict[str, float] | None:
    if numbers is None:
        return None
    value, low, high = numbers
    return {"value": value * count, "low": low * count, "high": high * count}


def _numbers(interval: Interval | None) -> Numbers | None:
    """Value, low and high; None where they are unknown or without bound."""
    if interval is None or not isfinite(interval.high):
        return None
    return float(interval.value), float(interval.low), float(interval.high)
