"""Carbon, water and hardware worn, from IT energy and accelerator time in a place.

The building's overhead (PUE) enters once: electricity drawn from the grid, and the water that
making it evaporates elsewhere, follow facility energy; cooling water on site is reported by
operators per unit of IT energy and follows that.
"""

from __future__ import annotations

from service.core.deployment import Accelerator, Region
from service.core.explanation import Formula, paths
from service.core.impacts.infrastructure import Infrastructure, Making, making
from service.core.interval import Interval, independent_sum, product, quotient, scale
from service.core.lightweight import computed_once, lightweight

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


@lightweight
class Footprint:
    """Footprint of an amount of IT energy and accelerator time; None where a factor is unknown.

    Figures are computed when they are asked for: searches ask for few of them, in many places.
    """

    it_energy_kwh: Interval
    accelerator_hours: Interval | None
    region: Region
    infrastructure: Infrastructure
    made: Making

    @computed_once
    def facility_energy_kwh(self) -> Interval:
        """Energy with the building's overhead [kWh]."""
        return product(self.it_energy_kwh, self.region.pue_ratio)

    @computed_once
    def worn_ratio(self) -> Interval | None:
        """Share of the hardware's service life that the time takes up [-]."""
        hours = self.accelerator_hours
        return None if hours is None else quotient(hours, self.made.service_hours)

    @computed_once
    def operational_location_gco2e(self) -> Interval | None:
        """Carbon of the electricity, as the grid is [gCO2e]."""
        return _times(self.facility_energy_kwh, self.region.grid_gco2e_per_kwh)

    @computed_once
    def operational_market_gco2e(self) -> Interval | None:
        """Carbon of the electricity by contract [gCO2e]."""
        return _times(self.facility_energy_kwh, self.region.market_gco2e_per_kwh)

    @computed_once
    def marginal_signal_gco2e(self) -> Interval | None:
        """What the grid would emit less without it [gCO2e]."""
        return _times(self.facility_energy_kwh, self.region.marginal_gco2e_per_kwh)

    @computed_once
    def embodied_gco2e(self) -> Interval | None:
        """Carbon of making what is worn [gCO2e]."""
        unit = self.made.embodied_kgco2e
        return _times(self.worn_ratio, None if unit is None else scale(unit, 1000.0))

    @computed_once
    def total_location_gco2e(self) -> Interval | None:
        """Electricity, as the grid is, and making [gCO2e]."""
        return _sum(self.operational_location_gco2e, self.embodied_gco2e)

    @computed_once
    def water_on_site_l(self) -> Interval | None:
        """Water for cooling [L]."""
        return _times(self.it_energy_kwh, self.region.wue_l_per_kwh)

    @computed_once
    def water_off_site_l(self) -> Interval | None:
        """Water that making the electricity evaporates [L]."""
        return _times(self.facility_energy_kwh, self.region.ewif_l_per_kwh)

    @computed_once
    def water_total_l(self) -> Interval | None:
        """Both [L]."""
        return _sum(self.water_on_site_l, self.water_off_site_l)

    @computed_once
    def water_stress_weighted_l(self) -> Interval | None:
        """Water, weighted by how scarce it is there [L]."""
        return _times(self.water_total_l, self.region.water_stress_ratio)

    @computed_once
    def e_waste_kg(self) -> Interval | None:
        """Mass of what is worn and not used again [kg]."""
        waste = _times(self.worn_ratio, self.made.mass_kg)
        return None if waste is None else scale(waste, 1.0 - self.infrastructure.reused_ratio)

    @computed_once
    def primary_energy_electricity_mj(self) -> Interval | None:
        """Primary energy of the electricity [MJ]."""
        return _times(self.facility_energy_kwh, self.primary_energy_mj_per_kwh)

    @computed_once
    def primary_energy_mj(self) -> Interval | None:
        """Primary energy of electricity and making [MJ]."""
        making_mj = _times(self.worn_ratio, self.made.primary_energy_mj)
        return _sum(self.primary_energy_electricity_mj, making_mj)

    @computed_once
    def abiotic_depletion_hardware_kgsbeq(self) -> Interval | None:
        """Depletion of elements by making what is worn [kgSbeq]."""
        return _times(self.worn_ratio, self.made.adpe_kgsbeq)

    @computed_once
    def abiotic_depletion_kgsbeq(self) -> Interval | None:
        """Depletion by electricity and making; without the grid's it is unknown [kgSbeq]."""
        drawn = _times(self.facility_energy_kwh, self.region.adpe_kgsbeq_per_kwh)
        return _sum(drawn, self.abiotic_depletion_hardware_kgsbeq)

    @property
    def primary_energy_mj_per_kwh(self) -> Interval | None:
        """Primary energy of a kWh from the grid, or what stands in for it [MJ/kWh]."""
        return (
            self.region.primary_energy_mj_per_kwh or self.infrastructure.primary_energy_mj_per_kwh
        )


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
    made = made or making(accelerator, infrastructure)
    return Footprint(it_energy_kwh, accelerator_hours, region, infrastructure, made)


def _times(figure: Interval | None, factor: Interval | None) -> Interval | None:
    return None if figure is None or factor is None else product(figure, factor)


def _sum(first: Interval | None, second: Interval | None) -> Interval | None:
    return None if first is None or second is None else independent_sum((first, second))
