"""What is asked about rules: the place, the day, and what is known of site, company and model."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from service.estimation.detail import FieldPaths, Grounded
from service.estimation.references import CatalogRequest, Ratio, Reference, RegionReference, Request

Amount = Annotated[float, Field(ge=0.0, le=1e18)]
Level = Annotated[float, Field(ge=-50.0, le=200.0)]


class RuleFacts(Request):
    """Facts that rules depend on; what is left out stays unknown and is never assumed."""

    on: datetime.date
    """Day for which the rules are checked."""
    subject: Literal["site", "company", "model"] | None = None
    """Only rules on this subject; if null, all rules."""
    locality: Reference | None = Field(None, examples=["fairfax-va"])
    """County or city that has rules of its own, by the name of the rules or as people write it
    ("Fairfax County, Virginia"); "none" for a place without. One that no rule of the place names
    leaves such rules unknown, with a warning."""
    it_power_kw: Amount | None = None
    """Installed IT power of the site."""
    connected_load_kw: Amount | None = None
    """Non-redundant connected load of the site."""
    connection_kva: Amount | None = None
    """Maximum import capacity of the site's connection."""
    area_ha: Amount | None = None
    """Land of the site [ha]."""
    commissioned_on: datetime.date | None = None
    """First day of operation of the site."""
    new_site: bool | None = None
    """Whether the site still needs a permit."""
    new_capacity: bool | None = None
    """Whether new or additional power is requested."""
    defence: bool = False
    """Whether it serves only defence or civil protection."""
    pue_ratio: Annotated[float, Field(ge=1.0, le=10.0)] | None = None
    """Annual mean PUE; if null, the range that the catalog has for the place."""
    energy_reuse_ratio: Ratio | None = None
    """ERF: energy reused over total energy."""
    renewable_ratio: Ratio | None = None
    """Renewable share of electricity."""
    additional_renewable_ratio: Ratio | None = None
    """Share of the demand from new renewable generation in the country."""
    dispatchable_capacity_ratio: Amount | None = None
    """Own dispatchable power over maximum import capacity."""
    receptor_zone: (
        Literal[
            "industrial", "commercial", "mixed", "residential", "purely-residential", "hospital"
        ]
        | None
    ) = None
    """Kind of area where the sound is heard."""
    noise_day_db: Level | None = None
    """Level at the receptor by day [dBA]."""
    noise_night_db: Level | None = None
    """Level at the receptor by night [dBA]."""
    tonal_day_dbc: Level | None = None
    """Steady tonal sound by day [dBC]."""
    tonal_night_dbc: Level | None = None
    """Steady tonal sound by night [dBC]."""
    noise_above_baseline_db: Level | None = None
    """Level at the receptor above that before construction [dB]."""
    noise_study: bool | None = None
    """Whether noise is studied before and after construction."""
    building_setback_m: Amount | None = None
    """From the building to residential lots."""
    equipment_setback_m: Amount | None = None
    """From equipment to residential lots."""
    metro_distance_m: Amount | None = None
    """From the site to the nearest entrance of a Metro station [m]."""
    employees: Amount | None = None
    """People that the company employs."""
    turnover_eur: Amount | None = None
    """Net turnover of the company per year [EUR]."""
    revenue_usd: Amount | None = None
    """Revenue of the company per year [USD]."""
    california_business: bool | None = None
    """Whether the company does business in California."""
    sec_registrant: bool | None = None
    """Whether the company files reports with the US Securities and Exchange Commission."""
    eu_model_provider: bool | None = None
    """Whether a general-purpose model is placed on the EU market."""
    training_flop: Annotated[float, Field(ge=0.0, le=1e40)] | None = None
    """Compute used to train the model; if null, an estimate of training computes it."""


class ComplianceRequest(RuleFacts, CatalogRequest):
    """A place, a day, and what is known of a site, a company or a model there."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "region": "country/DE",
                    "on": "2026-11-21",
                    "it_power_kw": 2000,
                    "connected_load_kw": 2600,
                    "commissioned_on": "2027-03-01",
                    "pue_ratio": 1.25,
                    "energy_reuse_ratio": 0.12,
                    "receptor_zone": "residential",
                    "noise_day_db": 48,
                    "noise_night_db": 42,
                }
            ]
        }
    )

    region: RegionReference = Field(examples=["country/DE"])
    """Cloud region, country, grid zone, or an inline region."""
    explain: bool = False
    """Add every comparison that decided a verdict."""
    include: Grounded = ()
    fields: FieldPaths = ()


#: Facts that callers can give, by the names that rules use.
FACTS = frozenset(RuleFacts.model_fields) - {"on", "subject"}
