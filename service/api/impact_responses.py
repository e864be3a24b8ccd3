"""Shapes of answers about impacts, for the OpenAPI document and the test that holds to them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.responses import (
    Answer,
    DeploymentEnergy,
    Impact,
    Interval,
    PlacedDeployment,
    Repeatable,
)


class Confidence(Answer):
    """How far a figure may be trusted, in words."""

    level: Literal["high", "medium", "low", "unknown"]
    reason: str


class EmbodiedParts(Answer):
    """Share of the making of hardware, by what is made."""

    accelerators_gco2e: Interval | None
    servers_gco2e: Interval | None
    added_memory_gco2e: Interval | None


class WasteStreams(Answer):
    """Electronic waste by machine, by material, and by where it goes."""

    accelerators_kg: Interval
    servers_kg: Interval
    boards_kg: Interval | None
    batteries_kg: Interval | None
    other_kg: Interval | None
    collected_kg: Interval | None
    uncollected_kg: Interval | None
    avoided_kg: Interval = Field(description="What a first life without reuse would have added.")


class DetailedImpact(Impact):
    """Footprint of one basis with its parts."""

    embodied_parts: EmbodiedParts | None
    e_waste_streams: WasteStreams | None
    land_m2_years: Interval | None = Field(
        description="Share of the site's land; null without area_m2."
    )


class DetailedDeploymentImpacts(Answer):
    """Footprint per request, 1,000 output tokens, task, year and period."""

    per_request: DetailedImpact
    per_1k_tokens: DetailedImpact
    per_task: DetailedImpact
    per_year: DetailedImpact
    period: DetailedImpact = Field(
        description="Of period.days, or of period.requests where they are given."
    )


class PlainImpacts(Answer):
    """Footprint of the energy or accelerator time that was given."""

    period: DetailedImpact
    per_request: DetailedImpact | None = Field(description="If period.requests was given.")
    per_year: DetailedImpact | None = Field(description="If period.days was given.")


class PlainEnergy(Answer):
    """Energy that was given, or follows from accelerator time."""

    it_energy_kwh: Interval


class Electricity(Answer):
    """Factors of the place that were used."""

    grid_gco2e_per_kwh: Interval | None
    grid_year: int | None
    market_gco2e_per_kwh: Interval | None
    marginal_gco2e_per_kwh: Interval | None
    contracted_ratio: float | None
    matching: Literal["annual", "hourly"]
    pue_ratio: Interval
    wue_l_per_kwh: Interval | None
    ewif_l_per_kwh: Interval | None


class Hardware(Answer):
    """How the making of hardware was shared out."""

    amortisation: Literal["calendar", "busy-hours"]
    life_years: Interval
    second_life_years: float
    in_use_ratio: float
    reused_ratio: float
    accelerator_embodied_kgco2e: Interval | None
    server_share_embodied_kgco2e: Interval
    added_memory_embodied_kgco2e: Interval | None
    embodied_basis: str | None = Field(description="Which sources the range spans.")
    avoided_gco2e: Interval | None = Field(
        description="Embodied carbon of the period that a second life and reuse avoid."
    )


class NoiseAtReceptor(Answer):
    """Sound of the site's machines at a neighbour's place, in A-weighted decibels."""

    sound_power_db: float
    distance_m: float
    sound_pressure_db: Interval = Field(description="Level at the receptor.")
    limit_db: float | None
    margin_db: Interval | None = Field(description="Positive below the limit.")
    required_distance_m: Interval | None = Field(description="Distance at which the limit is kept.")
    confidence: Confidence


class RackHeat(Answer):
    """Heat of a rack and how it is carried away."""

    rack_kw: Interval
    air_cooled_kw: Interval = Field(description="Part that air carries.")
    airflow_m3_per_s: Interval
    cooling_class: str = Field(description="Cooling that such a density usually gets.")
    confidence: Confidence


class VibrationIndex(Answer):
    """An order of concern from 0 to 100, no probability."""

    index: float
    band: Literal["low", "medium", "high"]
    drivers: dict[str, float] = Field(description="What makes up the index.")
    expected_failures: None = Field(description="Always null: no public rate was found.")
    confidence: Confidence


class MunicipalWater(Answer):
    """On-site water beside the supply of a town."""

    supply_l_per_day: float
    used_on_site_ratio: Interval


class SiteAnswer(Answer):
    """What the site's neighbours and machines notice; null where too little was given."""

    noise: NoiseAtReceptor | None
    heat: RackHeat | None
    vibration: VibrationIndex | None
    municipal_water: MunicipalWater | None


class Equivalence(Answer):
    """An everyday thing that amounts to as much as the period."""

    name: str
    unit: str
    of: str
    amount: Interval | None
    yardstick: str
    yardstick_value: float
    source: str
    url: str


class ImpactsAnswer(Repeatable):
    """Energy, carbon, water, waste and what a site's neighbours notice."""

    deployment: PlacedDeployment | None
    region: str
    energy: DeploymentEnergy | PlainEnergy | None
    impacts: DetailedDeploymentImpacts | PlainImpacts | None
    electricity: Electricity | None
    hardware: Hardware | None
    site: SiteAnswer | None
    confidence: dict[str, Confidence] | None
    equivalences: list[Equivalence] | None


class MemoryChoiceAnswer(Repeatable):
    """On which grids slower memory that is cheaper to make beats faster memory."""

    saved_kgco2e_per_gb: Interval = Field(description="Negative where faster memory takes less.")
    saved_gco2e_per_token: Interval
    extra_kwh_per_token: Interval
    break_even_gco2e_per_kwh: Interval | None = Field(
        description="Grid intensity below which the slower memory is better; null if never."
    )
    region: str | None
    grid_gco2e_per_kwh: Interval | None
    better: Literal["slower", "faster", "undecided"] | None = Field(
        description="undecided where the intervals overlap; null where no grid is known, unless "
        "the faster memory is better on every grid."
    )
