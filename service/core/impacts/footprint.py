"""Carbon, water and hardware worn, from IT energy and accelerator time in a place.

The building's overhead (PUE) enters once: electricity drawn from the grid, and the water that
making it evaporates elsewhere, follow facility energy; cooling water on site is reported by
operators per unit of IT energy and follows that.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.core.deployment import Accelerator, Region
from service.core.explanation import Formula, Step
from service.core.impacts.infrastructure import Infrastructure, Making, making
from service.core.interval import Interval, independent_sum, product, quotient, scale

FACILITY_ENERGY = Formula(
    "facility_energy_kwh", "it_energy · PUE", "kWh", "ISO/IEC 30134-2:2016 (PUE)"
)
OPERATIONAL_LOCATION = Formula(
    "operational_location_gco2e",
    "it_energy · PUE · grid_intensity",
    "gCO2e",
    "GHG Protocol Scope 2 Guidance, 2015, location-based method",
)
OPERATIONAL_MARKET = Formula(
    "operational_market_gco2e",
    "it_energy · PUE · contracted_intensity",
    "gCO2e",
    "GHG Protocol Scope 2 Guidance, 2015, market-based method",
)
EMBODIED = Formula(
    "embodied_gco2e",
    "accelerator_hours / service_hours · (accelerator + server share + added memory)",
    "gCO2e",
    "Software Carbon Intensity, ISO/IEC 21031:2024 (M = TE · TS · RS, calendar time)",
)
MARGINAL = Formula(
    "marginal_signal_gco2e",
    "it_energy · PUE · marginal_intensity",
    "gCO2e",
    "GHG Protocol for Project Accounting, 2005 (consequential; never added to an inventory)",
)
TOTAL_CARBON = Formula(
    "total_location_gco2e",
    "operational_location + embodied",
    "gCO2e",
    "Software Carbon Intensity, ISO/IEC 21031:2024 (O + M)",
)
WATER_ON_SITE = Formula(
    "on_site_l", "it_energy · WUE", "L", "The Green Grid, WUE, 2011; ISO/IEC 30134-9:2022"
)
WATER_OFF_SITE = Formula(
    "off_site_l",
    "it_energy · PUE · EWIF",
    "L",
    "Li et al., Making AI Less Thirsty, 2023, section 3, https://arxiv.org/abs/2304.03271",
)
WATER_TOTAL = Formula("total_l", "on_site + off_site", "L", "sum of the two")
WATER_STRESS_WEIGHTED = Formula(
    "stress_weighted_l",
    "total · withdrawal-to-supply ratio of the basin",
    "L",
    "WRI Aqueduct 4.0, 2023, baseline water stress as weight",
)
E_WASTE = Formula(
    "e_waste_kg",
    "accelerator_hours / service_hours · (accelerator + server share) mass · (1 − reused)",
    "kg",
    "Wang et al., 2024, https://doi.org/10.1038/s43588-024-00712-6 (mass over service life)",
)
PRIMARY_ENERGY = Formula(
    "primary_energy_mj",
    "it_energy · PUE · primary_energy_factor + worn share · making",
    "MJ",
    "EN 15978:2011, PENRT + PERT: use and production stages",
)
ABIOTIC_DEPLETION = Formula(
    "abiotic_depletion_kgsbeq",
    "it_energy · PUE · depletion_factor + worn share · making",
    "kg Sb-eq",
    "CML-IA, abiotic depletion of elements, ultimate reserves; EN 15804:2012",
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
    unit_embodied_kgco2e: Interval | None
    unit_mass_kg: Interval | None

    def steps(self) -> tuple[Step, ...]:
        """The formulas applied, in order, with the figures that went in and came out."""
        region = self.region
        energy = {"it_energy_kwh": self.it_energy_kwh.value, "pue_ratio": region.pue_ratio.value}
        steps = [Step(FACILITY_ENERGY, energy, self.facility_energy_kwh.value)]

        def add(formula: Formula, result: Interval | None, **inputs: Interval | None) -> None:
            if result is not None:
                known = {name: i.value for name, i in inputs.items() if i is not None}
                steps.append(Step(formula, known, result.value))

        drawn = {"facility_energy_kwh": self.facility_energy_kwh}
        add(
            OPERATIONAL_LOCATION,
            self.operational_location_gco2e,
            **drawn,
            grid_gco2e_per_kwh=region.grid_gco2e_per_kwh,
        )
        add(
            OPERATIONAL_MARKET,
            self.operational_market_gco2e,
            **drawn,
            market_gco2e_per_kwh=region.market_gco2e_per_kwh,
        )
        add(
            MARGINAL,
            self.marginal_signal_gco2e,
            **drawn,
            marginal_gco2e_per_kwh=region.marginal_gco2e_per_kwh,
        )
        worn = {
            "accelerator_hours": self.accelerator_hours,
            "service_hours": self.infrastructure.service_hours(),
        }
        add(
            EMBODIED,
            self.embodied_gco2e,
            **worn,
            embodied_kgco2e_per_accelerator=self.unit_embodied_kgco2e,
        )
        add(
            TOTAL_CARBON,
            self.total_location_gco2e,
            operational_location_gco2e=self.operational_location_gco2e,
            embodied_gco2e=self.embodied_gco2e,
        )
        add(
            WATER_ON_SITE,
            self.water_on_site_l,
            it_energy_kwh=self.it_energy_kwh,
            wue_l_per_kwh=region.wue_l_per_kwh,
        )
        add(WATER_OFF_SITE, self.water_off_site_l, **drawn, ewif_l_per_kwh=region.ewif_l_per_kwh)
        add(
            WATER_TOTAL,
            self.water_total_l,
            on_site_l=self.water_on_site_l,
            off_site_l=self.water_off_site_l,
        )
        add(
            WATER_STRESS_WEIGHTED,
            self.water_stress_weighted_l,
            total_l=self.water_total_l,
            water_stress_ratio=region.stress_weight_ratio,
        )
        add(
            E_WASTE,
            self.e_waste_kg,
            **worn,
            mass_kg=self.unit_mass_kg,
        )
        add(
            PRIMARY_ENERGY,
            self.primary_energy_mj,
            **drawn,
            primary_energy_mj_per_kwh=_primary_energy_factor(region, self.infrastructure),
            worn_ratio=self.worn_ratio,
        )
        add(
            ABIOTIC_DEPLETION,
            self.abiotic_depletion_kgsbeq,
            **drawn,
            adpe_kgsbeq_per_kwh=region.adpe_kgsbeq_per_kwh,
            worn_ratio=self.worn_ratio,
        )
        return tuple(steps)


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
        water_stress_weighted_l=_times(water, region.stress_weight_ratio),
        e_waste_kg=None if e_waste is None else scale(e_waste, 1.0 - infrastructure.reused_ratio),
        primary_energy_mj=_sum(drawn_mj, _times(worn, made.primary_energy_mj)),
        primary_energy_electricity_mj=drawn_mj,
        abiotic_depletion_kgsbeq=_sum(depleted_by_grid, depleted),
        abiotic_depletion_hardware_kgsbeq=depleted,
        region=region,
        infrastructure=infrastructure,
        worn_ratio=worn,
        unit_embodied_kgco2e=unit,
        unit_mass_kg=made.mass_kg,
    )


def _primary_energy_factor(region: Region, infrastructure: Infrastructure) -> Interval | None:
    return region.primary_energy_mj_per_kwh or infrastructure.primary_energy_mj_per_kwh


def _times(figure: Interval | None, factor: Interval | None) -> Interval | None:
    return None if figure is None or factor is None else product(figure, factor)


def _sum(first: Interval | None, second: Interval | None) -> Interval | None:
    return None if first is None or second is None else independent_sum((first, second))
