"""The vocabulary of requests: what callers may ask, through whichever door they come.

Unknown fields, numbers that are not finite and sizes beyond reason are refused here, once, for
HTTP, command line and workers alike.
"""

from __future__ import annotations

from datetime import date
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
)

from service.core.number_formats import NUMBER_FORMATS

#: The deployment that examples, documentation and benchmarks use throughout.
EXAMPLE_DEPLOYMENT: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-70B",
    "precision": {"weights": "bf16"},
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
}
EXAMPLE_WORKLOAD: dict[str, Any] = {"input_tokens": 2048, "output_tokens": 256, "concurrency": 32}


class Request(BaseModel):
    """Base of everything a caller sends: closed, immutable, finite numbers only."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CatalogRequest(Request):
    """Base of questions that the catalog takes part in answering."""

    catalog_revision: int | None = Field(
        None, ge=0, le=2**53, description="Answer from this revision of the catalog."
    )
    as_of: date | None = Field(
        None,
        description="Answer from the catalog as it stood at the end of this day (UTC); instead of "
        "catalog_revision.",
    )


def _known_format(name: str) -> str:
    if name not in NUMBER_FORMATS:
        near = get_close_matches(name[:40], NUMBER_FORMATS, n=3, cutoff=0.5)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise ValueError(f"unknown number format{hint} (known: {', '.join(NUMBER_FORMATS)})")
    return name


Reference = Annotated[str, Field(min_length=1, max_length=200)]
FormatName = Annotated[str, Field(min_length=1, max_length=40), AfterValidator(_known_format)]
Degree = Annotated[int, Field(ge=1, le=100_000)]
Ratio = Annotated[float, Field(ge=0.0, le=1.0)]


class ModelConfig(Request):
    """A Hugging Face ``config.json`` as it is."""

    config: dict[str, JsonValue] = Field(
        description="The content of config.json, pasted whole.", min_length=1, max_length=500
    )
    safetensors_index: dict[str, JsonValue] | None = Field(
        None,
        description="The content of model.safetensors.index.json (its weight_map may be left out), "
        'or {"parameters": {"BF16": …}} as the Hub summarises safetensors files: the size of '
        "the files is compared with the configuration, and counted where that names less.",
        min_length=1,
        max_length=100,
        examples=[{"metadata": {"total_size": 16060522496}}],
    )


class HubModel(Request):
    """A model on the Hugging Face Hub, whose ``config.json`` is fetched."""

    hub: Reference = Field(
        description="Its name there; the text hf:organisation/name means the same, and "
        "hf:organisation/name@revision that with a revision.",
        examples=["meta-llama/Llama-3.1-70B"],
    )
    revision: Reference = Field(
        "main",
        description="Branch, tag or commit; the answer names the commit that it came to.",
    )


class FetchedModel(HubModel):
    """A model of the Hub with what was fetched; ``revision`` is the commit.

    Made by whoever fetches, never by a caller. Written out, it is the reference alone.
    """

    config: dict[str, JsonValue] = Field(min_length=1, max_length=500)
    safetensors_index: dict[str, JsonValue] | None = None
    url: str
    year: int
    may_be_old: bool


#: What references to the Hub begin with, where they are texts.
HUB_PREFIX = "hf:"

#: Tags of the ways to refer to something; they stand in error locations and mean no field.
BY_ID, IN_LINE, ON_HUB = "by-id", "in-line", "on-hub"


def _reference_or_object(given: object) -> str:
    return BY_ID if isinstance(given, str) else IN_LINE


def _number_or_object(given: object) -> str:
    return IN_LINE if isinstance(given, dict | BaseModel) else BY_ID


def _reference_to_model(given: object) -> str:
    if isinstance(given, str):
        return BY_ID
    on_hub = "hub" in given if isinstance(given, dict) else isinstance(given, HubModel)
    return ON_HUB if on_hub else IN_LINE


#: Chooses by the JSON type, so that only the errors of the form that was meant are reported.
_EITHER = Discriminator(_reference_or_object)


class StatedFigure(Request):
    """A figure with its 90 % interval."""

    value: float
    low: float | None = None
    high: float | None = None


Figure = Annotated[
    Annotated[float, Tag(BY_ID)] | Annotated[StatedFigure, Tag(IN_LINE)],
    Discriminator(_number_or_object),
]


class InlineAccelerator(Request):
    """An accelerator that is not in the catalog, with the fields of a catalog entry."""

    id: Reference | None = None
    name: Reference | None = None
    vendor: Reference | None = None
    family: Reference | None = Field(
        None, description="Hardware family whose measured efficiencies apply, e.g. nvidia-hopper."
    )
    form_factor: Reference | None = None
    release_year: int | None = Field(None, ge=1990, le=2100)
    memory_technology: Reference | None = None
    unified_memory: bool = False
    scale_up_link: Reference | None = None
    scale_up_domain_accelerators: int | None = Field(None, ge=1, le=100_000)
    figures: dict[str, Figure] = Field(
        description="memory_bytes, memory_bandwidth_bytes_per_s, peak_bf16_flops_per_s, "
        "thermal_design_power_w, … in the units of their names.",
        max_length=40,
    )


class CoolingTower(Request):
    """Evaporative cooling, from which on-site water follows where no WUE is known."""

    wet_bulb_celsius: float = Field(
        ge=-40.0, le=40.0, description="Mean wet-bulb temperature of the site."
    )
    cycles_of_concentration: float = Field(
        6.0, gt=1.0, le=20.0, description="Uses of the water before it is blown down."
    )
    evaporative_ratio: Ratio = Field(1.0, description="Share of hours with evaporation.")


class InlineRegion(Request):
    """A place that is not in the catalog, with the fields of a catalog entry."""

    id: Reference | None = None
    name: Reference | None = None
    country: str | None = Field(None, min_length=2, max_length=2)
    parent: Reference | None = Field(
        None, description="Catalog region whose figures fill in what is missing here."
    )
    figures: dict[str, Figure] = Field(
        default_factory=dict,
        description="grid_gco2e_per_kwh, market_gco2e_per_kwh, pue_ratio, wue_l_per_kwh, "
        "ewif_l_per_kwh, water_stress_ratio.",
        max_length=20,
    )
    cooling: CoolingTower | None = Field(
        None, description="Used for water on site if figures have no wue_l_per_kwh."
    )


ModelReference = Annotated[
    Annotated[Reference, Tag(BY_ID)]
    | Annotated[ModelConfig, Tag(IN_LINE)]
    | Annotated[HubModel, Tag(ON_HUB)],
    Discriminator(_reference_to_model),
]
AcceleratorReference = Annotated[
    Annotated[Reference, Tag(BY_ID)] | Annotated[InlineAccelerator, Tag(IN_LINE)], _EITHER
]
RegionReference = Annotated[
    Annotated[Reference, Tag(BY_ID)] | Annotated[InlineRegion, Tag(IN_LINE)], _EITHER
]


class PrecisionRequest(Request):
    """Number formats."""

    weights: FormatName | None = Field(
        None,
        description="Format of the weights; if null, the one that the checkpoint ships in.",
        examples=["bf16"],
    )
    kv_cache: FormatName | None = Field(None, description="Format of the KV cache; bf16 if null.")
    activations: FormatName | None = Field(None, description="Format of activations; bf16 if null.")
    group_size: int | None = Field(
        None, ge=8, le=65_536, description="Elements that share a scale, for int4 formats."
    )


class ParallelismRequest(Request):
    """Degrees of parallelism; tensor × pipeline × data × context accelerators are used."""

    tensor: Degree = 1
    pipeline: Degree = 1
    expert: Degree = 1
    data: Degree = 1
    context: Degree = 1


class WorkloadRequest(Request):
    """Requests of one shape."""

    input_tokens: int = Field(2048, ge=1, le=10_000_000, description="Prompt length.")
    output_tokens: int = Field(256, ge=1, le=1_000_000, description="Generated tokens.")
    concurrency: int = Field(
        1,
        ge=1,
        le=1_000_000,
        description="Requests in flight over all replicas; with requests_per_s it follows from "
        "Little's law instead, and bounds only the memory asked for.",
    )
    requests_per_s: float | None = Field(
        None, ge=1e-9, le=1e9, description="Arrival rate; null for a closed loop of concurrency."
    )
    prefix_cached_ratio: Ratio = Field(
        0.0, description="Share of the prompt found in the prefix cache."
    )
    calls_per_task: int = Field(1, ge=1, le=100_000, description="Model calls of one agent task.")
    tool_s: float = Field(
        0.0, ge=0.0, le=1e6, description="Time between two calls of a task: tools, retrieval."
    )
    context_growth_tokens: int = Field(
        0, ge=0, le=1_000_000, description="Tokens that the prompt grows by with each call."
    )
    context_kept_cached: bool = Field(
        False,
        description="Whether earlier calls' caches are kept, so that only new tokens count.",
    )


class MemoryTierRequest(Request):
    """Memory beside the accelerator's own."""

    tier: Reference = Field(
        description="Catalog id or alias of the kind of memory.", examples=["ddr5-8ch"]
    )
    units: int = Field(1, ge=1, le=4096, description="Sockets, modules, cards or drives.")
    capacity_bytes: float | None = Field(
        None, ge=1.0, le=1e18, description="Of all units together; the catalog's figure if null."
    )
    shared_by: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Accelerators that share it, other hosts' included; if null, those of the "
        "deployment within one scale-up domain.",
    )
    link_bytes_per_s: float | None = Field(
        None,
        ge=1e6,
        le=1e15,
        description="Link of one accelerator to it, one direction; its host link if null.",
    )


def _tiers(given: object) -> object:
    """Tiers given as a list, or as ids separated by commas."""
    if isinstance(given, str):
        return tuple(name for part in given.split(",") if (name := part.strip()))
    return tuple(given) if isinstance(given, list) else given


TierReference = Annotated[
    Annotated[Reference, Tag(BY_ID)] | Annotated[MemoryTierRequest, Tag(IN_LINE)], _EITHER
]


class OffloadRequest(Request):
    """What is moved out of the accelerator whether there is room or not."""

    weights_ratio: Ratio = Field(0.0, description="Share of the weights.")
    kv_cache_ratio: Ratio = Field(0.0, description="Share of the running requests' caches.")
    parked_sequences: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="Idle conversations whose caches are kept, over all replicas.",
    )
    overlap_ratio: Ratio = Field(
        0.5,
        description="What prefetching hides: 0 tiers are read one after the other, 1 all but the "
        "slowest is hidden.",
    )


class SpeculativeRequest(Request):
    """Speculative decoding."""

    draft_model: ModelReference | None = Field(
        None, description="Model that drafts; null drafts at no cost (n-grams, extra heads)."
    )
    draft_precision: PrecisionRequest = PrecisionRequest()
    draft_tokens: int = Field(4, ge=1, le=64, description="Tokens proposed for each check.")
    acceptance_ratio: Ratio | None = Field(
        None, description="Share of drafted tokens that are accepted; 0.7 is assumed if null."
    )


class DisaggregatedRequest(Request):
    """Prompts on some replicas, decoding on the others."""

    prefill_replicas: int | None = Field(
        None, ge=1, le=100_000, description="Of the replicas; as many as balance if null."
    )
    link_bytes_per_s: float | None = Field(
        None,
        ge=1e6,
        le=1e15,
        description="Link of one accelerator that carries caches; its scale-out link if null.",
    )


class ServingRequest(Request):
    """Settings of the inference engine, named as in vLLM."""

    engine: Literal[
        "vllm",
        "sglang",
        "tensorrt-llm",
        "transformers",
        "llama.cpp",
        "vllm-before-0.6",
        "transformers-before-4.36",
    ] = Field("vllm", description="Engine whose measured overheads apply.")
    memory_utilization_ratio: float = Field(
        0.9, gt=0.0, le=1.0, description="Share of memory the engine may use."
    )
    kv_block_tokens: int = Field(16, ge=1, le=65_536, description="Tokens in a KV-cache page.")
    max_model_len: int | None = Field(
        None, ge=1, le=100_000_000, description="Longest sequence; the model's own if null."
    )
    chunked_prefill_tokens: int = Field(
        8192, ge=1, le=10_000_000, description="Token budget of a step."
    )
    max_running_sequences: int | None = Field(
        None, ge=1, le=1_000_000, description="Sequences run at once; the engine's own if null."
    )
    reserved_bytes: float = Field(
        0.0,
        ge=0.0,
        le=1e15,
        description="Memory of each accelerator that other processes or workspaces hold.",
    )
    speculative: SpeculativeRequest | None = None
    disaggregated: DisaggregatedRequest | None = None
    memory_tiers: Annotated[
        tuple[TierReference, ...],
        Field(max_length=8),
        BeforeValidator(
            _tiers,
            json_schema_input_type=Annotated[str, Field(max_length=1_700)] | list[TierReference],
        ),
    ] = Field(
        (),
        description="Memory beyond the accelerator that takes what has no room there: catalog ids "
        "(as one text separated by commas, or a list), or objects. With offload alone, the host's.",
    )
    offload: OffloadRequest | None = Field(
        None, description="What goes to the first of memory_tiers regardless."
    )


class PeriodRequest(Request):
    """What the period's totals cover."""

    requests: float | None = Field(
        None, ge=1e-9, le=1e18, description="Requests in the period; null: what the rate gives."
    )
    days: float = Field(365.0, ge=1e-6, le=36_525, description="Length of the period.")
    year: int | None = Field(
        None,
        ge=1990,
        le=2100,
        description="Year of the period: factors of that year or before are used, where the "
        "catalog has any; null: the newest.",
    )


class CostRequest(Request):
    """Prices that the caller knows better, or that the catalog does not have."""

    instance: Reference | None = Field(
        None,
        description="Rented machine by catalog id or alias; null: the cheapest of the region's "
        "provider that has the accelerator.",
        examples=["p5.48xlarge"],
    )
    usd_per_accelerator_hour: float | None = Field(
        None, gt=0.0, le=1e6, description="Rent of one accelerator, in place of the list price."
    )
    purchase_usd_per_accelerator: Figure | None = Field(
        None,
        description="Price of an accelerator with its share of the server; null: the catalog's "
        "list price of the accelerator, where there is one.",
    )
    amortisation_years: float | None = Field(
        None, gt=0.0, le=100.0, description="Null: the usual life of servers."
    )
    electricity_usd_per_kwh: float | None = Field(None, ge=0.0, le=100.0)
    usd_per_tco2e: float | None = Field(
        None, ge=0.0, le=1e6, description="Price of a tonne of emissions, operation and making."
    )


class DeploymentRequest(CatalogRequest):
    """What runs where."""

    model: ModelReference = Field(
        description="Catalog id or alias; hf:organisation/name for a model on the Hugging Face "
        "Hub; or {'config': …} with a config.json.",
        examples=["meta-llama/Llama-3.1-70B"],
    )
    precision: PrecisionRequest = PrecisionRequest()
    accelerator: AcceleratorReference = Field(
        description="Catalog id or alias, or an inline accelerator.",
        examples=["nvidia-h100-sxm-80gb"],
    )
    accelerator_count: int | None = Field(
        None, ge=1, le=100_000, description="Accelerators of all replicas together."
    )
    parallelism: ParallelismRequest | None = Field(
        None, description="If null, one replica with tensor parallelism over all accelerators."
    )
    workload: WorkloadRequest = WorkloadRequest()
    serving: ServingRequest = ServingRequest()
    explain: bool = Field(False, description="Add the explanation, step by step.")


class MemoryInferenceRequest(DeploymentRequest):
    """Memory of an inference deployment."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [EXAMPLE_DEPLOYMENT | {"workload": EXAMPLE_WORKLOAD}]}
    )


class LatencyInferenceRequest(DeploymentRequest):
    """Latency and throughput of an inference deployment."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [EXAMPLE_DEPLOYMENT | {"workload": EXAMPLE_WORKLOAD}]}
    )
