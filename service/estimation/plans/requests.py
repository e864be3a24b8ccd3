"""What callers may ask about plans."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from service.core.years import DAYS_PER_YEAR
from service.estimation.compliance.requests import RuleFacts
from service.estimation.detail import FieldPaths, Sourced
from service.estimation.impacts.requests import ElectricityRequest, HardwareRequest, SiteRequest
from service.estimation.inference.requests import PlacedRequest, TimeLimitsRequest
from service.estimation.references import (
    AcceleratorReference,
    CatalogRequest,
    FacilityRequest,
    ModelReference,
    PlatformReference,
    PowerLimit,
    Ratio,
    RegionReference,
    Request,
)
from service.estimation.requests import PrecisionRequest, ServingRequest, WorkloadRequest

_Growth = Annotated[float, Field(ge=-0.95, le=20.0)]
_Rate = Annotated[float, Field(ge=1e-6, le=1e9)]

EXAMPLE_UNIT: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 1,
    "region": "aws/eu-north-1",
    "workload": {"input_tokens": 1024, "output_tokens": 256},
    "limits": {"ttft_p95_s": 1.0, "tpot_p95_s": 0.05},
}


#: Rates of an office day, hour by hour.
_EXAMPLE_DAY: list[Any] = [
    *(2, 1, 1, 1, 2, 4, 8, 14, 20, 24, 26, 26),
    *(25, 25, 24, 22, 20, 18, 16, 14, 12, 9, 6, 4),
]


class TokenPriceRequest(Request):
    """What a provider asks for tokens of a model, to hold renting and owning against."""

    provider: str = Field(min_length=1, max_length=100, examples=["an API"])
    """Whose price it is; shown in the answer."""
    usd_per_million_input_tokens: float = Field(ge=0.0, le=1e6)
    """Price of tokens of prompts."""
    usd_per_million_output_tokens: float = Field(ge=0.0, le=1e6)
    """Price of tokens that are generated."""
    usd_per_million_cached_tokens: float | None = Field(None, ge=0.0, le=1e6)
    """Price of tokens of prompts that are found in a cache (workload.prefix_cached_ratio); if null,
    that of others."""
    change_per_year_ratio: float = Field(0.0, ge=-0.9, le=1.0)
    """By how much the prices change each year."""
    priced_on: datetime.date | None = None
    """Day on which the provider asked these prices, which change within weeks; shown in the
    answer."""
    gco2e_per_1k_output_tokens: float | None = Field(None, ge=0.0, le=1e6)
    """Emissions of 1,000 generated tokens as the provider publishes them."""
    l_per_1k_output_tokens: float | None = Field(None, ge=0.0, le=1e6)
    """Water of 1,000 generated tokens as the provider publishes it."""


class FleetLoadRequest(Request):
    """A model that is served over years, and how its load grows."""

    name: str = Field(min_length=1, max_length=100, examples=["chat"])
    """What you call it; names must differ."""
    deployment: PlacedRequest
    """One copy of what serves it, as a request for an estimate without a load: the plan says how
    many copies there are, and at what rate requests reach them. With ``limits`` a copy carries as
    much as keeps them, else as much as it can."""
    requests_per_s: _Rate
    """Mean rate of requests in the first year of this load."""
    peak_ratio: float = Field(1.0, ge=1.0, le=1000.0)
    """Rate in the busiest hour over the mean rate; copies are counted for the busiest hour."""
    growth_per_year_ratio: _Growth = 0.0
    """By how much the rate grows each year: 0.5 for half as much again, negative if it shrinks."""
    token_price: TokenPriceRequest | None = None
    """Price of buying the tokens of such requests from a provider instead."""
    starts_in_year: int = Field(1, ge=1, le=50)
    """Year of the plan in which it is first served, from 1."""
    ends_after_year: int | None = Field(None, ge=1, le=50)
    """Year of the plan in which it is last served; if null, the last."""


class FleetPlanRequest(CatalogRequest):
    """Several models and loads over years."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "years": 5,
                    "loads": [
                        {
                            "name": "chat",
                            "deployment": EXAMPLE_UNIT,
                            "requests_per_s": 20.0,
                            "peak_ratio": 2.5,
                            "growth_per_year_ratio": 0.4,
                        }
                    ],
                    "refresh_years": 4,
                }
            ]
        }
    )

    years: int = Field(5, ge=1, le=30)
    """How many years are planned."""
    loads: list[FleetLoadRequest] = Field(min_length=1, max_length=20)
    """What is served; at most 20."""
    reserve_ratio: float = Field(0.2, ge=0.0, le=0.95)
    """Share of what copies can carry that stays free in the busiest hour."""
    spare_copies: int = Field(0, ge=0, le=1000)
    """Copies of each load that stand by in case others fail: 1 for N+1."""
    refresh_years: int = Field(5, ge=1, le=20)
    """Years after which accelerators are replaced."""
    second_life_years: float = Field(0.0, ge=0.0, le=20.0)
    """Years that they serve somebody else after that; emissions of their manufacturing are shared
    with those years."""
    grid_change_per_year_ratio: float = Field(0.0, ge=-0.9, le=1.0)
    """By how much the emissions of a kilowatt-hour change each year; -0.05 for 5 % less."""
    purchase_price_change_per_year_ratio: float = Field(0.0, ge=-0.9, le=1.0)
    """By how much purchase prices change each year."""
    discount_per_year_ratio: Ratio = 0.0
    """Interest that money of later years is discounted by."""
    include: Sourced = ()
    fields: FieldPaths = ()


class ContractRequest(Request):
    """Electricity that is bought from plants by contract, and when they generate."""

    generation: list[Annotated[float, Field(ge=0.0, le=1e12)]] = Field(
        min_length=1, max_length=1440, examples=[[0.0, 3.0, 5.0, 1.0]]
    )
    """What the plants generate in each interval, as many as there are rates. Their shape counts, in
    any unit: a day of a wind park or a solar field, or the same in all."""
    contracted_ratio: float = Field(1.0, ge=0.0, le=100.0)
    """What they generate in a day over what is consumed in it; above 1 where more is contracted."""
    gco2e_per_kwh: float = Field(0.0, ge=0.0, le=5000.0)
    """Emissions of the contracted electricity; 0 for carbon-free energy."""
    residual_gco2e_per_kwh: Annotated[float, Field(ge=0.0, le=5000.0)] | None = None
    """Emissions of the rest; if null, the residual mix of the place, or its average."""


class DeferrableRequest(Request):
    """Requests that can wait for a cleaner grid."""

    ratio: Ratio
    """Share of the requests of each interval that can wait."""
    within_s: float = Field(ge=0.0, le=604_800.0)
    """How long they can wait; whole intervals count."""


class TrafficPlanRequest(CatalogRequest):
    """A day's traffic, and how many copies serve it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "deployment": EXAMPLE_UNIT,
                    "requests_per_s": _EXAMPLE_DAY,
                    "scaling": "each-interval",
                    "start_s": 120.0,
                }
            ]
        }
    )

    deployment: PlacedRequest
    """One copy of what serves it, as a request for an estimate without a load. With ``limits`` a
    copy carries as much as keeps them, else as much as it can."""
    requests_per_s: list[Annotated[float, Field(ge=0.0, le=1e9)]] = Field(
        min_length=1, max_length=1440
    )
    """Mean rate of requests in each interval of the day, in order; requests come at random within
    an interval."""
    interval_s: float = Field(3600.0, ge=60.0, le=86_400.0)
    """Length of an interval."""
    include: Sourced = ()
    fields: FieldPaths = ()
    scaling: Literal["fixed", "each-interval"] = "fixed"
    """fixed: as many copies as the busiest interval needs, all day; each-interval: as many as each
    interval needs."""
    copies: int | None = Field(None, ge=1, le=100_000)
    """Copies that are there all day, instead of as many as are needed."""
    reserve_ratio: float = Field(0.2, ge=0.0, le=0.95)
    """Share of what copies can carry that stays free."""
    spare_copies: int = Field(0, ge=0, le=1000)
    """Copies that stand by in case others fail: 1 for N+1."""
    least_copies: int = Field(1, ge=0, le=100_000)
    """Copies that stay where there is little to do; with 0, none runs without requests."""
    start_s: float = Field(0.0, ge=0.0, le=3600.0)
    """Time that a copy takes to start, idle and paid for, before the interval that needs it."""
    starts_at_hour: float = Field(0.0, ge=0.0, lt=24.0)
    """Local hour at which the first interval begins, for the grid's intensity by the hour."""
    month: int | None = Field(None, ge=1, le=12)
    """Month of the day, for the grid's intensity; if null, a mean day of the year."""
    grid_gco2e_per_kwh: list[Annotated[float, Field(ge=0.0, le=5000.0)]] | None = Field(
        None, min_length=1, max_length=1440
    )
    """Intensity of the grid in each interval, as many as there are rates; if null, the place's
    average, with the shape of a day where the catalog has one for its grid."""
    contract: ContractRequest | None = None
    """Contracted generation, to hold the day's consumption against, by the hour and as a whole."""
    deferrable: DeferrableRequest | None = None
    """Requests that can wait; the answer then says what that saves."""
    days_per_year: float = Field(DAYS_PER_YEAR, gt=0.0, le=366.0)
    """Days like this in a year."""


class SiteOptionRequest(Request):
    """Hardware that could fill a site."""

    accelerator: AcceleratorReference = Field(examples=["nvidia-h100-sxm-80gb"])
    """Catalog id or alias, or an inline accelerator."""
    platform: PlatformReference | None = Field(None, examples=["nvidia-dgx-h100"])
    """Machine that it stands in; if null, the one that it usually stands in."""
    power_limit_w: PowerLimit | None = None
    """Limit of power of each accelerator; if null, its thermal design power."""


class SiteServedRequest(Request):
    """What a site is to serve."""

    model: ModelReference = Field(examples=["meta-llama/Llama-3.1-70B"])
    """Catalog id or alias, hf:organisation/name, or {'config': …}."""
    precision: PrecisionRequest = PrecisionRequest()
    workload: WorkloadRequest = WorkloadRequest()
    """Lengths of requests, without a load: the plan says how many a second there may be."""
    serving: ServingRequest = ServingRequest()
    limits: TimeLimitsRequest | None = None
    """Times to keep; if null, machines carry as much as they can."""


class SitePlanRequest(CatalogRequest):
    """A site's power, racks, cooling and place, and hardware that could fill it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "region": "country/DE",
                    "site_kw": 5000.0,
                    "racks": 100,
                    "rack_kw": 40.0,
                    "options": [
                        {"accelerator": "nvidia-h100-sxm-80gb"},
                        {"accelerator": "amd-mi300x-192gb"},
                    ],
                    "serves": {
                        "model": "meta-llama/Llama-3.1-70B",
                        "precision": {"weights": "fp8"},
                        "workload": {"input_tokens": 1024, "output_tokens": 256},
                    },
                    "water_l_per_day": 100_000.0,
                    "compliance": {"on": "2026-11-22", "subject": "site"},
                }
            ]
        }
    )

    region: RegionReference = Field(examples=["country/DE"])
    """Where it is."""
    site_kw: float = Field(gt=0.0, le=1e8)
    """Power of the whole site, cooling and losses included [kW]."""
    racks: int = Field(ge=1, le=1_000_000)
    """Places for racks."""
    rack_kw: float = Field(gt=0.0, le=1e4)
    """Power that a rack may draw [kW]."""
    rack_air_kw: float | None = Field(None, gt=0.0, le=1e4)
    """Heat that the room's air removes from a rack [kW]; if null, as much as rack_kw."""
    machines_per_rack: int | None = Field(None, ge=1, le=1000)
    """Machines that a rack has room for; if null, as many as its power allows."""
    options: list[SiteOptionRequest] = Field(min_length=1, max_length=20)
    """Hardware to fill it with, each by itself."""
    reserve_ratio: float = Field(0.0, ge=0.0, le=0.95)
    """Share of the site's power that stays free."""
    serves: SiteServedRequest | None = None
    """What it is to serve; the answer then has the rate of requests that it carries."""
    water_l_per_day: float | None = Field(None, gt=0.0, le=1e13)
    """Most water that may evaporate on the site in a day [l]."""
    facility: FacilityRequest = FacilityRequest()
    electricity: ElectricityRequest = ElectricityRequest()
    hardware: HardwareRequest = HardwareRequest()
    site: SiteRequest = SiteRequest()
    """Cooling, machines that neighbours hear, and the rest; rack_kw and accelerators_per_rack
    follow from the plan."""
    compliance: RuleFacts | None = None
    """Facts for the rules of the place; installed power, connected load and noise follow from the
    plan where they are left out."""
    include: Sourced = ()
    fields: FieldPaths = ()
