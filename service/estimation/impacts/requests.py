"""What callers may ask about energy, carbon, water, waste and a site's neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from service.estimation.detail import FieldPaths, including
from service.estimation.references import (
    AcceleratorReference,
    CatalogRequest,
    FacilityRequest,
    Figure,
    ModelReference,
    PlatformReference,
    PowerLimit,
    Ratio,
    Reference,
    RegionReference,
    Request,
)
from service.estimation.requests import (
    EXAMPLE_DEPLOYMENT,
    EXAMPLE_WORKLOAD,
    ParallelismRequest,
    PeriodRequest,
    PrecisionRequest,
    ServingRequest,
    WorkloadRequest,
)

if TYPE_CHECKING:
    _Included: TypeAlias = tuple[str, ...]
else:
    _Included = including(
        "provenance", "explanation", "deployment", "energy.breakdown", "impacts.breakdown"
    )
Intensity = Annotated[float, Field(ge=0.0, le=5000.0)]
Decibels = Annotated[float, Field(ge=-50.0, le=200.0)]
Loss = Annotated[float, Field(ge=0.0, le=100.0)]
SpeedRatio = Annotated[float, Field(ge=0.1, le=10.0)]


class ElectricityRequest(Request):
    """How electricity is purchased, and the marginal intensity of the grid."""

    contracted_ratio: Ratio | None = None
    """Share of the electricity that is under contract (certificates, power purchase agreements,
    supplier tariffs). If given, the market-based method is computed."""
    contracted_gco2e_per_kwh: Intensity = 0.0
    """Emissions of the contracted electricity; 0 for carbon-free energy."""
    residual_gco2e_per_kwh: Intensity | None = None
    """Intensity of the residual mix, for electricity without a contract. If null, that of the
    place, or its average mix. Without contracted_ratio it applies to all electricity, in the
    market-based method."""
    marginal_gco2e_per_kwh: Intensity | None = None
    """Marginal intensity, a signal for decisions; never part of a total."""
    matching: Literal["annual", "hourly"] = "annual"
    """Period over which contracted electricity has to match consumption. hourly: only generation
    within the hour of consumption counts, as stated in hourly_matched_ratio; the rest has the
    residual mix."""
    hourly_matched_ratio: Ratio | None = None
    """Share of the consumption that contracted generation covers within the same hour, at most
    contracted_ratio. Without it, the market-based figure is null for hourly matching."""

    @model_validator(mode="after")
    def _matched_is_contracted(self) -> ElectricityRequest:
        matched = self.hourly_matched_ratio
        if matched is None:
            return self
        if self.matching != "hourly":
            raise ValueError("hourly_matched_ratio needs matching: hourly")
        if self.contracted_ratio is None or matched > self.contracted_ratio:
            raise ValueError("hourly_matched_ratio must be at most contracted_ratio")
        return self


class HardwareRequest(Request):
    """How embodied emissions are allocated, and what happens to the hardware in the end."""

    amortisation: Literal["calendar", "busy-hours"] = "calendar"
    """calendar: over all hours of the service life, as in ISO/IEC 21031; busy-hours: over the hours
    in use, given by in_use_ratio."""
    life_years: float | None = Field(None, ge=0.1, le=50.0)
    """First service life; if null, the catalog's default."""
    second_life_years: float = Field(0.0, ge=0.0, le=50.0)
    """Years of further use after that, here or elsewhere."""
    in_use_ratio: float | None = Field(None, ge=0.001, le=1.0)
    """Share of its life in which hardware is in use."""
    reused_ratio: Ratio = 0.0
    """Share of the mass that is finally reused in other machines."""
    collected_ratio: Ratio | None = None
    """Share of electronic waste that is collected; if null, the global average."""
    added_memory_gb: float = Field(0.0, ge=0.0, le=1e6)
    """Memory added to the server, per accelerator [GB]."""
    added_memory: Reference = "ddr5-8ch"
    """Kind of the added memory: id of a memory tier."""

    treatment_kgco2e_per_kg: Figure | None = None
    """Emissions of treating electronic waste, per mass. e_waste_streams then includes them. No
    openly published factor was found."""

    @model_validator(mode="after")
    def _busy_hours_are_counted(self) -> HardwareRequest:
        if (self.amortisation == "busy-hours") != (self.in_use_ratio is not None):
            raise ValueError("busy-hours amortisation and in_use_ratio must be given together")
        return self


class SoundSourceRequest(Request):
    """A group of identical machines that make noise."""

    count: float = Field(1.0, gt=0.0, le=1e9)
    """Number of machines of this kind."""
    sound_power_db: Decibels
    """Declared A-weighted sound power of one machine, re 1 pW (10 dB are 1 bel)."""
    fan_speed_ratio: SpeedRatio = 1.0
    """Fan speed relative to that of the declared level."""
    building_loss_db: Loss = 0.0
    """Sound reduction of walls; 0 outdoors."""


class SiteRequest(Request):
    """Facts about a site; each part of the answer needs only its own fields."""

    cooling: Literal["as-reported", "evaporative-tower", "dry"] = "as-reported"
    """How the site is cooled: with the place's reported WUE, with a cooling tower in the place's
    climate, or with a closed loop that evaporates no water and takes more energy (it adds to the
    PUE, unless facility.pue_ratio states one)."""
    wet_bulb_celsius: float | None = Field(None, ge=-40.0, le=40.0)
    """Mean wet-bulb temperature, for a cooling tower; if null, the region's, where it is known."""
    cycles_of_concentration: float = Field(6.0, gt=1.0, le=20.0)
    """How often a cooling tower reuses its water before it is blown down."""
    evaporative_ratio: Ratio = 1.0
    """Share of hours with evaporation."""
    municipal_supply_l_per_day: float | None = Field(None, gt=0.0, le=1e13)
    """Water that the town supplies, for comparison."""
    sound_sources: list[SoundSourceRequest] = Field(default_factory=list, max_length=100)
    """Machines that neighbours can hear."""
    receptor_distance_m: float | None = Field(None, ge=1.0, le=1e5)
    """Distance from the machines to the place where they are heard."""
    propagation: Literal["half-space", "free-field", "line"] = "half-space"
    """How sound spreads. half-space: from a point on hard ground; line: from a long row, with sound
    power per metre."""
    air_absorption_db: Loss = 0.0
    """Loss in the air over the whole distance to the receptor [dB]."""
    barrier_db: Loss = 0.0
    """Loss by walls and earth banks; 5 to 15 dB are typical."""
    directivity_db: float = Field(0.0, ge=-30.0, le=30.0)
    """Level in the direction of the receptor, relative to a source that radiates evenly [dB]."""
    noise_limit_db: Decibels | None = None
    """Level allowed at the receptor."""
    rack_kw: float | None = Field(None, gt=0.0, le=1e4)
    """Power of a rack; its heat and air flow follow from it."""
    accelerators_per_rack: int | None = Field(None, ge=1, le=10_000)
    """Accelerators per rack, from whose power that of the rack follows; instead of rack_kw."""
    liquid_cooled_ratio: Ratio = 0.0
    """Share of the heat that liquid removes."""
    air_temperature_rise_k: float = Field(12.0, ge=1.0, le=60.0)
    """Temperature rise of the air across a rack."""
    hard_disk_ratio: Ratio = 0.0
    """Share of the stored bytes that are on hard disks."""
    rack_fan_speed_ratio: SpeedRatio = 1.0
    """Fan speed over the usual one."""
    mounting: Literal["none", "grommets", "isolated"] = "none"
    """How the machines are isolated from vibration."""
    area_m2: float | None = Field(None, gt=0.0, le=1e10)
    """Land area of the site."""
    mean_it_kw: float | None = Field(None, gt=0.0, le=1e8)
    """Mean IT power of the whole site, used to allocate its land."""

    @model_validator(mode="after")
    def _what_belongs_together(self) -> SiteRequest:
        if self.sound_sources and self.receptor_distance_m is None:
            raise ValueError("sound_sources need receptor_distance_m to compute a level")
        if (self.area_m2 is None) != (self.mean_it_kw is None):
            raise ValueError("area_m2 and mean_it_kw must be given together")
        return self


class ImpactsRequest(CatalogRequest):
    """Energy, carbon and water, from a deployment or from plain energy or accelerator time."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                EXAMPLE_DEPLOYMENT | {"region": "aws/eu-north-1", "workload": EXAMPLE_WORKLOAD},
                {"energy_kwh": 1000.0, "region": "country/SE"},
                {
                    "accelerator_hours": 8766.0,
                    "accelerator": "nvidia-h100-sxm-80gb",
                    "region": "aws/eu-north-1",
                },
            ]
        }
    )

    region: RegionReference = Field(examples=["aws/eu-north-1"])
    """Cloud region, country, grid zone, or an inline region."""
    energy_kwh: float | None = Field(None, ge=0, le=1e15)
    """Energy of the IT equipment, without the building's share (PUE)."""
    accelerator_hours: float | None = Field(None, ge=0, le=1e15)
    """Accelerator time, summed over all accelerators."""
    model: ModelReference | None = None
    """Model of a deployment whose energy is estimated: catalog id or alias, hf:organisation/name,
    or {'config': …}. Alternative to energy_kwh and accelerator_hours."""
    precision: PrecisionRequest = PrecisionRequest()
    accelerator: AcceleratorReference | None = None
    """Catalog id or alias, or an inline accelerator; required with a model or with
    accelerator_hours. Power and embodied emissions follow from it."""
    platform: PlatformReference | None = Field(None, examples=["nvidia-dgx-h100"])
    """Machine that the accelerators stand in, which decides power and manufacturing of the host,
    links and the usual site: id or alias of one in /v1/platforms, or an inline platform; if null,
    the one that the accelerator usually stands in. Without an accelerator it decides the site
    alone."""
    power_limit_w: PowerLimit | None = None
    """Power limit of each accelerator, between its idle power and its thermal design power. Clocks
    fall with it. If null, its thermal design power."""
    accelerator_count: int | None = Field(None, ge=1, le=100_000)
    """Number of accelerators of all replicas of a deployment. If null, as many as parallelism uses,
    otherwise 1. Has no effect without a model."""
    parallelism: ParallelismRequest | None = None
    """Parallelism of a deployment. If null, tensor parallelism over as many of the accelerators as
    divide the attention heads; the rest become replicas."""
    workload: WorkloadRequest = WorkloadRequest()
    serving: ServingRequest = ServingRequest()
    period: PeriodRequest = PeriodRequest()
    facility: FacilityRequest = FacilityRequest()
    electricity: ElectricityRequest = ElectricityRequest()
    hardware: HardwareRequest = HardwareRequest()
    site: SiteRequest | None = None
    """Facts about the site; without them its figures are null."""
    explain: bool = False
    """Add a step-by-step explanation."""
    include: _Included = ()
    fields: FieldPaths = ()

    @model_validator(mode="after")
    def _one_basis(self) -> ImpactsRequest:
        plain = self.energy_kwh is not None or self.accelerator_hours is not None
        if plain == (self.model is not None):
            raise ValueError(
                "give either a model and an accelerator, or energy_kwh or accelerator_hours"
            )
        if self.model is not None and self.accelerator is None:
            raise ValueError("a deployment needs an accelerator")
        if self.accelerator_hours is not None and self.accelerator is None:
            raise ValueError("accelerator_hours need an accelerator")
        return self
