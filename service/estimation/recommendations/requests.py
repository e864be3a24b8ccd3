"""What callers may ask about choices."""

from __future__ import annotations

from math import prod
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from service.estimation.requests import (
    AcceleratorReference,
    CatalogRequest,
    FormatName,
    ModelReference,
    ParallelismRequest,
    PeriodRequest,
    PrecisionRequest,
    Ratio,
    Reference,
    RegionReference,
    Request,
    ServingRequest,
    SpeculativeRequest,
    WorkloadRequest,
)


def listed(given: object) -> object:
    """A list, or one text separated by commas."""
    if isinstance(given, str):
        return [part.strip() for part in given.split(",") if part.strip()]
    return given


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

#: Rows that one comparison may have, and requests that one batch may hold at most.
MOST_ROWS = 1000

WorkloadKindId = Literal[
    "llm-training",
    "batch-inference",
    "real-time-inference",
    "agentic",
    "sustainable",
    "edge",
]


class DecisionWorkload(Request):
    """The load to choose for."""

    input_tokens: int = Field(1024, ge=1, le=10_000_000, description="Prompt length.")
    output_tokens: int = Field(256, ge=2, le=1_000_000, description="Generated tokens.")
    requests_per_s: float | None = Field(
        None,
        ge=1e-6,
        le=1e6,
        description="Arrival rate over all replicas. If this and concurrency are null, each "
        "replica works as hard as it can.",
    )
    concurrency: int | None = Field(
        None, ge=1, le=1_000_000, description="Requests always in flight, instead of a rate."
    )
    prefix_cached_ratio: Ratio = Field(
        0.0, description="Share of the prompt found in the prefix cache."
    )
    calls_per_task: int = Field(1, ge=1, le=100_000, description="Model calls of one agent task.")

    @model_validator(mode="after")
    def _one_load(self) -> DecisionWorkload:
        if self.requests_per_s is not None and self.concurrency is not None:
            raise ValueError("give either requests_per_s or concurrency")
        return self


class LimitsRequest(Request):
    """Hard limits; null does not limit, but for the workload kind's own TTFT and TPOT."""

    ttft_s: Limit = Field(
        None,
        description="Longest time to the first token. If null, a recommendation takes that of the "
        "workload kind, if it has one, and a sweep none.",
    )
    tpot_s: Limit = Field(
        None,
        description="Longest time per output token. If null, a recommendation takes that of the "
        "workload kind, if it has one, and a sweep none.",
    )
    e2e_s: Limit = Field(None, description="Longest time from arrival to the last token.")
    task_s: Limit = Field(
        None, description="Longest time of an agent's task: calls_per_task requests in a row."
    )
    usd_per_hour: Limit = Field(
        None,
        description="Highest price of all accelerators for an hour; with it, what has no known "
        "price is excluded.",
    )
    kgco2e_per_year: Limit = Field(
        None,
        description="Most emissions of a year's requests, location-based operation and making of "
        "hardware.",
    )
    l_per_year: Limit = Field(
        None, description="Most water of a year's requests, on site and at power stations."
    )
    it_power_w: Limit = Field(
        None, description="Highest mean power of all accelerators with their hosts, without PUE."
    )
    weight_bits_at_least: float | None = Field(
        None, gt=0.0, le=32.0, description="Fewest bits of a weight that are acceptable."
    )
    headroom_ratio_at_least: Ratio = Field(
        0.0, description="Share of an accelerator's memory that must stay free."
    )


#: Where what is searched may stand.
Placement = Literal["offered", "anywhere"] | None


class PlacesRequest(Request):
    """Which accelerators and regions are searched; null means everything in the catalog."""

    accelerators: References | None = Field(
        None,
        description="Accelerators that are searched: ids or aliases, as a list or separated by "
        "commas; if null, all.",
    )
    regions: References | None = Field(
        None,
        description="Regions that are searched: ids or aliases, as a list or separated by commas; "
        "if null, all cloud regions.",
    )
    placement: Placement = Field(
        None,
        description="offered: a cloud's regions take what that cloud is known to rent out, by the "
        "catalog's instances; anywhere: all combinations. If null, offered where all cloud regions "
        "are searched, anywhere where regions are named.",
    )


class SearchRequest(PlacesRequest):
    """What is searched for inference."""

    precisions: FormatNames | None = Field(
        None, description="Formats of the weights; if null, the usual ones."
    )
    kv_caches: FormatNames | None = Field(
        None, description="Formats of the KV cache; if null, bf16 and fp8."
    )
    speculative: Annotated[list[SpeculativeRequest], Field(min_length=1, max_length=8)] | None = (
        Field(
            None,
            description="Ways of speculative decoding to try beside decoding without; if null, as "
            "serving.speculative says.",
        )
    )
    max_accelerators: int = Field(
        64, ge=1, le=4096, description="Most accelerators of all replicas of a candidate together."
    )


class WeightsRequest(Request):
    """What matters how much; scaled so that they sum to one."""

    headroom: float = Field(
        0.0,
        ge=0.0,
        le=1e6,
        description="Weight of memory left free, up to the share that the workload kind asks for.",
    )
    latency: float = Field(
        0.0,
        ge=0.0,
        le=1e6,
        description="Weight of time: of a request, of an agent's task, or of the training run.",
    )
    carbon: float = Field(
        0.0,
        ge=0.0,
        le=1e6,
        description="Weight of emissions, location-based operation and making of hardware.",
    )
    water: float = Field(
        0.0, ge=0.0, le=1e6, description="Weight of water, on site and at power stations."
    )
    cost: float = Field(
        0.0,
        ge=0.0,
        le=1e6,
        description="Weight of rent, at own or list prices; what has no known price scores none.",
    )

    @model_validator(mode="after")
    def _something_matters(self) -> WeightsRequest:
        if not any((self.headroom, self.latency, self.carbon, self.water, self.cost)):
            raise ValueError("at least one weight must be above zero")
        return self


class ChoiceRequest(CatalogRequest):
    """What every choice is asked with: models, and prices."""

    model: ModelReference | None = Field(
        None,
        description="The model: catalog id or alias, hf:organisation/name, or {'config': …}. This "
        "or models.",
    )
    models: ModelNames | None = Field(
        None,
        description="Models to choose among, as a list or separated by commas; instead of model.",
    )
    usd_per_accelerator_hour: dict[Reference, Annotated[float, Field(gt=0.0, le=1e6)]] = Field(
        default_factory=dict, max_length=500, description="Own prices, by accelerator."
    )
    list_prices: bool = Field(
        True,
        description="Where no own price is given, take on-demand list prices of the region's "
        "cloud, else the lowest of any provider in the catalog.",
    )

    @model_validator(mode="after")
    def _one_choice_of_models(self) -> Self:
        if (self.model is None) == (self.models is None):
            raise ValueError("give either model, or models to choose among")
        return self

    @property
    def asked_models(self) -> tuple[ModelReference, ...]:
        """The models as they were asked for."""
        return tuple(self.models or ()) if self.model is None else (self.model,)


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

    workload_kind: WorkloadKindId = Field(
        "real-time-inference",
        description="Row of the decision matrix (GET /v1/workloads) whose weights, memory to keep "
        "free and limits on TTFT and TPOT hold where the request states none. llm-training is "
        "refused: /v1/recommendations/training decides it.",
    )
    workload: DecisionWorkload = DecisionWorkload()
    limits: LimitsRequest = LimitsRequest()
    search: SearchRequest = SearchRequest()
    weights: WeightsRequest | None = Field(None, description="If null, those of the workload kind.")
    serving: ServingRequest = ServingRequest()

    @model_validator(mode="after")
    def _one_pool(self) -> RecommendationRequest:
        if self.serving.disaggregated is not None:
            raise ValueError(
                "serving.disaggregated is not searched: ask /v1/compare or /v1/estimates/inference"
            )
        return self


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

    models: Annotated[list[ModelReference], Field(min_length=1, max_length=100)] = Field(
        description="Models: catalog ids or aliases, hf:organisation/name, or {'config': …}."
    )
    accelerators: Annotated[list[AcceleratorReference], Field(min_length=1, max_length=500)] = (
        Field(description="Catalog ids or aliases, or inline accelerators.")
    )
    regions: Annotated[list[RegionReference], Field(min_length=1, max_length=1000)] = Field(
        description="Catalog ids or aliases, or inline regions."
    )
    precisions: Annotated[list[PrecisionRequest], Field(min_length=1, max_length=50)] = Field(
        default_factory=lambda: [PrecisionRequest()],
        description="Number formats; if left out, the one that each checkpoint ships in.",
    )
    parallelisms: Annotated[list[ParallelismRequest], Field(min_length=1, max_length=50)] | None = (
        Field(None, description="If null, as accelerator_count implies.")
    )
    accelerator_count: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Accelerators of all replicas of each row; if null, what its layout uses, "
        "else 1.",
    )
    workload: WorkloadRequest = WorkloadRequest()
    serving: ServingRequest = ServingRequest()
    period: PeriodRequest = PeriodRequest()

    @model_validator(mode="after")
    def _bounded(self) -> CompareRequest:
        if self.row_count > MOST_ROWS:
            raise ValueError(
                f"{self.row_count} combinations; one comparison has at most {MOST_ROWS}, a "
                "recommendation searches any number"
            )
        return self

    @property
    def row_count(self) -> int:
        """Combinations of the lists."""
        layouts = 1 if self.parallelisms is None else len(self.parallelisms)
        return prod(
            (
                len(self.models),
                len(self.accelerators),
                len(self.regions),
                len(self.precisions),
                layouts,
            )
        )


class BatchRequest(CatalogRequest):
    """Requests that are answered or refused each by itself."""

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

    requests: Annotated[list[dict[str, JsonValue]], Field(min_length=1, max_length=MOST_ROWS)] = (
        Field(description="Bodies as of /v1/estimates/inference or, with training, of training.")
    )
