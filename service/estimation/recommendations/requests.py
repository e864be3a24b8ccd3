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
    CostRequest,
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
    """Number of generated tokens: a number, or how lengths differ; two or more on average."""
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
    """Highest price of all accelerators per month of 730.5 hours; if given, hardware without a
    known price is excluded."""
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
    """Highest water stress of the place's basin: withdrawals divided by supply, where 0.4 and more
    is high. Places without a published figure are excluded."""
    headroom_ratio_at_least: Ratio = 0.0
    """Share of an accelerator's memory that must stay free."""


class PercentileLimitsRequest(LimitsRequest):
    """Hard limits, of which those of times hold for a percentile; null means no limit."""

    percentile: Percentile = "mean"
    """Whether ttft_s, tpot_s and e2e_s limit means, or a percentile over requests that arrive at
    workload.requests_per_s. 95 means p95."""


class DecisionLimitsRequest(PercentileLimitsRequest):
    """Hard limits; null means no limit, except for TTFT and TPOT limits of the workload kind."""

    implied: bool = True
    """Whether the workload kind's limits on TTFT and TPOT apply if you give none; false removes
    them."""
    compliance: RulesLimit | None = None
    """Rules of the place that must be met."""
    site: SiteLimits | None = None
    """What a site of your own can take."""


#: Where what is searched may stand.
Placement = Literal["offered", "anywhere"] | None


class PlacesRequest(Request):
    """Which accelerators and regions are searched; null means everything in the catalog."""

    accelerators: References | None = None
    """Accelerators to search: ids or aliases, as a list or separated by commas. If null, all that
    the engine or framework runs on, except those that are only announced."""
    regions: References | None = None
    """Regions to search: ids, aliases or groups, as a list or separated by commas. If null, all
    cloud regions except marketplaces. Groups are eu, nordics, europe and others in GET
    /v1/region-groups, or all cloud regions of a provider, country or state: aws, DE/*,
    california/*. A country without /* means a site of your own there."""
    without_regions: References | None = None
    """Regions or groups that are left out."""
    placement: Placement = None
    """offered: only accelerators that the cloud is known to rent out in the region (GET
    /v1/offers), and any accelerator in places outside clouds. anywhere: all combinations. If null,
    offered, but accelerators that you name and no region offers are placed anywhere."""
    where: Wheres | None = None
    """Kinds of hardware to consider, as a list or separated by commas. cloud: rented in a cloud's
    region; owned: servers and racks that you buy; workstation: desktops and mini PCs; laptop; edge:
    boards, phones and mini PCs. Bought hardware is placed in those of regions that are not a
    cloud's, otherwise in the countries of the cloud regions, otherwise in a place with the world's
    average. If null, what the workload kind usually runs on (GET /v1/workloads): in cloud regions
    what is rented out there, elsewhere anything."""
    include_unmeasured: bool = False
    """Whether to search accelerators of families without any published measurement of speed, whose
    estimates rest on other families. Accelerators that you name are always searched."""


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
    """Formats of the weights. If null, the checkpoint's own, those of published releases in the
    catalog, and those that the engine converts to by itself."""
    allow_conversions: bool = False
    """Whether to also try common formats that you would have to convert the checkpoint to."""
    kv_caches: FormatNames | None = None
    """Formats of the KV cache. If null, bf16, and an 8-bit format where engine and hardware support
    it."""
    speculative: Annotated[list[SpeculativeRequest], Field(min_length=1, max_length=8)] | None = (
        None
    )
    """Kinds of speculative decoding to try in addition to none. If null, what serving.speculative
    says."""
    disaggregated: bool = False
    """Whether to also try disaggregated serving, with separate replicas for prompts and for
    decoding, for the best undivided deployments on each accelerator. Needs at least two
    replicas."""
    max_accelerators: int = Field(64, ge=1, le=MOST_ACCELERATORS)
    """Largest number of accelerators of a candidate, over all replicas."""
    reserve_ratio: float = Field(0.2, ge=0.0, le=0.9)
    """With workload.requests_per_s, share of the replicas' capacity (within the limits on times)
    that is left free."""


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
    """Weight of the facility's energy, in addition to its part in carbon, water and cost."""

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
    """Machine that holds the accelerators: id or alias in /v1/platforms, or an inline platform. If
    null, the machine that each accelerator is usually in."""
    power_limit_w: PowerLimit | None = None
    """Power limit of each accelerator; clocks fall with it. Accelerators that draw less are not
    affected. Those that idle above it are left out, or refused if you name them."""
    facility: FacilityRequest = FacilityRequest()
    usd_per_accelerator_hour: dict[Reference, Annotated[float, Field(gt=0.0, le=1e6)]] = Field(
        default_factory=dict, max_length=500
    )
    """Your own prices, by accelerator."""
    ownership: OwnershipRequest = OwnershipRequest()
    list_prices: bool = True
    """Whether to use on-demand list prices for accelerators without a price of your own: those of
    the region, otherwise of another region of the same cloud. Places outside clouds have none."""

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
    """Your own plan, as a request of /v1/estimates/inference. Choices are compared with it."""
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
    """Machine that holds the accelerators: id or alias in /v1/platforms, or an inline platform. If
    null, the machine that each accelerator is usually in."""
    facility: FacilityRequest = FacilityRequest()
    power_limit_w: PowerLimit | None = None
    """Power limit of each accelerator, as in /v1/estimates/inference."""
    accelerator_count: int | None = Field(None, ge=1, le=100_000)
    """Accelerators of all replicas of each row; if null, as many as its layout uses, else 1."""
    workload: WorkloadRequest = WorkloadRequest()
    limits: PercentileLimitsRequest = PercentileLimitsRequest()
    """Hard limits that each row is held to; null means no limit."""
    serving: ServingRequest = ServingRequest()
    cost: CostRequest = CostRequest()
    """Your own prices, in the place of list prices; an instance has to have every accelerator."""
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
