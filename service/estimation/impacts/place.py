"""What a request says about its place, its electricity and its hardware, put into core values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Region
from service.core.elementwise import Number
from service.core.explanation import EstimateWarning
from service.core.impacts.cooling import dry_pue, dry_wue, evaporative_wue
from service.core.impacts.footprint import Footprint
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval, exact, independent_sum, scale
from service.estimation.defaults import default_warnings, making_default_warnings
from service.estimation.detail import WHOLE, Detail
from service.estimation.impacts.requests import ElectricityRequest, HardwareRequest, SiteRequest
from service.estimation.projections.over_time import positive
from service.estimation.references import FacilityRequest
from service.estimation.rejection import FieldError, Rejected
from service.estimation.resolution import Problems, is_placed
from service.estimation.wording import dated, unpublished

_DRY_COOLING = "site/dry-cooling"
_HOURLY_UNKNOWN = EstimateWarning(
    "hourly_match_unknown",
    "the share of consumption that contracts cover in the same hour is not stated, so the "
    "contract-based emissions are unknown",
)
_NO_PLACE = EstimateWarning(
    "no_place",
    "no place is named: its emissions, water and prices are unknown, and the energy that a data "
    "centre adds is that of a typical one. Name a region",
    "operational_location_gco2e",
)
#: A statement of operators, which no figure is computed from.
_STATED_ONLY = "carbon_free_energy_ratio"
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
    counted = asked.contracted_ratio
    if counted is None and asked.residual_gco2e_per_kwh is not None:
        counted = 0.0
    if asked.matching == "hourly":
        counted = asked.hourly_matched_ratio
        if counted is None:
            warnings.append(_HOURLY_UNKNOWN)
            market = None
    if counted is not None:
        rest = region.residual_gco2e_per_kwh
        if asked.residual_gco2e_per_kwh is not None:
            rest = exact(asked.residual_gco2e_per_kwh)
        if rest is None and counted < 1.0:
            rest = region.grid_gco2e_per_kwh
            warnings.append(
                EstimateWarning(
                    "residual_mix_unknown",
                    f"no residual mix is known for {region.id}: its average mix is used for "
                    "electricity without a contract, which may include plants that others have "
                    "under contract",
                )
            )
        market = _mixed(counted, asked.contracted_gco2e_per_kwh, rest)
    marginal = region.marginal_gco2e_per_kwh
    if asked.marginal_gco2e_per_kwh is not None:
        marginal = exact(asked.marginal_gco2e_per_kwh)
    return replace(region, market_gco2e_per_kwh=market, marginal_gco2e_per_kwh=marginal), tuple(
        warnings
    )


def cooled(
    region: Region, site: SiteRequest | None, facility: FacilityRequest, snapshot: CatalogSnapshot
) -> tuple[Region, tuple[EstimateWarning, ...]]:
    """The region with water and energy of the site's own cooling, and what to know about that.

    A tower runs in the climate that the request gives, else in that of the region. Dry cooling
    adds to a PUE that others report; a PUE in the request is that of the site as it is cooled.

    Raises
    ------
    Rejected
        If there is a tower, and nobody says in which climate.
    """
    if site is None or site.cooling == "as-reported":
        return region, ()
    if site.cooling == "dry":
        dry = replace(region, wue_l_per_kwh=dry_wue())
        if facility.pue_ratio is not None:
            return dry, ()
        added = snapshot.calibrations[_DRY_COOLING].value["added_energy_ratio"]
        pue = dry_pue(region.pue_ratio, region.wue_l_per_kwh, added)
        if pue is region.pue_ratio:
            return dry, ()
        told = EstimateWarning(
            "dry_cooling_energy",
            f"cooling without water takes {added.value:.2f} kWh ({added.low:.2f} to "
            f"{added.high:.2f}) more per kWh of computing than a cooling tower: the PUE is "
            f"{pue.value:.2f} instead of {region.pue_ratio.value:.2f}, unless you state your own",
        )
        return replace(dry, pue_ratio=pue), (told,)
    if site.wet_bulb_celsius is not None:
        wet_bulb: Number = site.wet_bulb_celsius
    elif region.wet_bulb_celsius is not None:
        wet_bulb = region.wet_bulb_celsius.value
    else:
        unknown = f"is needed for an evaporative tower: no climate of {region.id} is known"
        raise Rejected([FieldError("/site/wet_bulb_celsius", unknown)])
    wue = evaporative_wue(wet_bulb, site.cycles_of_concentration, site.evaporative_ratio)
    return replace(region, wue_l_per_kwh=wue), ()


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
    if asked.treatment_kgco2e_per_kg is not None:
        changes["treatment_kgco2e_per_kg"] = positive(
            asked.treatment_kgco2e_per_kg, "/hardware/treatment_kgco2e_per_kg", problems
        )
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
    detail: Detail = WHOLE,
) -> tuple[EstimateWarning, ...]:
    """What a careful colleague would say about a footprint's factors, of figures that are told."""
    every = detail.has("impacts.breakdown")
    unknown = tuple(
        name
        for name, factor in _UNKNOWN.items()
        if (every or name in _ALWAYS_TOLD)
        and getattr(region.value, factor, None) is None
        and getattr(result, name) is None
    )
    unmade = result.made.embodied_kgco2e is None
    return _factor_warnings(unknown, unmade, accelerator, region, year)


@lru_cache(maxsize=1024)
def _factor_warnings(
    unknown: tuple[str, ...],
    unmade: bool,
    accelerator: Entry[Accelerator] | None,
    region: Entry[Region],
    year: int | None,
) -> tuple[EstimateWarning, ...]:
    """What to say of figures that are unknown or stand in, and of an unknown making."""
    placed = is_placed(region)
    found = [] if placed else [_NO_PLACE]
    found += [
        _contracts_unknown(region)
        if name == "operational_market_gco2e" and region.value.carbon_free_energy_ratio is not None
        else EstimateWarning(
            "unknown_factor",
            unpublished(_UNKNOWN[name], region.id),
            _WHERE_TOLD.get(name, name),
        )
        for name in unknown
        if placed
    ]
    if unmade:
        found.append(
            EstimateWarning(
                "unknown_factor",
                "the emissions of manufacturing this hardware are unpublished, so the total is "
                "unknown, too",
                "embodied_gco2e",
            )
        )
    grid = region.origins.get("grid_gco2e_per_kwh")
    if grid is not None and grid.source is not None and grid.entry_id != region.id:
        found.append(
            EstimateWarning(
                "wider_average",
                f"for the grid of {region.id}, the average of {grid.entry_id} is used",
            )
        )
    found += making_default_warnings(accelerator) if accelerator is not None else []
    found += default_warnings(region) if placed else []
    found += [
        EstimateWarning(
            "figure_past_shelf_life",
            f"{dated(name, region.id, region.origins[name].year)} and may have changed",
            name,
        )
        for name in region.stale
        if name != _STATED_ONLY
    ]
    if year is not None:
        found += _year_warnings(region, year)
    return tuple(found)


def _contracts_unknown(region: Entry[Region]) -> EstimateWarning:
    stated = region.value.carbon_free_energy_ratio
    return EstimateWarning(
        "contracts_unknown",
        f"{unpublished('market_gco2e_per_kwh', region.id)}, though its operator states "
        f"{0.0 if stated is None else stated.value:.0%} carbon-free energy: state how much of "
        "yours is under contract",
    )


_UNKNOWN: Mapping[str, str] = {
    "operational_location_gco2e": "grid_gco2e_per_kwh",
    "operational_market_gco2e": "market_gco2e_per_kwh",
    "water_on_site_l": "wue_l_per_kwh",
    "water_off_site_l": "ewif_l_per_kwh",
    "water_stress_weighted_l": "water_stress_ratio",
    "abiotic_depletion_kgsbeq": "adpe_kgsbeq_per_kwh",
}

#: Where an answer has these figures, if not under their own names.
_WHERE_TOLD: Mapping[str, str] = {
    "water_on_site_l": "water.total_l",
    "water_off_site_l": "water.total_l",
    "water_stress_weighted_l": "water.stress_weighted_l",
}
#: Of these, what an answer's usual figures are made of.
_ALWAYS_TOLD = frozenset(
    {
        "operational_location_gco2e",
        "operational_market_gco2e",
        "water_on_site_l",
        "water_off_site_l",
    }
)


def _year_warnings(region: Entry[Region], year: int) -> list[EstimateWarning]:
    return [
        EstimateWarning(
            "figure_of_another_year",
            f"{dated(name, region.id, origin.year)}, the known year closest to {year}",
            name,
        )
        for name, origin in region.origins.items()
        if origin.year is not None
        and name != _STATED_ONLY
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
