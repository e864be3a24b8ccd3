"""Answers about impacts: energy, carbon, water, waste, and what a site's neighbours notice."""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias

from service.estimation.answers import Answer, IfAny, Interval, Repeatable
from service.estimation.detail import part_of
from service.estimation.inference.echo import PlacedDeployment
from service.estimation.platforms import Facility


@part_of("energy.breakdown")
class DeploymentEnergyParts(Answer, total=False):
    """Power and energy by part, before the building's share."""

    accelerator_busy_power_w: Interval
    """Per accelerator, while requests are in flight."""
    accelerator_idle_power_w: Interval
    """Per accelerator, with a model in memory but no requests."""
    accelerator_mean_power_w: Interval
    """Per accelerator, averaged over all time."""
    host_power_per_accelerator_w: Interval
    """The accelerator's share of the machine's power, including losses of power supplies."""
    memory_tiers_power_per_accelerator_w: IfAny[Interval]
    """Power of traffic to serving.memory_tiers, as far as its energy is known; part of
    it_power_w."""
    accelerator_prefill_power_w: Interval
    """Per accelerator, while prompts are computed."""
    accelerator_decode_power_w: Interval
    """Per accelerator, while tokens are decoded."""
    memory_utilisation_ratio: float
    """Share of peak bandwidth while busy."""
    compute_utilisation_ratio: float
    """Share of peak FLOP/s while busy."""
    accelerator_energy_per_request_wh: Interval
    host_energy_per_request_wh: Interval
    accelerator_energy_per_output_token_j: Interval | None
    """Null where nothing is generated."""


class DeploymentEnergy(DeploymentEnergyParts):
    """Power and energy of the deployment, before the building's share."""

    it_power_w: Interval
    """Mean power of the whole deployment at the wall socket, without PUE."""
    busy_ratio: float
    """Share of time in which requests are in flight."""
    it_energy_per_request_wh: Interval
    """Energy of accelerators and hosts per request, including idle time."""


@part_of("impacts.breakdown")
class CarbonSignal(Answer, total=False):
    """What belongs to no total."""

    marginal_signal_gco2e: IfAny[Interval]
    """Additional emissions that this electricity use causes on the grid; for decisions, not part of
    any total."""


class Carbon(CarbonSignal):
    """Greenhouse gases. Null where a factor is unknown; the two methods are never netted."""

    operational_location_gco2e: Interval | None
    """Facility energy × average grid intensity."""
    operational_market_gco2e: Interval | None
    """Facility energy × intensity of the purchased electricity: contracts, and the residual mix for
    the rest."""
    embodied_gco2e: Interval | None
    """Share of manufacturing accelerators, machines around them and added memory."""
    total_gco2e: Interval | None
    """Sum of location-based operation and embodied emissions."""


@part_of("impacts.breakdown")
class WaterParts(Answer, total=False):
    """Where water is consumed."""

    on_site_l: Interval | None
    """Water that cooling evaporates on site."""
    off_site_l: Interval | None
    """Water that power stations evaporate."""
    stress_weighted_l: Interval | None
    """Total × withdrawal-to-supply ratio of the basin."""


class Water(WaterParts):
    """Water consumed. Null where a factor is unknown."""

    total_l: Interval | None


@part_of("impacts.breakdown")
class ImpactParts(Answer, total=False):
    """What a footprint has beside energy, carbon and water."""

    it_energy_kwh: Interval | None
    """Energy of the IT equipment, without the building's share (PUE)."""
    accelerator_hours: Interval | None
    """Accelerator time used."""
    e_waste_kg: Interval | None
    """Mass of hardware that is used up, less what is reused."""
    primary_energy_mj: Interval | None
    """Electricity and manufacturing together."""
    primary_energy_electricity_mj: Interval | None
    """Part from electricity."""
    abiotic_depletion_kgsbeq: Interval | None
    """Depletion by hardware and grid; null unless a factor of the grid is given."""
    abiotic_depletion_hardware_kgsbeq: Interval | None
    """Part from manufacturing hardware."""


class Impact(ImpactParts):
    """Footprint of one basis."""

    facility_energy_kwh: Interval | None
    """IT energy × PUE."""
    carbon: Carbon
    water: Water


class DeploymentImpacts(Answer):
    """Footprint per request, 1,000 output tokens (of input, to embed), task, year, period."""

    per_request: Impact
    per_1k_tokens: Impact
    per_task: NotRequired[Impact]
    """Left out where a task is a single request, unless include has impacts.breakdown."""
    per_year: Impact
    period: NotRequired[Impact]
    """For period.days, or for period.requests if given; left out where the request gives none,
    unless include has impacts.breakdown."""


Level: TypeAlias = Literal["high", "medium", "low", "unknown"]


class Confidence(Answer):
    """How reliable a figure is, in words."""

    level: Level
    """The level of confidence in one word."""
    reason: str


class EmbodiedParts(Answer):
    """Embodied emissions by component."""

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
    avoided_kg: Interval
    """What a single service life without reuse would add."""
    treatment_gco2e: Interval | None
    """Emissions of treating the waste, not part of any total: figures of manufacturing may have
    them already. Null without hardware.treatment_kgco2e_per_kg."""


@part_of("impacts.breakdown")
class DetailedParts(Answer, total=False):
    """Parts of a footprint."""

    embodied_parts: EmbodiedParts | None
    e_waste_streams: WasteStreams | None
    land_m2_years: Interval | None
    """Share of the site's land area; null without area_m2."""


class DetailedImpact(Impact, DetailedParts):
    """Footprint of one basis with its parts."""


class DetailedDeploymentImpacts(Answer):
    """Footprint per request, 1,000 output tokens, task, year and period."""

    per_request: DetailedImpact
    per_1k_tokens: DetailedImpact
    per_task: NotRequired[DetailedImpact]
    """Left out where a task is a single request, unless include has impacts.breakdown."""
    per_year: DetailedImpact
    period: NotRequired[DetailedImpact]
    """For period.days, or for period.requests if given; left out where the request gives none,
    unless include has impacts.breakdown."""


class PlainImpacts(Answer):
    """Footprint of the energy or accelerator time that was given."""

    period: DetailedImpact
    per_request: DetailedImpact | None
    """If period.requests was given."""
    per_year: DetailedImpact | None
    """Present if period.days was given."""


class PlainEnergy(Answer):
    """Energy that was given, or follows from accelerator time."""

    it_energy_kwh: Interval


class Electricity(Answer):
    """Factors of the place that were used."""

    grid_gco2e_per_kwh: Interval | None
    grid_year: int | None
    """Year of the grid's figure; null if none is known."""
    market_gco2e_per_kwh: Interval | None
    marginal_gco2e_per_kwh: Interval | None
    contracted_ratio: float | None
    """Share of the electricity that contracts cover; null if none were stated."""
    matching: Literal["annual", "hourly"]
    """Whether contracts are matched with the consumption of the year or of each hour."""
    pue_ratio: Interval
    wue_l_per_kwh: Interval | None
    ewif_l_per_kwh: Interval | None


class Hardware(Answer):
    """How embodied emissions were allocated."""

    amortisation: Literal["calendar", "busy-hours"]
    """Whether manufacturing is spread over calendar time or over busy hours."""
    life_years: Interval
    second_life_years: float
    """Years of use after the first life."""
    in_use_ratio: float
    """Share of its life in which the hardware is in use."""
    reused_ratio: float
    """Share of the hardware that had a life before."""
    accelerator_embodied_kgco2e: Interval | None
    server_share_embodied_kgco2e: Interval | None
    """Share of the machine; null where its manufacturing is unknown."""
    added_memory_embodied_kgco2e: Interval | None
    embodied_basis: str | None
    """Sources that the range covers."""
    avoided_gco2e: Interval | None
    """Embodied carbon in the period that a second life and reuse avoid."""


class NoiseAtReceptor(Answer):
    """Sound of the site's machines at a neighbour's place, in A-weighted decibels."""

    sound_power_db: float
    """Sound power of all sources together."""
    distance_m: float
    """Distance of the neighbour."""
    sound_pressure_db: Interval
    """Level at the receptor."""
    limit_db: float | None
    """Level that is allowed there; null if none is given."""
    margin_db: Interval | None
    """Positive below the limit."""
    required_distance_m: Interval | None
    """Distance at which the limit is met."""
    confidence: Confidence


class RackHeat(Answer):
    """Heat of a rack and how it is carried away."""

    rack_kw: Interval
    air_cooled_kw: Interval
    """Part that air removes."""
    airflow_m3_per_s: Interval
    cooling_class: str
    """Typical cooling for this density and this share of liquid."""
    air_cooling_class: str | None
    """Typical cooling for the part that air removes; null if liquid removes everything."""
    confidence: Confidence


class VibrationIndex(Answer):
    """A score from 0 to 100 for the risk of vibration; not a probability."""

    index: float
    """The score."""
    band: Literal["low", "medium", "high"]
    """The score in a word."""
    drivers: dict[str, float]
    """Parts of the index."""
    expected_failures: None
    """Always null: no public rate was found."""
    confidence: Confidence


class MunicipalWater(Answer):
    """On-site water compared with the supply of a town."""

    supply_l_per_day: float
    """Supply of the town, as the request gives it."""
    used_on_site_ratio: Interval


class SiteAnswer(Answer):
    """Effects on the site's neighbours and machines; null where too little was given."""

    noise: NoiseAtReceptor | None
    heat: RackHeat | None
    vibration: VibrationIndex | None
    municipal_water: MunicipalWater | None


class Equivalence(Answer):
    """An everyday equivalent of the period's impact."""

    name: str
    """What the impact is compared with."""
    unit: str
    """What the amount counts."""
    of: str
    """Field of the footprint that is compared."""
    amount: Interval | None
    """How much of it; null where the footprint is not known."""
    yardstick: str
    """Name of the figure for one unit."""
    yardstick_value: float
    """That figure, in the unit of its name."""
    source: str
    """Title of the document that the figure is from."""
    url: str


class Surroundings(Answer):
    """Factors, hardware and site that the figures rest on, and what they compare with."""

    electricity: Electricity | None
    hardware: Hardware | None
    site: SiteAnswer | None
    confidence: dict[str, Confidence] | None
    equivalences: list[Equivalence] | None
    """What people know that has as large a footprint; null where no power is known."""


class ImpactsAnswer(Surroundings, Repeatable):
    """Energy, carbon, water, waste, and effects on a site's neighbours."""

    deployment: PlacedDeployment | None
    region: str
    facility: Facility
    energy: DeploymentEnergy | PlainEnergy | None
    """Energy per request and token, or what was asked about as plain energy."""
    impacts: DetailedDeploymentImpacts | PlainImpacts | None
