"""The tables of standards and laws, from a computed footprint and what the caller discloses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from service.core.impacts.disclosure import (
    grid_loss_gco2e,
    power_usage_effectiveness,
    share_of_total,
    training_compute_flop,
    upstream_gco2e,
    water_usage_effectiveness,
)
from service.core.interval import Interval, exact
from service.estimation.reports.answers import ReportLine
from service.estimation.reports.lines import line
from service.estimation.reports.requests import ReportRequest

_KG = 1e3
_TONNE = 1e6
_LITRES_PER_M3 = 1e3
_KWH_PER_MWH = 1e3
_KG_PER_TONNE = 1e3

_TREATMENT = "no openly published factor was found; state yours in hardware"
_ASKED = "must be given in disclosure; no estimate can provide it"


@dataclass(frozen=True, slots=True)
class Reported:
    """What tables are made from: the request, the answer about impacts, and the period's sums."""

    request: ReportRequest
    answer: Mapping[str, Any]
    it_energy_kwh: Interval
    facility_energy_kwh: Interval
    operational_location_gco2e: Interval | None

    @property
    def period(self) -> Mapping[str, Any]:
        """Footprint of the period as answered."""
        found: Mapping[str, Any] = self.answer["impacts"]["period"]
        return found


def sci(reported: Reported) -> list[ReportLine]:
    """Software Carbon Intensity, (E · I + M) per R."""
    name = reported.request.disclosure.functional_unit
    found = reported.answer["impacts"][name]
    carbon = found["carbon"]
    unit = _FUNCTIONAL_UNITS[name]
    location = "location-based; offsets and market instruments do not count"
    return [
        line("E", "Energy of the software", found["facility_energy_kwh"], "kWh", "IT energy · PUE"),
        line(
            "I",
            "Carbon intensity of the grid",
            reported.answer["electricity"]["grid_gco2e_per_kwh"],
            "gCO2e/kWh",
            location,
        ),
        line("O", "Operational emissions", carbon["operational_location_gco2e"], "gCO2e", "E · I"),
        line(
            "M",
            "Embodied emissions",
            carbon["embodied_gco2e"],
            "gCO2e",
            f"TE · TS · RS, {reported.answer['hardware']['amortisation']} amortisation",
        ),
        line("SCI", f"Score per {unit}", carbon["total_gco2e"], f"gCO2e/{unit}", "(O + M) per R"),
    ]


_FUNCTIONAL_UNITS = {
    "per_request": "request",
    "per_1k_tokens": "1000 output tokens",
    "per_task": "task",
    "per_year": "year",
    "period": "period",
}


def ghg_protocol(reported: Reported) -> list[ReportLine]:
    """Scopes 1 to 3, scope 2 by both methods, nothing netted."""
    asked = reported.request.disclosure
    carbon = reported.period["carbon"]
    streams = reported.period["e_waste_streams"]
    treated = None if streams is None else streams["treatment_gco2e"]
    operator = asked.role == "operator"
    electricity = "2" if operator else "3.1"
    hardware = "3.2" if operator else "3.1"
    fuel = _both(asked.diesel_l, asked.diesel_kgco2e_per_l)
    leak = _both(asked.refrigerant_leak_kg, asked.refrigerant_gwp)
    location = reported.operational_location_gco2e
    losses = (
        grid_loss_gco2e(location, asked.grid_loss_ratio)
        if location is not None and asked.grid_loss_ratio is not None
        else None
    )
    upstream = (
        upstream_gco2e(reported.facility_energy_kwh, asked.upstream_gco2e_per_kwh)
        if asked.upstream_gco2e_per_kwh is not None
        else None
    )
    own = "1" if operator else "3.1"
    return [
        line(f"{own} fuel", "Fuel of generators", fuel, "kgCO2e", "litres · factor", _note(fuel)),
        line(
            f"{own} refrigerants",
            "Leaked refrigerants",
            leak,
            "kgCO2e",
            "mass · warming potential",
            _note(leak),
        ),
        line(
            f"{electricity} location-based",
            "Electricity, location-based",
            carbon["operational_location_gco2e"],
            "kgCO2e",
            "facility energy · average of the grid",
            size=_KG,
        ),
        line(
            f"{electricity} market-based",
            "Electricity, market-based",
            carbon["operational_market_gco2e"],
            "kgCO2e",
            "contracted share · its intensity + rest · residual mix",
            "an alternative to the location-based line, never added to it",
            size=_KG,
        ),
        line(
            f"{hardware} hardware",
            "Manufacturing of hardware, the period's share",
            carbon["embodied_gco2e"],
            "kgCO2e",
            f"{reported.answer['hardware']['amortisation']} amortisation",
            "the standard counts capital goods in full in the year of purchase",
            size=_KG,
        ),
        line(
            "3.3 losses",
            "Losses of transmission and distribution",
            losses,
            "kgCO2e",
            "location-based · loss / (1 − loss)",
            _note(losses),
            size=_KG,
        ),
        line(
            "3.3 upstream",
            "Production and transport of fuels",
            upstream,
            "kgCO2e",
            "facility energy · upstream factor",
            _note(upstream)
            or "leave this out if the grid factor already covers the whole life cycle",
            size=_KG,
        ),
        line(
            "3.12 mass",
            "Hardware at the end of its life",
            reported.period["e_waste_kg"],
            "kg",
            "mass worn out",
        ),
        line(
            "3.12",
            "Treatment of that hardware",
            treated,
            "kgCO2e",
            "mass · hardware.treatment_kgco2e_per_kg",
            "" if treated is not None else _TREATMENT,
            size=_KG,
        ),
    ]


def eed(reported: Reported) -> list[ReportLine]:
    """Indicators of the EU's Energy Efficiency Directive."""
    asked = reported.request.disclosure
    it_energy = reported.it_energy_kwh
    metered = asked.total_energy_kwh
    total = reported.facility_energy_kwh if metered is None else exact(metered)
    how = "metered" if metered is not None else "estimated with the place's PUE"
    reused, renewable = asked.reused_heat_kwh, asked.renewable_kwh
    if renewable is None and reported.request.electricity.contracted_ratio is not None:
        renewable = reported.request.electricity.contracted_ratio * float(total.value)
    water = asked.water_input_l
    return [
        line("E_IT", "Energy of IT equipment", it_energy, "kWh", "estimated or given"),
        line("E_DC", "Energy of the data centre", total, "kWh", how),
        line(
            "PUE",
            "Power usage effectiveness",
            power_usage_effectiveness(metered, it_energy)
            if metered is not None
            else reported.answer["electricity"]["pue_ratio"],
            "1",
            "E_DC / E_IT" if metered is not None else "of the place",
        ),
        line(
            "WUE",
            "Water usage effectiveness",
            water_usage_effectiveness(water, it_energy)
            if water is not None
            else reported.answer["electricity"]["wue_l_per_kwh"],
            "L/kWh",
            "water input / E_IT" if water is not None else "of the place",
            ""
            if water is not None
            else "operators report evaporation, the directive asks for input",
        ),
        line(
            "ERF",
            "Energy reuse factor",
            None if reused is None else share_of_total(reused, total),
            "1",
            "E_reuse / E_DC",
            _note(reused),
        ),
        line(
            "REF",
            "Renewable energy factor",
            None if renewable is None else share_of_total(renewable, total),
            "1",
            "E_renewable / E_DC",
            _note(renewable),
        ),
    ]


def csrd(reported: Reported) -> list[ReportLine]:
    """Figures for the EU's sustainability reporting standards, first set of 2023."""
    period = reported.period
    carbon, water, streams = period["carbon"], period["water"], period["e_waste_streams"]
    scope = "2" if reported.request.disclosure.role == "operator" else "3"
    return [
        line(
            "E1-5",
            "Energy consumption",
            period["facility_energy_kwh"],
            "MWh",
            "IT energy · PUE",
            size=_KWH_PER_MWH,
        ),
        line(
            "E1-6",
            f"Gross scope {scope}, location-based",
            carbon["operational_location_gco2e"],
            "tCO2e",
            "GHG Protocol",
            size=_TONNE,
        ),
        line(
            "E1-6",
            f"Gross scope {scope}, market-based",
            carbon["operational_market_gco2e"],
            "tCO2e",
            "GHG Protocol",
            size=_TONNE,
        ),
        line(
            "E1-6",
            "Gross scope 3, manufacturing of hardware",
            carbon["embodied_gco2e"],
            "tCO2e",
            f"{reported.answer['hardware']['amortisation']} amortisation",
            size=_TONNE,
        ),
        line(
            "E3-4",
            "Water consumption, own operations",
            water["on_site_l"],
            "m³",
            "IT energy · WUE",
            size=_LITRES_PER_M3,
        ),
        line(
            "E3-4",
            "Water consumption, electricity",
            water["off_site_l"],
            "m³",
            "facility energy · EWIF",
            "value chain, not own operations",
            size=_LITRES_PER_M3,
        ),
        line(
            "E5-5",
            "Waste, electronic",
            period["e_waste_kg"],
            "t",
            "mass worn over the service life",
            size=_KG_PER_TONNE,
        ),
        line(
            "E5-5",
            "Waste, electronic, collected",
            None if streams is None else streams["collected_kg"],
            "t",
            "share documented as collected",
            size=_KG_PER_TONNE,
        ),
    ]


def annex_xi(reported: Reported) -> list[ReportLine]:
    """Energy and compute of a model for the EU's AI Act, Annex XI, section 1, point 2."""
    asked = reported.request.disclosure
    parameters, tokens = asked.model_parameters, asked.training_tokens
    flop = (
        None
        if parameters is None or tokens is None
        else exact(training_compute_flop(parameters, tokens))
    )
    return [
        line(
            "2(d)",
            "Computational resources",
            flop,
            "FLOP",
            "6 · parameters · tokens",
            _note(flop) or "recomputation of activations is not counted",
        ),
        line(
            "2(d)",
            "Accelerator time",
            reported.period["accelerator_hours"],
            "h",
            "given, or reserved by the deployment",
        ),
        line(
            "2(e)",
            "Energy consumption, IT equipment",
            reported.it_energy_kwh,
            "MWh",
            "known or estimated",
            size=_KWH_PER_MWH,
        ),
        line(
            "2(e)",
            "Energy consumption, data centre",
            reported.facility_energy_kwh,
            "MWh",
            "IT energy · PUE",
            size=_KWH_PER_MWH,
        ),
        line(
            "voluntary",
            "Emissions, location-based",
            reported.period["carbon"]["operational_location_gco2e"],
            "tCO2e",
            "facility energy · average of the grid",
            "the annex does not ask for it",
            size=_TONNE,
        ),
    ]


def _both(amount: float | None, factor: float | None) -> Interval | None:
    return None if amount is None or factor is None else exact(amount * factor)


def _note(known: object) -> str:
    return "" if known is not None else _ASKED


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of report: the standard it follows and what makes its lines."""

    standard: str
    lines: Callable[[Reported], list[ReportLine]]


KINDS: Mapping[str, Kind] = {
    "sci": Kind("Software Carbon Intensity, ISO/IEC 21031:2024", sci),
    "ghg-protocol": Kind(
        "GHG Protocol Corporate Standard, Scope 2 Guidance 2015, Scope 3 Standard 2011",
        ghg_protocol,
    ),
    "eed": Kind("Commission Delegated Regulation (EU) 2024/1364", eed),
    "csrd": Kind(
        "European Sustainability Reporting Standards, Delegated Regulation (EU) 2023/2772", csrd
    ),
    "ai-act-annex-xi": Kind("Regulation (EU) 2024/1689, Annex XI, section 1", annex_xi),
}
