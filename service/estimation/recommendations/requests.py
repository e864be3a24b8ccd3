"""What callers may ask about choices."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeAlias

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    field_validator,
    model_validator,
)

from service.estimation.detail import FieldPaths, including
from service.estimation.inference.lengths import mean_and_spread
from service.estimation.inference.requests import PlacedRequest
from service.estimation.percentiles import Percentile
from service.estimation.recommendations.place_requests import (
    OwnershipRequest,
    RulesLimit,
    SiteLimits,
    Wheres,
    listed,
)
from service.estimation.references import (
    AcceleratorReference,
    CatalogRequest,
    FacilityRequest,
    FormatName,
    ModelReference,
    PlatformReference,
    PowerLimit,
    Ratio,
    Reference,
    RegionReference,
    Request,
)
from service.estimation.requests import (
    InputTokens,
    OutputTokens,
    ParallelismRequest,
    PeriodRequest,
    PrecisionRequest,
    ServingRequest,
    SpeculativeRequest,
    WorkloadRequest,
)

#: Lists that a link can spell, as one text separated by commas.
References = Annotated[
    list[Reference],
    Field(min_length=1, max_length=1000),
    BeforeValidator(
        listed,
        json_schema_input_type=Annotated[str, Field(max_length=2_000)] | list[Reference],
    ),
]
ModelNames = Annotated[
    list[ModelReference],
    Field(min_length=1, max_length=8),
    BeforeValidator(
        listed,
        json_schema_input_type=Annotated[str, Field(max_length=1_700)] | list[ModelReference],
    ),
]
FormatNames = Annotated[
    list[FormatName],
    Field(min_length=1, max_length=20),
    BeforeValidator(
        listed,
        json_schema_input_type=Annotated[str, Field(max_length=500)] | list[FormatName],
    ),
]
Limit = Annotated[float | None, Field(gt=0.0, le=1e15)]

#: Tokens that searches take answers to have at least: one after the first.
_FEWEST_GENERATED = 2.0
#: Rows that one comparison may have, and requests that one batch may hold at most.
MOST_ROWS = 1000
#: Accelerators that a search for serving goes to.
MOST_ACCELERATORS = 4096

WorkloadKindId = Literal[
    "llm-training",
    "batch-inference",
    "real-time-inference",
    "agentic",
    "sustainable",
    "edge",
]


class SearchedWorkload(Request):
    """The workload that every configuration has to serve."""

    input_tokens: InputTokens = 1024
    """Prompt length: a number, or how lengths differ (mean and p95, or tokens and shares)."""
    output_tokens: OutputTokens = 256
    """Generated tokens, likewise; two or more on average."""
    requests_per_s: float | None = Field(None, ge=1e-6, le=1e6)
    """Arrival rate over all replicas; if null, replicas work at full load."""
    prefix_cached_ratio: Ratio = 0.0
    """Share of the prompt found in the prefix cache."""
    calls_per_task: int = Field(1, ge=1, le=100_000)
    """Model calls per agent task."""
    tool_s: float = Field(0.0, ge=0.0, le=1e6)
    """Time between two calls of a task: tools, retrieval."""
    context_growth_tokens: int = Field(0, ge=0, le=1_000_000)
    """Tokens that each call of a task adds to the prompt."""
    context_kept_cached: bool = False
    """Whether the KV cache of earlier calls of a task is kept, so that only new tokens are
    computed."""

    @field_validator("output_tokens")
    @classmethod
    def _some_come_after_the_first(cls, given: OutputTokens) -> OutputTokens:
        if mean_and_spread(given)[0] < _FEWEST_GENERATED:
            raise ValueError(f"must be {_FEWEST_GENERATED:g} or more on average")
        return given


class DecisionWorkload(SearchedWorkload):
    """The workload."""

    requests_per_s: float | None = Field(None, ge=1e-6, le=1e6)
    """Arrival rate over all replicas. If this and concurrency are null, each replica works at full
    load."""
    concurrency: int | None = Field(None, ge=1, le=1_000_000)
    """Requests always in flight, instead of a rate."""

    @model_validator(mode="after")
    def _one_load(self) -> DecisionWorkload:
        if self.requests_per_s is not None and self.concurrency is not None:
            raise ValueError("give either requests_per_s or concurrency")
        return self


class LimitsRequest(Request):
    """Hard limits; null means no limit, except for TTFT and TPOT limits of the workload kind."""

    ttft_s: Limit = None
    """Longest time to the first token. If null, a recommendation uses the limit of the workload
    kind, if it has one; a sweep has no limit."""
    tpot_s: Limit = None
    """Longest time per output token. If null, a recommendation uses the limit of the workload kind,
    if it has one; a sweep has no limit."""
    e2e_s: Limit = None
    """Longest time from arrival to the last token."""
    task_s: Limit = None
    """Longest time of an agent's task: calls_per_task requests in a row, and the tools between
    them."""
    usd_per_hour: Limit = None
    """Highest price of all accelerators per hour; if given, hardware without a known price is
    excluded."""
    usd_per_month: Limit = None
    """Highest price of all accelerators per month of 730.5 hours, likewise."""
    kgco2e_per_year: Limit = None
    """Highest emissions of a year's requests, from location-based operation and manufacturing of
    hardware."""
    l_per_year: Limit = None
    """Highest water use of a year's requests, on site and at power stations."""
    it_power_w: Limit = None
    """Highest mean power of all accelerators with their hosts, without PUE."""
    weight_bits_at_least: float | None = Field(None, gt=0.0, le=32.0)
    """Fewest bits per weight that are acceptable."""
    water_stress_ratio: Limit = None
    """Highest water stress of the place's basin: withdrawals over supply, 0.4 and more are high;
    places whose stress nobody publishes are excluded."""
    headroom_ratio_at_least: Ratio = 0.0
    """Share of an accelerator's memory that must stay free."""


class PercentileLimitsRequest(LimitsRequest):
    """Hard limits, of which those of times hold for a percentile; null means no limit."""

    percentile: Percentile = "mean"
    """What of ttft_s, tpot_s and e2e_s is limited: means, or percentiles over requests that arrive
    at workload.requests_per_s. 95 is understood as p95."""


class DecisionLimitsRequest(PercentileLimitsRequest):
    """Hard limits; null means no limit, except for TTFT and TPOT limits of the workload kind."""

    implied: bool = True
    """Whether limits on TTFT and TPOT of the workload kind hold where you give none; false removes
    them."""
    compliance: RulesLimit | None = None
    """Rules of the place that have to be kept."""
    site: SiteLimits | None = None
    """What a site of your own can take."""


#: Where what is searched may stand.
Placement = Literal["offered", "anywhere"] | None


class PlacesRequest(Request):
    """Which accelerators and regions are searched; null means everything in the catalog."""

    accelerators: References | None = None
    """Accelerators to search: ids or aliases, as a list or separated by commas; if null, all
    that the engine or framework runs on, but those that are only announced."""
    regions: References | None = None
    """Regions to search: ids, aliases or groups, as a list or separated by commas; if null, all
    cloud regions but marketplaces. Groups are eu, nordics, europe and others in GET
    /v1/region-groups, and all cloud regions of a provider, country or state: aws, DE/*,
    california/*. A country without /* is a site of your own there."""
    without_regions: References | None = None
    """Regions or groups that are left out."""
    placement: Placement = None
    """offered: only accelerators that the cloud is known to rent out in the region (GET
    /v1/offers), and anything in places that are no cloud's; anywhere: all combinations. If null,
    offered; accelerators that you name and no region has are placed anywhere."""
    where: Wheres | None = None
    """How hardware may be had, as a list or separated by commas. cloud: rented in a cloud's region;
    owned: servers and racks that you buy; workstation: desktops and mini PCs; laptop; edge: boards,
    phones and mini PCs. What is bought stands in the places of regions that are no cloud's, else in
    the countries of its cloud regions, else in the world's average. If null, what the workload kind
    usually runs on (GET /v1/workloads), in clouds' regions what is rented out there and anything in
    other places."""
    include_unmeasured: bool = False
    """Also search accelerators of families whose speed nobody has published a measurement of, so
    that estimates rest on those of others. Accelerators that you name are searched in any case."""


def check_percentile(limits: PercentileLimitsRequest, requests_per_s: float | None) -> None:
    """Refuse percentiles where nothing arrives at random.

    Raises
    ------
    ValueError
        If a percentile is limited without a rate of requests.
    """
    if limits.percentile != "mean" and requests_per_s is None:
        raise ValueError(
            "limits.percentile is over requests that arrive at a rate; give workload.requests_per_s"
        )


class SearchRequest(PlacesRequest):
    """What the search for inference covers."""

    precisions: FormatNames | None = None
    """Formats of the weights; if null, the checkpoint's own, those of published releases in the
    catalog, and what the engine makes of a checkpoint by itself."""
    allow_conversions: bool = False
    """Try usual formats, too, that you would have to convert the checkpoint to."""
    kv_caches: FormatNames | None = None
    """Formats of the KV cache; if null, bf16, and one of 8 bits where engine and hardware take
    it."""
    speculative: Annotated[list[SpeculativeRequest], Field(min_length=1, max_length=8)] | None = (
        None
    )
    """Ways of speculative decoding to try in addition to none; if null, what serving.speculative
    says."""
    disaggregated: bool = False
    """Also try deployments whose replicas are divided into pools for prompts and for decoding, of
    what is best undivided on each accelerator; needs at least two replicas."""
    max_accelerators: int = Field(64, ge=1, le=MOST_ACCELERATORS)
    """Largest number of accelerators of a candidate, over all replicas."""
    reserve_ratio: float = Field(0.2, ge=0.0, le=0.9)
    """Under workload.requests_per_s, share of the rate that replicas could carry within the limits
    of time which is left free."""


class WeightsRequest(Request):
    """Weights of the metrics; they are scaled to sum to one."""

    headroom: float = Field(0.0, ge=0.0, le=1e6)
    """Weight of free memory, up to the share that the workload kind asks for."""
    latency: float = Field(0.0, ge=0.0, le=1e6)
    """Weight of time: of a request, of an agent's task, or of the training run."""
    carbon: float = Field(0.0, ge=0.0, le=1e6)
    """Weight of emissions from location-based operation and manufacturing of hardware."""
    water: float = Field(0.0, ge=0.0, le=1e6)
    """Weight of water, on site and at power stations, times the basin's water stress."""
    cost: float = Field(0.0, ge=0.0, le=1e6)
    """Weight of rent, at your own or list prices; candidates without a known price come last."""
    energy: float = Field(0.0, ge=0.0, le=1e6)
    """Weight of the facility's energy, beside what it counts in carbon, water and cost."""

    @model_validator(mode="after")
    def _something_matters(self) -> WeightsRequest:
        if not any((self.headroom, self.latency, self.carbon, self.water, self.cost, self.energy)):
            raise ValueError("at least one weight must be above zero")
        return self


class ChoiceRequest(CatalogRequest):
    """Models and prices, for every recommendation."""

    model: ModelReference | None = None
    """The model: catalog id or alias, hf:organisation/name, or {'config': …}. Alternative to
    models."""
    models: ModelNames | None = None
    """Models to choose from, as a list or separated by commas; alternative to model."""
    platform: PlatformReference | None = Field(None, examples=["server-8"])
    """Machine that all accelerators stand in: id or alias of one in /v1/platforms, or an inline
    platform; if null, the one that each usually stands in."""
    power_limit_w: PowerLimit | None = None
    """Limit of power of each accelerator; clocks fall with it. Those that draw less run as they
    are; those that idle above it are left out, or refused where they are named."""
    facility: FacilityRequest = FacilityRequest()
    usd_per_accelerator_hour: dict[Reference, Annotated[float, Field(gt=0.0, le=1e6)]] = Field(
        default_factory=dict, max_length=500
    )
    """Your own prices, by accelerator."""
    ownership: OwnershipRequest = OwnershipRequest()
    list_prices: bool = True
    """For accelerators without a price of your own, use on-demand list prices of the region's
    cloud: those of the region, else of another one. Places that are no cloud's have none."""

    @model_validator(mode="after")
    def _one_choice_of_models(self) -> Self:
        if (self.model is None) == (self.models is None):
            raise ValueError("give either model, or models to choose from")
        return self

    @property
    def asked_models(self) -> tuple[ModelReference, ...]:
        """The models as they were asked for."""
        return tuple(self.models or ()) if self.model is None else (self.model,)


if TYPE_CHECKING:
    _Included: TypeAlias = tuple[str, ...]
else:
    _Included = including("provenance", "estimates", "front", "compared", "kubernetes")


class RecommendationRequest(ChoiceRequest):
    """What to buy or rent, where, and configured how."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "meta-llama/Llama-3.1-70B",
                    "workload_kind": "real-time-inference",
                    "workload": {
                        "input_tokens": 1024,
                        "output_tokens": 256,
                        "requests_per_s": 2.0,
                    },
                    "limits": {"ttft_s": 1.0, "tpot_s": 0.05, "weight_bits_at_least": 4},
                    "search": {"max_accelerators": 64},
                }
            ]
        }
    )

    workload_kind: WorkloadKindId = "real-time-inference"
    """Workload kind (GET /v1/workloads) that sets weights, free memory and limits on TTFT and TPOT
    where the request gives none. llm-training is not allowed here; use
    /v1/recommendations/training."""
    workload: DecisionWorkload = DecisionWorkload()
    limits: DecisionLimitsRequest = DecisionLimitsRequest()
    search: SearchRequest = SearchRequest()
    weights: WeightsRequest | None = None
    """If null, those of the workload kind."""
    serving: ServingRequest = ServingRequest()
    baseline: PlacedRequest | None = None
    """Your own plan, as a request of /v1/estimates/inference: choices are told in ratios to it."""
    include: _Included = ()
    fields: FieldPaths = ()

    @model_validator(mode="after")
    def _one_pool(self) -> RecommendationRequest:
        if self.serving.disaggregated is not None:
            raise ValueError(
                "serving.disaggregated is one deployment's; search.disaggregated: true tries pools "
                "beside undivided replicas"
            )
        return self

    @model_validator(mode="after")
    def _percentiles_of_arrivals(self) -> RecommendationRequest:
        check_percentile(self.limits, self.workload.requests_per_s)
        return self


def too_many_rows(rows: int) -> str:
    """What to say of a comparison that is too large."""
    return (
        f"{rows} combinations; one comparison has at most {MOST_ROWS}. A recommendation searches "
        "any number"
    )


class CompareRequest(CatalogRequest):
    """One workload over lists of models, accelerators, formats, layouts and regions."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "models": ["meta-llama/Llama-3.1-70B"],
                    "accelerators": ["nvidia-h100-sxm-80gb", "nvidia-h200-sxm-141gb"],
                    "accelerator_count": 8,
                    "precisions": [{"weights": "bf16"}, {"weights": "fp8"}],
                    "regions": ["aws/eu-north-1", "aws/us-east-1"],
                    "workload": {"input_tokens": 2048, "output_tokens": 256, "concurrency": 32},
                }
            ]
        }
    )

    models: Annotated[list[ModelReference], Field(min_length=1, max_length=100)]
    """Models: catalog ids or aliases, hf:organisation/name, or {'config': …}."""
    accelerators: Annotated[list[AcceleratorReference], Field(min_length=1, max_length=500)]
    """Catalog ids or aliases, or inline accelerators."""
    regions: Annotated[list[RegionReference], Field(min_length=1, max_length=1000)] | None = None
    """Catalog ids, aliases or groups (GET /v1/region-groups), or inline regions; if null, no place,
    as in /v1/estimates/inference."""
    precisions: Annotated[list[PrecisionRequest], Field(min_length=1, max_length=50)] = Field(
        default_factory=lambda: [PrecisionRequest()]
    )
    """Number formats; if left out, the format of each checkpoint."""
    parallelisms: Annotated[list[ParallelismRequest], Field(min_length=1, max_length=50)] | None = (
        None
    )
    """If null, derived from accelerator_count."""
    platform: PlatformReference | None = Field(None, examples=["server-8"])
    """Machine that all accelerators stand in: id or alias of one in /v1/platforms, or an inline
    platform; if null, the one that each usually stands in."""
    facility: FacilityRequest = FacilityRequest()
    power_limit_w: PowerLimit | None = None
    """Limit of power of each accelerator, as in /v1/estimates/inference."""
    accelerator_count: int | None = Field(None, ge=1, le=100_000)
    """Accelerators of all replicas of each row; if null, as many as its layout uses, else 1."""
    workload: WorkloadRequest = WorkloadRequest()
    limits: PercentileLimitsRequest = PercentileLimitsRequest()
    """Hard limits that each row is held to; null means no limit."""
    serving: ServingRequest = ServingRequest()
    period: PeriodRequest = PeriodRequest()

    @model_validator(mode="after")
    def _percentiles_of_arrivals(self) -> CompareRequest:
        check_percentile(self.limits, self.workload.requests_per_s)
        return self

    @model_validator(mode="after")
    def _bounded(self) -> CompareRequest:
        if self.row_count > MOST_ROWS:
            raise ValueError(too_many_rows(self.row_count))
        return self

    @property
    def row_count(self) -> int:
        """Combinations of the lists."""
        lists = (
            self.models,
            self.accelerators,
            self.regions or (None,),
            self.precisions,
            self.parallelisms or (None,),
        )
        return prod(len(each) for each in lists)


class BatchRequest(CatalogRequest):
    """Requests, each of which is answered or refused separately."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "requests": [
                        {
                            "model": "meta-llama/Llama-3.1-8B",
                            "accelerator": "nvidia-l40s-48gb",
                            "region": "aws/eu-north-1",
                        },
                        {
                            "model": "meta-llama/Llama-3.1-70B",
                            "accelerator": "no-such-accelerator",
                            "region": "aws/eu-north-1",
                        },
                    ]
                }
            ]
        }
    )

    requests: Annotated[list[dict[str, JsonValue]], Field(min_length=1, max_length=MOST_ROWS)]
    """Request bodies of /v1/estimates/inference or /v1/estimates/training."""
