"""Carbon, water and hardware worn, from IT energy and accelerator time in a place.

The building's overhead (PUE) enters once: electricity drawn from the grid, and the water that
making it evaporates elsewhere, follow facility energy; cooling water on site is reported by
operators per unit of IT energy and follows that.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.core.deployment import Accelerator, Region
from service.core.explanation import Formula, paths
from service.core.impacts.infrastructure import Infrastructure, Making, making
from service.core.interval import Interval, independent_sum, product, quotient, scale

#: Paths start at a ``Footprint``.
FOOTPRINT = (
    Formula(
        "facility_energy_kwh",
        "it_energy_kwh * pue_ratio",
        "ISO/IEC 30134-2:2016 (PUE)",
        "facility_energy_kwh",
        paths("region.pue_ratio"),
    ),
    Formula(
        "operational_location_gco2e",
        "facility_energy_kwh * grid_gco2e_per_kwh",
        "GHG Protocol Scope 2 Guidance, 2015, location-based method",
        "operational_location_gco2e",
        paths("region.grid_gco2e_per_kwh"),
    ),
    Formula(
        "operational_market_gco2e",
        "facility_energy_kwh * market_gco2e_per_kwh",
        "GHG Protocol Scope 2 Guidance, 2015, market-based method",
        "operational_market_gco2e",
        paths("region.market_gco2e_per_kwh"),
    ),
    Formula(
        "marginal_signal_gco2e",
        "facility_energy_kwh * marginal_gco2e_per_kwh",
        "GHG Protocol for Project Accounting, 2005 (consequential; never added to an inventory)",
        "marginal_signal_gco2e",
        paths("region.marginal_gco2e_per_kwh"),
    ),
    Formula(
        "embodied_gco2e",
        "accelerator_hours / service_hours * 1000 * embodied_kgco2e_per_accelerator",
        "Software Carbon Intensity, ISO/IEC 21031:2024 (M = TE · TS · RS, calendar time); of the "
        "accelerator, its share of the server and added memory",
        "embodied_gco2e",
        paths("made.service_hours", embodied_kgco2e_per_accelerator="made.embodied_kgco2e"),
    ),
    Formula(
        "total_location_gco2e",
        "operational_location_gco2e + embodied_gco2e",
        "Software Carbon Intensity, ISO/IEC 21031:2024 (O + M)",
        "total_location_gco2e",
    ),
    Formula(
        "on_site_l",
        "it_energy_kwh * wue_l_per_kwh",
        "The Green Grid, WUE, 2011; ISO/IEC 30134-9:2022",
        "water_on_site_l",
        paths("region.wue_l_per_kwh"),
    ),
    Formula(
        "off_site_l",
        "facility_energy_kwh * ewif_l_per_kwh",
        "Li et al., Making AI Less Thirsty, 2023, section 3, https://arxiv.org/abs/2304.03271",
        "water_off_site_l",
        paths("region.ewif_l_per_kwh"),
    ),
    Formula(
        "total_l",
        "on_site_l + off_site_l",
        "sum of the two",
        "water_total_l",
        paths(on_site_l="water_on_site_l", off_site_l="water_off_site_l"),
    ),
    Formula(
        "stress_weighted_l",
        "total_l * water_stress_ratio",
        "WRI Aqueduct 4.0, 2023, baseline water stress (withdrawal to supply) as weight",
        "water_stress_weighted_l",
        paths("region.water_stress_ratio", total_l="water_total_l"),
    ),
    Formula(
        "e_waste_kg",
        "accelerator_hours / service_hours * mass_kg * (1 - reused_ratio)",
        "Wang et al., 2024, https://doi.org/10.1038/s43588-024-00712-6 (mass over service life)",
        "e_waste_kg",
        paths("made.service_hours", "made.mass_kg", "infrastructure.reused_ratio"),
    ),
    Formula(
        "primary_energy_mj",
        "facility_energy_kwh * primary_energy_mj_per_kwh"
        " + accelerator_hours / service_hours * making_mj",
        "EN 15978:2011, PENRT + PERT: use and production stages",
        "primary_energy_mj",
        paths("made.service_hours", making_mj="made.primary_energy_mj"),
    ),
    Formula(
        "abiotic_depletion_kgsbeq",
        "facility_energy_kwh * adpe_kgsbeq_per_kwh"
        " + accelerator_hours / service_hours * making_kgsbeq",
        "CML-IA, abiotic depletion of elements, ultimate reserves; EN 15804:2012",
        "abiotic_depletion_kgsbeq",
        paths("region.adpe_kgsbeq_per_kwh", "made.service_hours", making_kgsbeq="made.adpe_kgsbeq"),
    ),
)


@dataclass(frozen=True, slots=True)
class Footprint:
    """Footprint of an amount of IT energy and accelerator time; None where a factor is unknown."""

    it_energy_kwh: Interval
    accelerator_hours: Interval | None
    facility_energy_kwh: Interval
    operational_location_gco2e: Interval | None
    operational_market_gco2e: Interval | None
    marginal_signal_gco2e: Interval | None
    embodied_gco2e: Interval | None
    total_location_gco2e: Interval | None
    water_on_site_l: Interval | None
    water_off_site_l: Interval | None
    water_total_l: Interval | None
    water_stress_weighted_l: Interval | None
    e_waste_kg: Interval | None
    primary_energy_mj: Interval | None
    primary_energy_electricity_mj: Interval | None
    abiotic_depletion_kgsbeq: Interval | None
    abiotic_depletion_hardware_kgsbeq: Interval | None
    region: Region
    infrastructure: Infrastructure
    worn_ratio: Interval | None
    made: Making

    @property
    def primary_energy_mj_per_kwh(self) -> Interval | None:
        """Primary energy of a kWh from the grid, or what stands in for it [MJ/kWh]."""
        return _primary_energy_factor(self.region, self.infrastructure)


def footprint(
    it_energy_kwh: Interval,
    accelerator_hours: Interval | None,
    accelerator: Accelerator | None,
    region: Region,
    infrastructure: Infrastructure,
    made: Making | None = None,
) -> Footprint:
    """Carbon, water and hardware worn by IT energy and accelerator time in a region.

    Parameters
    ----------
    it_energy_kwh
        Energy of the IT equipment, before PUE [kWh].
    accelerator_hours
        Time for which accelerators are reserved, all together [h]; None when not known.
    accelerator
        The device, for its making and mass; None when not known.
    region
        Place with PUE [-], grid intensity [gCO2e/kWh], WUE and EWIF [L/kWh].
    infrastructure
        Server share and hardware life.
    made
        What `making` gives for the two, where it is at hand.

    Returns
    -------
    Footprint
        Figures are None where a factor they need is unknown; nothing is taken as zero.
    """
    facility = product(it_energy_kwh, region.pue_ratio)
    location = _times(facility, region.grid_gco2e_per_kwh)
    made = made or making(accelerator, infrastructure)
    worn = None if accelerator_hours is None else quotient(accelerator_hours, made.service_hours)
    unit = made.embodied_kgco2e
    embodied = _times(worn, None if unit is None else scale(unit, 1000.0))
    on_site = _times(it_energy_kwh, region.wue_l_per_kwh)
    off_site = _times(facility, region.ewif_l_per_kwh)
    water = _sum(on_site, off_site)
    e_waste = _times(worn, made.mass_kg)
    depleted = _times(worn, made.adpe_kgsbeq)
    # Without a factor for the grid, depletion is that of the hardware and something unknown.
    depleted_by_grid = _times(facility, region.adpe_kgsbeq_per_kwh)
    drawn_mj = _times(facility, _primary_energy_factor(region, infrastructure))
    return Footprint(
        it_energy_kwh=it_energy_kwh,
        accelerator_hours=accelerator_hours,
        facility_energy_kwh=facility,
        operational_location_gco2e=location,
        operational_market_gco2e=_times(facility, region.market_gco2e_per_kwh),
        marginal_signal_gco2e=_times(facility, region.marginal_gco2e_per_kwh),
        embodied_gco2e=embodied,
        total_location_gco2e=_sum(location, embodied),
        water_on_site_l=on_site,
        water_off_site_l=off_site,
        water_total_l=water,
        water_stress_weighted_l=_times(water, region.water_stress_ratio),
        e_waste_kg=None if e_waste is None else scale(e_waste, 1.0 - infrastructure.reused_ratio),
        primary_energy_mj=_sum(drawn_mj, _times(worn, made.primary_energy_mj)),
        primary_energy_electricity_mj=drawn_mj,
        abiotic_depletion_kgsbeq=_sum(depleted_by_grid, depleted),
        abiotic_depletion_hardware_kgsbeq=depleted,
        region=region,
        infrastructure=infrastructure,
        worn_ratio=worn,
        made=made,
    )


def _primary_energy_factor(region: Region, infrastructure: Infrastructure) -> Interval | None:
    return region.primary_energy_mj_per_kwh or infrastructure.primary_energy_mj_per_kwh


def _times(figure: Interval | None, factor: Interval | None) -> Interval | None:
    return None if figure is None or factor is None else product(figure, factor)


def _sum(first: Interval | None, second: Interval | None) -> Interval | None:
    return None if first is None or second is None else independent_sum((first, second))
