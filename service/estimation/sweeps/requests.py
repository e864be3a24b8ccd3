"""What callers may ask a sweep."""

from __future__ import annotations

from math import prod
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from service.estimation.recommendations.requests import (
    PercentileLimitsRequest,
    Placement,
    SearchedWorkload,
    check_percentile,
)
from service.estimation.references import (
    AcceleratorReference,
    CatalogRequest,
    Degree,
    FacilityRequest,
    FetchedModel,
    FormatName,
    ModelConfig,
    ModelReference,
    PlatformReference,
    PowerLimit,
    Reference,
    RegionReference,
    Request,
)
from service.estimation.requests import ServingRequest

#: Configurations that one accelerator may have in one layout and format, in all regions: what a
#: chunk holds at least.
MOST_PER_ACCELERATOR = 100_000


class SweepLayout(Request):
    """How one replica is divided; tensor × pipeline accelerators."""

    tensor: Degree = 1
    """Accelerators that divide every matrix of a layer among them."""
    pipeline: Degree = 1
    """Stages of consecutive layers."""
    expert: Degree = 1
    """Ranks of the replica among which whole experts are divided."""


class SweepSpace(Request):
    """Lists whose combinations are evaluated; null means what recommendations search."""

    accelerators: (
        Annotated[list[AcceleratorReference], Field(min_length=1, max_length=500)] | None
    ) = None
    """If null, the whole catalog but for those that are only announced."""
    regions: Annotated[list[RegionReference], Field(min_length=1, max_length=1000)] | None = None
    """Ids, aliases, groups (GET /v1/region-groups) or inline regions; if null, all cloud
    regions."""
    precisions: Annotated[list[FormatName], Field(min_length=1, max_length=20)] | None = None
    """Formats of the weights; if null, the usual ones."""
    kv_caches: Annotated[list[FormatName], Field(min_length=1, max_length=10)] | None = None
    """Formats of the KV cache. If null, bf16, and an 8-bit format where engine and hardware support
    it."""
    parallelisms: Annotated[list[SweepLayout], Field(min_length=1, max_length=50)] | None = None
    """Layouts of one replica; if null, those that the model's heads allow."""
    concurrencies: (
        Annotated[list[Annotated[int, Field(ge=1, le=100_000)]], Field(min_length=1, max_length=50)]
        | None
    ) = None
    """Sequences that a replica runs at once; if null, 1 to 512."""
    accelerator_counts: (
        Annotated[list[Annotated[int, Field(ge=1, le=100_000)]], Field(min_length=1, max_length=50)]
        | None
    ) = None
    """Accelerators of all replicas; if null, as many as the request rate needs, or one replica
    without a rate. Layouts that do not divide a count are left out. With a rate, and without
    counts and concurrencies, replicas are counted as recommendations do: by the goodput of one
    under random arrivals, and several times as many."""
    reserve_ratio: float = Field(0.2, ge=0.0, le=0.9)
    """Where replicas are counted by goodput, share of the rate that they could carry within the
    limits of time which is left free."""
    max_accelerators: int = Field(64, ge=1, le=100_000)
    """Largest number of accelerators of a configuration, over all replicas."""
    placement: Placement = None
    """offered: only accelerators that the cloud is known to rent out in the region; anywhere: all
    combinations. If null, offered; accelerators that you name and no region has are placed
    anywhere."""


class SweepRequest(CatalogRequest):
    """A design-space study: what is combined, and which rows are kept."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "8 or 16 of three accelerators in the north",
                    "models": ["meta-llama/Llama-3.1-70B"],
                    "workload": {"input_tokens": 2048, "output_tokens": 256},
                    "space": {
                        "accelerators": [
                            "nvidia-h100-sxm-80gb",
                            "nvidia-h200-sxm-141gb",
                            "amd-mi300x-192gb",
                        ],
                        "accelerator_counts": [8, 16],
                        "precisions": ["bf16", "fp8"],
                        "concurrencies": [8, 32, 128],
                        "regions": ["aws/eu-north-1", "gcp/europe-north1"],
                    },
                    "limits": {"ttft_s": 2.0, "tpot_s": 0.05},
                    "keep": "survivors",
                }
            ]
        }
    )

    name: str | None = Field(None, max_length=200)
    """Name of the sweep."""
    models: Annotated[list[ModelReference], Field(min_length=1, max_length=20)]
    """Models: catalog ids or aliases, hf:organisation/name, or {'config': …}."""
    workload: SearchedWorkload = SearchedWorkload()
    space: SweepSpace = SweepSpace()
    limits: PercentileLimitsRequest = PercentileLimitsRequest()
    """Null sets no limit."""
    keep: Literal["survivors", "candidates"] = "survivors"
    """Keep only what fits, carries the load and meets the limits; or keep every candidate whose
    weights fit, with a mark that says whether it does."""
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
    list_prices: bool = True
    """For accelerators without a price of your own, use on-demand list prices of the region's
    cloud, else the lowest of any provider in the catalog."""
    serving: ServingRequest = ServingRequest()
    """Without engine_version, rows have the ranges of the newest release alone; estimates of their
    configurations reach over older ones."""

    @model_validator(mode="after")
    def _sweepable(self) -> SweepRequest:
        if self.serving.disaggregated is not None:
            raise ValueError(
                "serving.disaggregated cannot be swept; send such configurations to "
                "/v1/estimates/batch"
            )
        return self

    @property
    def sized_by_goodput(self) -> bool:
        """Whether replicas are counted by the rate that each carries within the limits."""
        space = self.space
        return (
            self.workload.requests_per_s is not None
            and space.accelerator_counts is None
            and space.concurrencies is None
        )

    @model_validator(mode="after")
    def _percentiles_of_arrivals(self) -> SweepRequest:
        check_percentile(self.limits, self.workload.requests_per_s)
        if self.limits.percentile != "mean" and not self.sized_by_goodput:
            raise ValueError(
                "limits.percentile contradicts "
                f"space.{'concurrencies' if self.space.concurrencies else 'accelerator_counts'}: "
                "replicas that always run so many sequences have no percentiles; leave one out"
            )
        return self

    def standing_alone(self) -> SweepRequest:
        """The same request with what was fetched from the Hub written out, for whoever does it."""
        models = [
            ModelConfig(config=model.config, safetensors_index=model.safetensors_index)
            if isinstance(model, FetchedModel)
            else model
            for model in self.models
        ]
        return self.model_copy(update={"models": models})

    @model_validator(mode="after")
    def _bounded(self) -> SweepRequest:
        space = self.space
        listed = (space.concurrencies, space.accelerator_counts, space.regions)
        if (found := prod(len(one) for one in listed if one)) > MOST_PER_ACCELERATOR:
            raise ValueError(
                f"concurrencies × accelerator_counts × regions are {found}; at most "
                f"{MOST_PER_ACCELERATOR} are allowed"
            )
        return self
