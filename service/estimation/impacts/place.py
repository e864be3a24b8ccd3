"""What a request says about its place, its electricity and its hardware, put into core values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Region
from service.core.elementwise import Number
from service.core.explanation import EstimateWarning
from service.core.impacts.cooling import dry_wue, evaporative_wue
from service.core.impacts.footprint import Footprint
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval, exact, independent_sum, scale
from service.estimation.defaults import default_warnings, making_default_warnings
from service.estimation.impacts.requests import ElectricityRequest, HardwareRequest, SiteRequest
from service.estimation.rejection import FieldError, Rejected
from service.estimation.resolution import Problems

_GRID_FIGURES = ("grid_gco2e_per_kwh", "market_gco2e_per_kwh")


def supplied(
    region: Region, asked: ElectricityRequest
) -> tuple[Region, tuple[EstimateWarning, ...]]:
    """The region with electricity as it is bought there, and what to know about that.

    Market-based intensity is that of what is contracted for its share, and the residual mix for
    the rest (GHG Protocol Scope 2 Guidance, 2015).
    """
    warnings: list[EstimateWarning] = []
    market = region.market_gco2e_per_kwh
    if asked.contracted_ratio is not None:
        rest = region.residual_gco2e_per_kwh
        if asked.residual_gco2e_per_kwh is not None:
            rest = exact(asked.residual_gco2e_per_kwh)
        if rest is None and asked.contracted_ratio < 1.0:
            rest = region.grid_gco2e_per_kwh
            warnings.append(
                EstimateWarning(
                    "residual_mix_unknown",
                    f"no residual mix is known for {region.id}; its average mix is used for "
                    "electricity without a contract, which may count plants contracted by others "
                    "twice",
                )
            )
        market = _mixed(asked.contracted_ratio, asked.contracted_gco2e_per_kwh, rest)
    marginal = region.marginal_gco2e_per_kwh
    if asked.marginal_gco2e_per_kwh is not None:
        marginal = exact(asked.marginal_gco2e_per_kwh)
    return replace(region, market_gco2e_per_kwh=market, marginal_gco2e_per_kwh=marginal), tuple(
        warnings
    )


def cooled(region: Region, site: SiteRequest | None) -> Region:
    """The region with on-site water of the site's own cooling, where that was given.

    A tower runs in the climate that the request gives, else in that of the region.

    Raises
    ------
    Rejected
        If there is a tower, and nobody says in which climate.
    """
    if site is None or site.cooling == "as-reported":
        return region
    if site.cooling == "dry":
        return replace(region, wue_l_per_kwh=dry_wue())
    if site.wet_bulb_celsius is not None:
        wet_bulb: Number = site.wet_bulb_celsius
    elif region.wet_bulb_celsius is not None:
        wet_bulb = region.wet_bulb_celsius.value
    else:
        unknown = f"is needed for an evaporative tower: no climate of {region.id} is known"
        raise Rejected([FieldError("/site/wet_bulb_celsius", unknown)])
    wue = evaporative_wue(wet_bulb, site.cycles_of_concentration, site.evaporative_ratio)
    return replace(region, wue_l_per_kwh=wue)


def kept(
    around: Infrastructure, asked: HardwareRequest, snapshot: CatalogSnapshot, problems: Problems
) -> Infrastructure:
    """The infrastructure with the life, sharing-out and added memory that a request gives."""
    changes: dict[str, Any] = {
        "second_life_years": asked.second_life_years,
        "reused_ratio": asked.reused_ratio,
    }
    if asked.life_years is not None:
        changes["hardware_life_years"] = exact(asked.life_years)
    if asked.in_use_ratio is not None:
        changes["in_use_ratio"] = asked.in_use_ratio
    if asked.collected_ratio is not None:
        changes["e_waste_collected_ratio"] = exact(asked.collected_ratio)
    if asked.added_memory_gb > 0.0:
        tier = problems.attempt(
            "/hardware/added_memory", lambda: snapshot.find("memory-tiers", asked.added_memory)
        )
        if tier is not None:
            per_gb = tier.value.embodied_kgco2e_per_gb
            if per_gb is None:
                problems.add(
                    "/hardware/added_memory",
                    f"no manufacturing figure is published for {tier.id}; known are "
                    + ", ".join(_with_making(snapshot)),
                )
            else:
                changes["memory_kgco2e"] = scale(per_gb, asked.added_memory_gb)
    return replace(around, **changes)


def footprint_warnings(
    result: Footprint,
    accelerator: Entry[Accelerator] | None,
    region: Entry[Region],
    year: int | None,
) -> tuple[EstimateWarning, ...]:
    """What a careful colleague would say about a footprint's factors."""
    found = [
        EstimateWarning(
            "unknown_factor", f"{region.id} has no published {factor}; {name} is null, not zero"
        )
        for name, factor in _UNKNOWN.items()
        if getattr(result, name) is None
    ]
    stated = region.value.carbon_free_energy_ratio
    if result.operational_market_gco2e is None and stated is not None:
        found.append(
            EstimateWarning(
                "contracts_unknown",
                f"the operator of {region.id} states {stated.value:.0%} carbon-free energy; give "
                "electricity.contracted_ratio to count contracts",
            )
        )
    if result.made.embodied_kgco2e is None:
        found.append(
            EstimateWarning(
                "unknown_factor",
                "no manufacturing figure is published for this hardware; embodied carbon and the "
                "total are null, not zero",
            )
        )
    grid = region.origins.get("grid_gco2e_per_kwh")
    if grid is not None and grid.source is not None and grid.entry_id != region.id:
        found.append(
            EstimateWarning(
                "wider_average",
                f"the grid intensity of {region.id} itself is not known; the average of "
                f"{grid.entry_id} is used",
            )
        )
    found += making_default_warnings(accelerator) if accelerator is not None else []
    found += default_warnings(region)
    found += [
        EstimateWarning(
            "figure_past_shelf_life",
            f"{name} of {region.id} dates from {region.origins[name].year} and may be outdated",
        )
        for name in region.stale
    ]
    if year is not None:
        found += _year_warnings(region, year)
    return tuple(found)


_UNKNOWN: Mapping[str, str] = {
    "operational_location_gco2e": "grid_gco2e_per_kwh",
    "operational_market_gco2e": "market_gco2e_per_kwh",
    "water_on_site_l": "wue_l_per_kwh",
    "water_off_site_l": "ewif_l_per_kwh",
    "water_stress_weighted_l": "water_stress_ratio",
    "abiotic_depletion_kgsbeq": "adpe_kgsbeq_per_kwh",
}


def _year_warnings(region: Entry[Region], year: int) -> list[EstimateWarning]:
    return [
        EstimateWarning(
            "figure_of_another_year",
            f"{name} of {region.id} dates from {origin.year}, the known year closest to {year}",
        )
        for name, origin in region.origins.items()
        if origin.year is not None
        and (origin.year > year or (origin.year < year and name in _GRID_FIGURES))
    ]


def _mixed(share: float, contracted_gco2e_per_kwh: float, rest: Interval | None) -> Interval | None:
    contracted = exact(share * contracted_gco2e_per_kwh)
    if share >= 1.0:
        return contracted
    return None if rest is None else independent_sum((contracted, scale(rest, 1.0 - share)))


def _with_making(snapshot: CatalogSnapshot) -> list[str]:
    return [
        id_
        for id_, tier in snapshot.memory_tiers.items()
        if tier.value.embodied_kgco2e_per_gb is not None
    ]
