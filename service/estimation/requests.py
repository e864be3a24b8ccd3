"""The vocabulary of requests: what callers may ask, over HTTP or otherwise.

What they are made of, and what is refused, is in :mod:`service.estimation.references`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from service.core.backends import Backend
from service.core.costs import PriceKind
from service.core.performance.inference.lengths import MOST_P95_RATIO
from service.estimation.detail import FieldPaths, including
from service.estimation.references import (
    BY_ID,
    EITHER,
    IN_LINE,
    AcceleratorReference,
    CatalogRequest,
    Degree,
    EngineReference,
    Figure,
    FormatName,
    ModelReference,
    PlatformReference,
    PowerLimit,
    Ratio,
    Reference,
    ReleaseText,
    Request,
    number_or_object,
    separated,
)

#: The deployment that examples, documentation and benchmarks use throughout.
EXAMPLE_DEPLOYMENT: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-70B",
    "precision": {"weights": "bf16"},
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
}
EXAMPLE_WORKLOAD: dict[str, Any] = {"input_tokens": 2048, "output_tokens": 256, "concurrency": 32}


#: As an enumeration of one: generators of clients understand constants less well.
_AsManyAsFit = Annotated[Literal["max"], WithJsonSchema({"type": "string", "enum": ["max"]})]


def _count_or_word(given: object) -> str:
    """Links and command lines send numbers as text, too."""
    return BY_ID if isinstance(given, str) and given[:1].isalpha() else IN_LINE


#: A number of requests in flight, or as many as fit.
Concurrency = Annotated[
    Annotated[_AsManyAsFit, Tag(BY_ID)] | Annotated[int, Field(ge=1, le=1_000_000), Tag(IN_LINE)],
    Discriminator(_count_or_word),
]


class PrecisionRequest(Request):
    """Number formats of weights, KV cache and activations."""

    weights: FormatName | None = Field(None, examples=["bf16"])
    """Format of the weights; if null, the format of the checkpoint, which engines made for serving
    load in 16 bit where it has 32. llama.cpp, Ollama and LM Studio take gguf-q4_k_m of a model that
    writes, as they do unless told otherwise."""
    kv_cache: FormatName | None = None
    """Format of the KV cache; bf16 if null."""
    activations: FormatName | None = None
    """Format of activations; null is what kernels for the weights take on the hardware."""
    group_size: int | None = Field(None, ge=8, le=65_536)
    """Elements that share a scale, for int4 formats."""


class ParallelismRequest(Request):
    """Degrees of parallelism; tensor × pipeline × data × context accelerators are used."""

    tensor: Degree = 1
    """Tensor parallelism: accelerators that divide every matrix of a layer among them. Must divide
    the number of attention heads."""
    pipeline: Degree = 1
    """Pipeline parallelism: stages of consecutive layers, one group of accelerators each; no more
    than there are layers."""
    expert: Degree = 1
    """Expert parallelism: ranks among which whole experts are divided, taken from tensor × data,
    which it must divide. 1 for models without experts; adds no accelerators."""
    data: Degree = 1
    """Copies of the model: replicas that serve requests independently, or data-parallel ranks of
    training, among which ZeRO divides states."""
    context: Degree = 1
    """Context parallelism: ranks among which the tokens of each sequence are divided, and with them
    its KV cache or its activations. Must divide the sequence length of training."""


_Length = Annotated[float, Field(ge=1.0, le=10_000_000.0)]
_Share = Annotated[float, Field(ge=0.0, le=1e12)]
_COLUMN = Field(min_length=1, max_length=256)
#: Columns of a histogram, which a link can spell as one text separated by commas.
_Lengths = Annotated[
    tuple[_Length, ...],
    _COLUMN,
    BeforeValidator(separated, json_schema_input_type=Annotated[list[_Length], _COLUMN]),
]
_Shares = Annotated[
    tuple[_Share, ...],
    _COLUMN,
    BeforeValidator(separated, json_schema_input_type=Annotated[list[_Share], _COLUMN]),
]


class LengthsRequest(Request):
    """Lengths that differ from request to request: mean and p95, or a histogram."""

    mean: float | None = Field(None, ge=1.0, le=10_000_000.0, examples=[800.0])
    """Mean length."""
    p95: float | None = Field(None, ge=1.0, le=10_000_000.0, examples=[2000.0])
    """95th percentile, at least the mean and at most 3.8 times it: lengths are taken to be
    log-normal. For longer tails give a histogram."""
    tokens: _Lengths | None = None
    """Lengths of a histogram, as a list or separated by commas."""
    shares: _Shares | None = None
    """How many requests have each of the lengths: shares or counts, likewise."""

    @model_validator(mode="after")
    def _one_form(self) -> LengthsRequest:
        if self.tokens is None and self.shares is None:
            if self.mean is None or self.p95 is None:
                raise ValueError("give mean and p95, or tokens and shares")
            if not self.mean <= self.p95 <= self.mean * MOST_P95_RATIO:
                raise ValueError(
                    f"p95 must be between the mean and {MOST_P95_RATIO:.3g} times it; for longer "
                    "tails give tokens and shares"
                )
        elif self.mean is not None or self.p95 is not None:
            raise ValueError("give mean and p95, or tokens and shares, not both")
        elif self.tokens is None or self.shares is None or len(self.tokens) != len(self.shares):
            raise ValueError("tokens and shares must be as many as each other")
        elif not sum(self.shares) > 0.0:
            raise ValueError("shares must not all be zero")
        return self


def _lengths(most: int) -> Any:
    return Annotated[
        Annotated[int, Field(ge=1, le=most), Tag(BY_ID)] | Annotated[LengthsRequest, Tag(IN_LINE)],
        Discriminator(number_or_object),
    ]


if TYPE_CHECKING:
    InputTokens: TypeAlias = int | LengthsRequest
    OutputTokens: TypeAlias = int | LengthsRequest
else:
    InputTokens = _lengths(10_000_000)
    OutputTokens = _lengths(1_000_000)


class WorkloadRequest(Request):
    """The workload: requests of one size, with a fixed number in flight or arriving at a rate."""

    task: Literal["generate", "embed", "rerank"] | None = None
    """What the model is used for: to generate text, to embed a sequence, or to rank a document for
    a query, both in one sequence. If null, encoders embed and other models generate."""
    input_tokens: InputTokens = 2048
    """Prompt length: a number, or how lengths differ (mean and p95, or tokens and shares). If left
    out, 2048, or as many as the model's limit leaves beside the output. Of an encoder–decoder model
    for text, what the encoder reads; one that hears begins with a few tokens of instructions unless
    this is given."""
    output_tokens: OutputTokens = 256
    """Generated tokens, likewise; without meaning where sequences are embedded or ranked, and 1
    then."""
    images_per_request: int = Field(0, ge=0, le=1000)
    """Images in the prompt, whose tokens come beside input_tokens; for models that see."""
    image_width_px: int = Field(1024, ge=1, le=100_000)
    """Width of each image."""
    image_height_px: int = Field(1024, ge=1, le=100_000)
    """Height of each image."""
    audio_s: float | None = Field(None, gt=0.0, le=1e5, examples=[30.0])
    """Audio of a request, for models that hear. Whisper reads a whole window in any case; of others
    its tokens come beside input_tokens. Longer audio is as many requests."""
    concurrency: Concurrency = 1
    """Requests in flight over all replicas; max: as many as memory and the engine take. With
    requests_per_s, Little's law gives this number instead, and concurrency only sets the memory
    that is provided."""
    requests_per_s: float | None = Field(None, ge=1e-9, le=1e9)
    """Arrival rate; if null, concurrency requests are always in flight."""
    arrivals: Literal["spread", "at_once"] | None = None
    """How requests come without a rate. spread: another comes for each that is answered. at_once:
    concurrency requests come together to idle replicas and none after them, as in a static batch or
    a script; times then are of these requests, rates over the time until all are answered. If null,
    spread."""
    beam_width: int = Field(1, ge=1, le=64)
    """Continuations that beam search decodes of each prompt, of which one is the answer: output
    tokens count those of the answer alone. On engines with beam_search in /v1/engines."""
    prefix_cached_ratio: Ratio = 0.0
    """Share of the prompt found in the prefix cache."""
    calls_per_task: int = Field(1, ge=1, le=100_000)
    """Model calls per agent task."""
    tool_s: float = Field(0.0, ge=0.0, le=1e6)
    """Time between two calls of a task: tools, retrieval."""
    context_growth_tokens: int = Field(0, ge=0, le=1_000_000)
    """Tokens that each call adds to the prompt."""
    context_kept_cached: bool = False
    """Whether caches of earlier calls are kept, so that only new tokens are computed."""

    @model_validator(mode="after")
    def _one_way_to_come(self) -> WorkloadRequest:
        if self.arrivals is not None and self.requests_per_s is not None:
            raise ValueError("arrivals says how requests come without requests_per_s; give one")
        return self


class MemoryTierRequest(Request):
    """Memory beside the accelerator's own."""

    tier: Reference = Field(examples=["ddr5-8ch"])
    """Catalog id or alias of the memory tier."""
    units: int = Field(1, ge=1, le=4096)
    """Sockets, modules, cards or drives."""
    capacity_bytes: float | None = Field(None, ge=1.0, le=1e18)
    """Of all units together; if null, the catalog's figure."""
    shared_by: int | None = Field(None, ge=1, le=100_000)
    """Accelerators that share it, including those of other hosts; if null, those of the deployment
    within one scale-up domain."""
    link_bytes_per_s: float | None = Field(None, ge=1e6, le=1e15)
    """Bandwidth between one accelerator and this memory, in one direction; if null, its host
    link. A memory whose own bandwidth nobody states has this one."""
    link_efficiency_ratio: float = Field(1.0, ge=1e-4, le=1.0)
    """Share of the link's bandwidth that is reached. Copies that an engine plans reach nearly all;
    pages that unified memory fetches by faults reach less, by your own measurement: no typical
    share is published."""
    price_usd_per_gb: float | None = Field(None, ge=0.0, le=1e6)
    """What a gigabyte of it costs to buy; if null, the catalog's price. Memory of the host is part
    of the machine's price."""
    energy_pj_per_bit: float | None = Field(None, ge=0.0, le=1e6)
    """Energy of moving a bit into or out of it; if null, the catalog's figure."""


TierReference = Annotated[
    Annotated[Reference, Tag(BY_ID)] | Annotated[MemoryTierRequest, Tag(IN_LINE)], EITHER
]


class OffloadRequest(Request):
    """What is offloaded from the accelerator even if there is room."""

    weights_ratio: Ratio = 0.0
    """Share of the weights that is offloaded."""
    kv_cache_ratio: Ratio = 0.0
    """Share of the running requests' caches that is offloaded."""
    parked_sequences: int = Field(0, ge=0, le=1_000_000_000)
    """Idle conversations whose caches are kept, over all replicas."""
    overlap_ratio: Ratio = 0.5
    """How much prefetching hides: 0 if tiers are read one after the other, 1 if all but the slowest
    is hidden. If left out, half of it, and nothing with engines that copy each layer when it is
    due."""


class SpeculativeRequest(Request):
    """Speculative decoding."""

    draft_model: ModelReference | None = None
    """Draft model; if null, drafts cost nothing (n-grams, extra heads)."""
    draft_precision: PrecisionRequest = PrecisionRequest()
    draft_tokens: int = Field(4, ge=1, le=64)
    """Tokens drafted per verification step."""
    acceptance_ratio: Ratio | None = None
    """Share of drafted tokens that are accepted; if null, 0.7 is assumed."""


class DisaggregatedRequest(Request):
    """Disaggregated serving: prompts on some replicas, decoding on the others."""

    prefill_replicas: int | None = Field(None, ge=1, le=100_000)
    """Replicas that compute prompts; if null, as many as balance both pools."""
    link_bytes_per_s: float | None = Field(None, ge=1e6, le=1e15)
    """Bandwidth per accelerator at which caches are transferred; if null, its scale-out link."""


class ServingRequest(Request):
    """Settings of the inference engine, named as in vLLM."""

    engine: EngineReference | None = None
    """Engine whose measured overheads apply: id or alias of one in /v1/engines that runs on the
    accelerator; if null, llama.cpp for weights in GGUF files, ExLlama for its own formats, else the
    one that most people run."""
    engine_version: ReleaseText | None = Field(None, examples=["0.11.0"])
    """Release of the engine: a version (0.5.3, v0.11.0, b4000), a date (2024-08), or a generation
    of it in /v1/engines. A date means what was newest then: state the day of a figure that has to
    be got again. If null, the newest generation, and ranges reach over older ones with which the
    model may well run on the accelerator."""
    backend: Backend | None = None
    """Interface by which llama.cpp and engines like it drive the accelerator, as they were built:
    hip uses hipBLASLt, hip-rocblas rocBLAS alone, hip-rocwmma rocWMMA for fused attention besides;
    vulkan uses the system's driver, vulkan-amdvlk AMD's. If null, what most people run there, and
    ranges reach over others that many run there; each engine's are in /v1/engines."""
    usage_context: Literal["server", "offline"] | None = None
    """How requests reach the engine, by which some engines choose their defaults: through its
    server, or from a script that hands over all of them. If null, offline where requests come
    at_once, else server."""
    memory_utilization_ratio: float | None = Field(None, gt=0.0, le=1.0)
    """Share of memory the engine may use; if null, the engine's default."""
    kv_block_tokens: int = Field(16, ge=1, le=65_536)
    """Tokens per KV-cache page."""
    max_model_len: int | None = Field(None, ge=1, le=100_000_000)
    """Longest sequence; if null, the model's own limit."""
    chunked_prefill_tokens: int | None = Field(None, ge=1, le=10_000_000)
    """Token budget of a step; if null, the engine's default on the accelerator."""
    max_running_sequences: int | None = Field(None, ge=1, le=1_000_000)
    """Sequences run at once; if null, the engine's default on the accelerator. Defaults of all
    engines are in /v1/engines."""
    reserved_bytes: float = Field(0.0, ge=0.0, le=1e15)
    """Memory on each accelerator used by other processes or workspaces."""
    enforce_eager: bool = False
    """Whether steps run without captured graphs."""
    flash_attention: bool | None = None
    """Whether attention is fused, so that its scores are never stored; if null, the engine's
    default."""
    attention_density_ratio: float = Field(1.0, gt=0.0, le=1.0)
    """Share of the tokens before it that a token attends to in layers that see everything, with
    kernels that leave the others out (Quest, MInference, block-sparse). Saves reads of the cache
    and arithmetic of attention; the cache keeps all. Windows, and models that select by themselves,
    stay as they are."""
    limit_mm_per_prompt: int | None = Field(None, ge=0, le=10_000)
    """Images that a prompt may hold, for which vLLM measures the vision tower; if null, one."""
    speculative: SpeculativeRequest | None = None
    """Speculative decoding; if null, one token is decoded at a time."""
    disaggregated: DisaggregatedRequest | None = None
    """Separate replicas for prompts and for decoding, which needs at least two; if null, every
    replica does both."""
    memory_tiers: Annotated[
        tuple[TierReference, ...],
        Field(max_length=8),
        BeforeValidator(
            separated,
            json_schema_input_type=Annotated[str, Field(max_length=1_700)] | list[TierReference],
        ),
    ] = ()
    """Memory beyond the accelerator for whatever does not fit in it: catalog ids (as a list, or as
    text separated by commas), or objects. With offload alone, host memory."""
    offload: OffloadRequest | None = None
    """What is placed in the first of memory_tiers in any case."""


class PeriodRequest(Request):
    """The period that totals cover."""

    requests: float | None = Field(None, ge=1e-9, le=1e18)
    """Requests in the period; if null, computed from the rate."""
    days: float = Field(365.0, ge=1e-6, le=36_525)
    """Length of the period."""
    year: int | None = Field(None, ge=1990, le=2100)
    """Year of the period: the latest factors up to that year are used; if null, the latest of
    all."""


class CostRequest(Request):
    """Your own prices, or prices that the catalog does not have."""

    instance: Reference | None = Field(None, examples=["p5.48xlarge"])
    """Rented machine by catalog id or alias; if null, the cheapest one of the region's provider
    that has the accelerator."""
    price_kind: PriceKind = "on-demand"
    """Which list price is taken: on-demand, spot, or reserved for one or three years."""
    usd_per_accelerator_hour: float | None = Field(None, gt=0.0, le=1e6)
    """Rent per accelerator, instead of the list price."""
    purchase_usd_per_accelerator: Figure | None = None
    """Price of an accelerator with its share of the server; if null, the catalog's list price of
    the accelerator, if there is one."""
    amortisation_years: float | None = Field(None, gt=0.0, le=100.0)
    """Time over which purchased hardware is written off; if null, the typical life of servers."""
    electricity_usd_per_kwh: float | None = Field(None, ge=0.0, le=100.0)
    """Electricity price of the facility [USD/kWh]; if null, what large customers pay in the region,
    where the catalog knows it."""
    usd_per_tco2e: float | None = Field(None, ge=0.0, le=1e6)
    """Price per tonne of emissions from operation and manufacturing."""


class DeploymentRequest(CatalogRequest):
    """What runs where."""

    model: ModelReference = Field(examples=["meta-llama/Llama-3.1-70B"])
    """Catalog id or alias; hf:organisation/name for a model on the Hugging Face Hub; or {'config':
    …} with a config.json."""
    precision: PrecisionRequest = PrecisionRequest()
    accelerator: AcceleratorReference = Field(examples=["nvidia-h100-sxm-80gb"])
    """Catalog id or alias, or an inline accelerator."""
    platform: PlatformReference | None = Field(None, examples=["nvidia-dgx-h100"])
    """Machine that the accelerators stand in, which decides power and manufacturing of the host,
    links and the usual site: id or alias of one in /v1/platforms, or an inline platform; if null,
    the one that the accelerator usually stands in."""
    power_limit_w: PowerLimit | None = None
    """Limit of power of each accelerator, above its idle and up to its thermal design power; clocks
    fall with it. If null, its thermal design power."""
    accelerator_count: int | None = Field(None, ge=1, le=100_000)
    """Accelerators of all replicas together; if null, as many as parallelism uses, else 1."""
    parallelism: ParallelismRequest | None = None
    """If null, what most people run: replicas of as few accelerators as hold the model and its
    share of the requests, or of more where there would be fewer requests than replicas; tensor
    parallelism within what fast links join, pipeline stages beyond. Some may be left over."""
    workload: WorkloadRequest = WorkloadRequest()
    serving: ServingRequest = ServingRequest()
    explain: bool = False
    """Add a step-by-step explanation."""


if TYPE_CHECKING:
    _OfMemory: TypeAlias = tuple[str, ...]
    _OfLatency: TypeAlias = tuple[str, ...]
else:
    _OfMemory = including("provenance", "explanation", "deployment", "memory.by_class", "remedies")
    _OfLatency = including("provenance", "explanation", "deployment", "latency.breakdown")


class MemoryInferenceRequest(DeploymentRequest):
    """Memory of an inference deployment."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [EXAMPLE_DEPLOYMENT | {"workload": EXAMPLE_WORKLOAD}]}
    )

    include: _OfMemory = ()
    fields: FieldPaths = ()


#: There and back between users and the service [s].
NetworkRoundTrip = Annotated[float | None, Field(ge=0.0, le=60.0, examples=[0.05])]


class LatencyInferenceRequest(DeploymentRequest):
    """Latency and throughput of an inference deployment."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [EXAMPLE_DEPLOYMENT | {"workload": EXAMPLE_WORKLOAD}]}
    )

    network_round_trip_s: NetworkRoundTrip = None
    """Time of the network between users and the service, there and back; latency.over_network then
    has the times that users see. Limits and percentiles are those of the service."""
    include: _OfLatency = ()
    fields: FieldPaths = ()
