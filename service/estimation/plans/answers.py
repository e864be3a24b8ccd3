"""Answers about plans."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias

from service.core.costs import PriceKind
from service.estimation.answers import Answer, Constraint, IfAny, Interval, Repeatable
from service.estimation.compliance.answers import VerdictCounts
from service.estimation.impacts.answers import SiteAnswer
from service.estimation.platforms import Facility


class Count(Answer):
    """A number of things: the central one, and those of the highest and the lowest capacity."""

    value: int
    """The central number."""
    low: int
    """The number if each copy carries as much as can be."""
    high: int
    """The number if each copy carries as little as can be."""


class FleetFigures(Answer):
    """Figures of a year, or of all years; null where a figure of a part is unknown."""

    accelerators: int
    """In use; of all years together, the most in one."""
    requests: float
    """Requests of all loads."""
    mean_it_power_w: Interval | None
    """Mean power of accelerators and hosts; of all years, that of the year with the most."""
    peak_facility_power_w: Interval | None
    """Power in the busiest hour with the building's share; of all years, the highest."""
    facility_energy_kwh: Interval | None
    operational_location_kgco2e: Interval | None
    embodied_kgco2e: Interval | None
    """Share of the manufacturing that the years in use carry."""
    water_l: Interval | None
    stress_weighted_l: Interval | None
    rented_usd: Interval | None
    """Rent of all machines for the whole time. An alternative to owning them: do not add both. Ends
    are those of the copies, too."""
    electricity_usd: Interval | None
    tokens_usd: Interval | None
    """Tokens bought from a provider instead; null unless every load states token_price."""
    tokens_kgco2e: Interval | None
    """Emissions of these tokens as their providers publish them, by methods of their own; null
    unless every load states gco2e_per_1k_output_tokens."""
    tokens_l: Interval | None
    """Likewise their water."""


class FleetYearOfLoad(FleetFigures):
    """A load in one year."""

    year: int
    """From 1."""
    requests_per_s: float
    """Mean rate."""
    copies: Count
    """Copies that serve the load in its busiest hour."""
    utilisation_ratio: float
    """Mean rate over what the copies can carry."""
    instances: int | None
    """Machines that are rented for the copies, whole; null where the request states the rent of an
    accelerator, or none is known."""


class FleetRental(Answer):
    """Machines that a load is rented on."""

    instance: str
    """Id in /v1/instances."""
    accelerators: int
    """Of one machine."""
    usd_per_hour: Interval
    """Of one machine."""
    price_kind: PriceKind
    """How the machines are rented."""
    price_region: str | None
    """Null if the price is the same everywhere."""
    price_date: str | None
    """Day, month or year of the price; null if it is yours."""


class FleetTokens(Answer):
    """Whose price of tokens a load is held against."""

    provider: str
    """Name of the provider, as the request gives it."""
    priced_on: str | None
    """Null where the request does not say."""


class FleetLoad(Answer):
    """A load over the years."""

    name: str
    """Name of the load, as the request gives it."""
    deployment: dict[str, Any]
    """One copy, with the layout that was chosen for it: a request for an estimate. A year is the
    estimate of ``copies`` times its accelerators and its ``parallelism.data`` at the year's
    ``requests_per_s``, with hardware kept for ``refresh_years``."""
    accelerators_per_copy: int
    """Accelerators of one copy."""
    capacity_requests_per_s: Interval
    """Highest rate that one copy carries, within its limits if there are any."""
    rental: FleetRental | None
    """Null where no machine is known to be rented out, or the request states the rent."""
    tokens: FleetTokens | None
    """Null without token_price."""
    years: list[FleetYearOfLoad]


class HardwareYear(Answer):
    """Accelerators of one kind in one year."""

    year: int
    """Counted from 1."""
    in_use: int
    """Accelerators that serve."""
    held: int
    """In use, and switched off because the need has shrunk."""
    bought: Count
    """At the start of the year."""
    retired: int
    """At the start of the year."""
    embodied_bought_kgco2e: Interval | None
    """All emissions of making what was bought, machines included."""
    retired_kg: Interval | None
    """Mass of what was retired, machines included: passed on if there is a second life, else
    waste."""
    purchase_usd: Interval | None
    """Price of what was bought."""
    depreciation_usd: Interval | None
    """Price of what is held, divided among the years that it is kept."""


class FleetHardware(Answer):
    """Accelerators of one kind over the years, shared by all loads that run on them."""

    accelerator: str
    platform: str | None
    """Machine by its id in /v1/platforms; null if none is known."""
    years: list[HardwareYear]


class FleetYear(FleetFigures):
    """All loads in one year."""

    year: int
    """Counted from 1."""
    bought: Count
    """Accelerators bought at the start of the year."""
    retired: int
    """Accelerators that went at the start of the year."""
    embodied_bought_kgco2e: Interval | None
    retired_kg: Interval | None
    purchase_usd: Interval | None
    depreciation_usd: Interval | None


class FleetTotals(FleetFigures):
    """All loads over all years."""

    bought: Count
    """Accelerators bought."""
    retired: int
    """Accelerators that went."""
    embodied_bought_kgco2e: Interval | None
    retired_kg: Interval | None
    purchase_usd: Interval | None
    depreciation_usd: Interval | None
    rented_present_usd: Interval | None
    """Value at the start of renting all the time."""
    tokens_present_usd: Interval | None
    """Value at the start of buying all tokens."""
    owned_present_usd: Interval | None
    """Value at the start of purchases and electricity, without what machines are still worth at the
    end."""


class FleetPlanAnswer(Repeatable):
    """A fleet over years. Ends of intervals add up, as one error is in all years."""

    loads: list[FleetLoad]
    hardware: list[FleetHardware]
    years: list[FleetYear]
    totals: FleetTotals


class TrafficInterval(Answer):
    """An interval of the day. Null where a figure is unknown, or grows without bound."""

    start_s: float
    """From the start of the day."""
    requests_per_s: float
    """Rate of requests in the interval."""
    copies: int
    """Copies that run."""
    accelerators: int
    """Accelerators that run."""
    utilisation_ratio: float | None
    """Rate over what the copies can carry; null without copies."""
    keeps_limits: bool | None
    """Whether the interval is within deployment.limits; null without limits or requests."""
    ttft_p95_s: Interval | None
    tpot_p95_s: Interval | None
    e2e_p95_s: Interval | None
    facility_energy_kwh: Interval | None
    """Starts of copies included."""
    grid_gco2e_per_kwh: Interval | None
    operational_location_gco2e: Interval | None
    rented_usd: Interval | None


class TrafficTotals(Answer):
    """All intervals, or all days of a year; several days together are as many of a year."""

    requests: float
    """Requests that come."""
    accelerator_hours: float
    facility_energy_kwh: Interval | None
    operational_location_kgco2e: Interval | None
    rented_usd: Interval | None


class TrafficSavings(Answer):
    """The plan over one that keeps the copies of the busiest interval all day."""

    accelerator_hours_ratio: float
    """Hours of accelerators, over those of the fixed plan."""
    facility_energy_ratio: float | None
    """Energy, over that of the fixed plan; null if not known."""
    operational_location_ratio: float | None
    """Emissions of the electricity, over those of the fixed plan; null if not known."""
    rented_ratio: float | None
    """Rent, over that of the fixed plan; null if not known."""


class GridShape(Answer):
    """Where the shape of the grid's day is from."""

    name: str
    """Name of the grid."""
    year: int
    time_zone: str
    """Time zone of its hours (IANA)."""
    source: str


class TrafficContract(Answer):
    """The day's consumption against contracted generation, by the market-based method."""

    contracted_kwh: float
    """Generated in the day."""
    surplus_kwh: float
    """Generated beyond what the same interval consumes."""
    annual_matched_ratio: float
    """Share of the consumption that is covered if generation at any time counts."""
    hourly_matched_ratio: float
    """Share that is covered by generation in the same interval, never more: what
    electricity.hourly_matched_ratio takes elsewhere."""
    annual_market_kgco2e: Interval | None
    """Emissions of the day if generation at any time counts."""
    hourly_market_kgco2e: Interval | None
    """Emissions of the day if generation counts in its interval alone."""


class TrafficShift(Answer):
    """The day where requests that can wait are served when the grid is cleaner."""

    requests_per_s: list[float]
    """In each interval, no higher than in the busiest without waiting."""
    moved_ratio: float
    """Share of all requests that are served later."""
    day: TrafficTotals
    operational_location_ratio: float | None
    """Emissions of the day over those without waiting; null where they are unknown."""


class TrafficPlanAnswer(Repeatable):
    """A day of traffic: copies, times, energy, emissions and rent, interval by interval."""

    deployment: dict[str, Any]
    """One copy, with the layout that was chosen for it: a request for an estimate."""
    accelerators_per_copy: int
    """Accelerators of one copy."""
    capacity_requests_per_s: Interval
    """Highest rate that one copy carries, within its limits if there are any."""
    copies: int
    """The most that run at once."""
    intervals: list[TrafficInterval]
    day: TrafficTotals
    year: TrafficTotals
    idle_ratio: float
    """Share of what the copies could have carried that nobody asked for."""
    within_limits_ratio: float | None
    """Share of requests that come in intervals within deployment.limits; null without limits."""
    worst_ttft_p95_s: Interval | None
    """In the slowest interval; null where it grows without bound."""
    against_fixed: TrafficSavings
    contract: NotRequired[IfAny[TrafficContract]]
    shifting: NotRequired[IfAny[TrafficShift]]
    grid_shape: GridShape | None
    """Null where intensities are the request's own, or one average."""


SiteLimit: TypeAlias = Literal["site_power", "racks", "rack_power", "rack_air_cooling", "water"]


class SiteServed(Answer):
    """What an option serves."""

    deployment: dict[str, Any]
    """What one machine or more of them run, with the layout that was chosen: a request for an
    estimate."""
    copies: int
    """Copies that the machines hold."""
    requests_per_s: Interval
    """Highest rate of all copies, within limits if there are any."""
    output_tokens_per_s: Interval | None
    """At that rate; null where nothing is generated."""


class SiteOption(Answer):
    """A site filled with one kind of hardware. Null where a figure is unknown."""

    accelerator: str
    platform: str | None
    """Machine by its id in /v1/platforms; null if none is known."""
    accelerators: int
    """Accelerators of all machines."""
    machines: int
    """Machines that the site has room, power and cooling for."""
    machines_per_rack: int
    """Machines that a rack takes."""
    racks_used: int
    """Racks that hold a machine."""
    limited_by: SiteLimit
    """What keeps more of it out: power or water of the site, the number of racks, how much heat
    the room's air removes from a rack, or that no machine may stand in a rack of that power."""
    memory_bytes: float
    """Memory of all accelerators."""
    machine_kw: float
    """Most power of one machine: as its maker rates it, else accelerators and host at full load."""
    it_kw: float
    """Most power of all machines."""
    facility_kw: Interval
    """The same with the building's share."""
    facility_energy_kwh_per_year: Interval | None
    operational_location_kgco2e_per_year: Interval | None
    operational_market_kgco2e_per_year: Interval | None
    """By contracts, and the residual mix for the rest."""
    marginal_signal_kgco2e_per_year: Interval | None
    """What the electricity adds on the grid, part of no total; null without
    electricity.marginal_gco2e_per_kwh, or the place's."""
    embodied_kgco2e_per_year: Interval | None
    water_on_site_l_per_day: Interval | None
    water_l_per_day: Interval | None
    """With that of making the electricity."""
    e_waste_kg_per_year: Interval | None
    e_waste_uncollected_kg_per_year: Interval | None
    treatment_kgco2e_per_year: Interval | None
    """Of treating the waste, part of no total; null without hardware.treatment_kgco2e_per_kg."""
    land_m2: Interval | None
    """Land that the machines take up of the site; null without site.area_m2."""
    site: SiteAnswer | None
    """Noise, heat, vibration and town water; null without machines."""
    serves: SiteServed | None
    """Null unless asked for, or where the machines do not hold the model."""
    constraints: list[Constraint]
    """Hard limits of the site."""
    rules: VerdictCounts | None
    failed_rules: list[str]
    """Rules of the place that it breaks, by name."""
    missing_facts: list[str]
    """Facts that rules still need."""
    permitted: Literal["yes", "no", "unknown"] | None
    """By the rules of the place; null unless compliance is asked for, and without machines."""
    first_broken: str | None
    """The first limit or rule that it breaks, if any."""


class SitePlanAnswer(Repeatable):
    """What fills a site, what it then draws, emits and serves, and what stands against it."""

    region: str
    facility: Facility
    """The building, which is the same for all options."""
    options: list[SiteOption]
    """In the order of the request."""
