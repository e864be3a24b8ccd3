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
from service.estimation.release_behind import release_apart

#: The deployment that examples, documentation and benchmarks use throughout.
EXAMPLE_DEPLOYMENT: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-70B",
    "precision": {"weights": "bf16"},
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
}
EXAMPLE_WORKLOAD: dict[str, Any] = {"input_tokens": 2048, "output_tokens": 256, "concurrency": 32}


#: As enumerations of one: generators of clients understand constants less well.
_AsManyAsFit = Annotated[Literal["max"], WithJsonSchema({"type": "string", "enum": ["max"]})]
_OfMachine = Annotated[Literal["machine"], WithJsonSchema({"type": "string", "enum": ["machine"]})]


def _count_or_word(given: object) -> str:
    """Tag of a number, or of a word in its place: links and command lines send both as text."""
    return BY_ID if isinstance(given, str) and given[:1].isalpha() else IN_LINE


#: A number of requests in flight, or as many as fit.
Concurrency = Annotated[
    Annotated[_AsManyAsFit, Tag(BY_ID)] | Annotated[int, Field(ge=1, le=1_000_000), Tag(IN_LINE)],
    Discriminator(_count_or_word),
]
#: A number of data-parallel ranks, or as many as a machine has.
RanksOfGroup = Annotated[
    Annotated[_OfMachine, Tag(BY_ID)] | Annotated[int, Field(ge=1, le=1_000_000), Tag(IN_LINE)],
    Discriminator(_count_or_word),
]


class PrecisionRequest(Request):
    """Number formats of weights, KV cache and activations."""

    weights: FormatName | None = Field(None, examples=["bf16"])
    """Format of the weights. If null, the format of the checkpoint (serving engines load 32-bit
    checkpoints in 16 bits); for llama.cpp, Ollama and LM Studio gguf-q4_k_m, which is what they
    download by default."""
    kv_cache: FormatName | None = None
    """Format of the KV cache; bf16 if null."""
    activations: FormatName | None = None
    """Format of activations. If null, the format that the kernels for these weights use on this
    hardware."""
    group_size: int | None = Field(None, ge=8, le=65_536)
    """Number of weights that share one scale, for int4 formats."""


class ParallelismRequest(Request):
    """Degrees of parallelism; tensor × pipeline × data × context accelerators are used."""

    tensor: Degree = 1
    """Tensor parallelism: the number of accelerators that each hold a part of every matrix. Must
    divide the number of attention heads."""
    pipeline: Degree = 1
    """Pipeline parallelism: the number of stages of consecutive layers, each on accelerators of its
    own. At most the number of layers."""
    expert: Degree = 1
    """Expert parallelism: the number of ranks over which whole experts are spread. It uses the
    accelerators of tensor × data, which it must divide, and adds none. 1 for models without
    experts."""
    data: Degree | None = None
    """Number of copies of the model: replicas that serve requests independently, or data-parallel
    ranks of training, over which ZeRO can divide states. If null, as many as accelerator_count has
    room for."""
    context: Degree = 1
    """Context parallelism: the number of ranks over which the tokens of each sequence are divided,
    together with their KV cache or activations. Must divide the sequence length in training."""


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
    """95th percentile, between 1 and 3.8 times the mean. Lengths are assumed to be log-normal; for
    longer tails give a histogram."""
    tokens: _Lengths | None = None
    """Lengths of a histogram, as a list or separated by commas."""
    shares: _Shares | None = None
    """Share or number of requests with each of these lengths, as a list or separated by commas."""

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
    """What the model is used for: generating text, embedding a sequence, or ranking a document for
    a query (both in one sequence). If null, encoders embed and other models generate."""
    input_tokens: InputTokens = 2048
    """Prompt length: a number, or how lengths differ (mean and p95, or tokens and shares). If left
    out, 2048, or as many as the model's limit leaves beside the output. Of an encoder–decoder model
    for text, what the encoder reads; one that hears begins with a few tokens of instructions unless
    this is given."""
    output_tokens: OutputTokens = 256
    """Number of generated tokens: a number, or how lengths differ. Ignored, and 1, where sequences
    are embedded or ranked."""
    images_per_request: int = Field(0, ge=0, le=1000)
    """Number of images in each prompt, for vision models. Their tokens are added to
    input_tokens."""
    image_width_px: int = Field(1024, ge=1, le=100_000)
    """Width of each image."""
    image_height_px: int = Field(1024, ge=1, le=100_000)
    """Height of each image."""
    audio_s: float | None = Field(None, gt=0.0, le=1e5, examples=[30.0])
    """Length of the audio of each request [s], for models that hear. Whisper always reads a whole
    window of 30 s; for other models the tokens of the audio are added to input_tokens. Count longer
    audio as several requests."""
    concurrency: Concurrency = 1
    """Number of requests in flight over all replicas; max means as many as memory and the engine
    allow. If requests_per_s is given, Little's law gives the number in flight, and concurrency only
    says how many the caches have to hold."""
    requests_per_s: float | None = Field(None, ge=1e-9, le=1e9)
    """Rate at which requests arrive. If null, concurrency requests are always in flight."""
    arrivals: Literal["spread", "at_once"] | None = None
    """How requests arrive if no rate is given. spread: a new one arrives whenever one is answered.
    at_once: all of them arrive together at idle replicas and none later, as in a static batch or a
    script; times are then those of these requests, and rates are over the time until all are
    answered. If null, spread."""
    beam_width: int = Field(1, ge=1, le=64)
    """Number of beams of beam search. Output tokens count only the beam that becomes the answer.
    For engines that list beam_search in /v1/engines."""
    prefix_cached_ratio: Ratio = 0.0
    """Share of the prompt found in the prefix cache."""
    calls_per_task: int = Field(1, ge=1, le=100_000)
    """Model calls per agent task."""
    tool_s: float = Field(0.0, ge=0.0, le=1e6)
    """Time between two calls of a task: tools, retrieval."""
    context_growth_tokens: int = Field(0, ge=0, le=1_000_000)
    """Tokens that each call adds to the prompt."""
    context_kept_cached: bool = False
    """Whether the KV cache of earlier calls of a task is kept, so that only new tokens are
    computed."""

    @model_validator(mode="after")
    def _one_way_to_come(self) -> WorkloadRequest:
        if self.arrivals is not None and self.requests_per_s is not None:
            raise ValueError("arrivals applies only without requests_per_s; give one or the other")
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
    """Number of accelerators that share this memory, including those of other hosts. If null, the
    deployment's accelerators within one scale-up domain."""
    link_bytes_per_s: float | None = Field(None, ge=1e6, le=1e15)
    """Bandwidth between one accelerator and this memory, in one direction. If null, the
    accelerator's link to its host. It is also taken as the memory's own bandwidth if nobody states
    that."""
    link_efficiency_ratio: float = Field(1.0, ge=1e-4, le=1.0)
    """Share of the link's bandwidth that is reached. Copies planned by an engine reach nearly all
    of it. Unified memory that fetches pages on faults reaches less: state your own measurement,
    because no typical share is published."""
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
    """Number of idle conversations whose caches are kept, over all replicas."""
    overlap_ratio: Ratio = 0.5
    """How much of the reading is hidden by prefetching: 0 if tiers are read one after the other, 1
    if only the time of the slowest tier remains. If left out, 0.5, or 0 with engines that copy each
    layer only when it is due."""


class SpeculativeRequest(Request):
    """Speculative decoding."""

    draft_model: ModelReference | None = None
    """Draft model. If null, drafting costs no time (n-grams, extra heads); layers that the
    checkpoint has for it count in memory."""
    draft_precision: PrecisionRequest = PrecisionRequest()
    draft_tokens: int = Field(4, ge=1, le=64)
    """Tokens drafted per verification step."""
    acceptance_ratio: Ratio | None = None
    """Share of drafted tokens that are accepted; if null, 0.7 is assumed."""


class DisaggregatedRequest(Request):
    """Disaggregated serving: prompts on some replicas, decoding on the others."""

    prefill_replicas: int | None = Field(None, ge=1, le=100_000)
    """Number of replicas that compute prompts. If null, the number that balances both pools."""
    link_bytes_per_s: float | None = Field(None, ge=1e6, le=1e15)
    """Bandwidth per accelerator at which caches are transferred; if null, its scale-out link."""


class ServingRequest(Request):
    """Settings of the inference engine, named as in vLLM."""

    @model_validator(mode="before")
    @classmethod
    def _with_the_release_apart(cls, given: object) -> object:
        return release_apart(given, "engine", "engine_version")

    engine: EngineReference | None = None
    """Engine that serves the model: id or alias in /v1/engines. It must run on the accelerator. If
    null, llama.cpp for weights in GGUF files, ExLlama for its own formats, otherwise the engine
    that most people use on the accelerator."""
    engine_version: ReleaseText | None = Field(None, examples=["0.11.0"])
    """Release of the engine: a version (0.5.3, v0.11.0, b4000), a date (2024-08), or a generation
    from /v1/engines. A date means the newest release of that day. If null, the newest generation;
    ranges then also cover older generations that may well run the model on the accelerator."""
    backend: Backend | None = None
    """Backend that llama.cpp, or an engine like it, was built with: hip uses hipBLASLt, hip-rocblas
    only rocBLAS, hip-rocwmma also rocWMMA for fused attention; vulkan uses the system's driver,
    vulkan-amdvlk AMD's. If null, the most common one on the accelerator; ranges then also cover
    others that are common there. /v1/engines lists the backends of each engine."""
    usage_context: Literal["server", "offline"] | None = None
    """How requests reach the engine, which decides some engines' defaults: through its server, or
    from a script that passes all of them at once (offline). If null, offline if requests arrive
    at_once, otherwise server."""
    memory_utilization_ratio: float | None = Field(None, gt=0.0, le=1.0)
    """Share of memory the engine may use; if null, the engine's default."""
    kv_block_tokens: int = Field(16, ge=1, le=65_536)
    """Tokens per KV-cache page."""
    max_model_len: int | None = Field(None, ge=1, le=100_000_000)
    """Longest sequence that the engine accepts. If null, the model's own limit."""
    chunked_prefill_tokens: int | None = Field(None, ge=1, le=10_000_000)
    """Most tokens that are computed in one step. If null, the engine's default on the
    accelerator."""
    max_running_sequences: int | None = Field(None, ge=1, le=1_000_000)
    """Most sequences that run at once. If null, the engine's default on the accelerator, listed in
    /v1/engines."""
    reserved_bytes: float = Field(0.0, ge=0.0, le=1e15)
    """Memory on each accelerator that other processes or workspaces use."""
    enforce_eager: bool = False
    """Whether steps run without captured (CUDA) graphs."""
    flash_attention: bool | None = None
    """Whether attention is fused (FlashAttention), so that its scores are never stored. If null,
    the engine's default."""
    attention_density_ratio: float = Field(1.0, gt=0.0, le=1.0)
    """Share of the earlier tokens that each token attends to in layers with full attention, for
    kernels that skip the rest (Quest, MInference, block-sparse). It saves reads of the cache and
    arithmetic of attention, but no memory. Layers with sliding windows, and models that choose
    tokens themselves, are not affected."""
    limit_mm_per_prompt: int | None = Field(None, ge=0, le=10_000)
    """Most images that a prompt may hold. vLLM sets memory aside for them when it starts. If null,
    one."""
    speculative: SpeculativeRequest | None = None
    """Speculative decoding; if null, one token is decoded at a time."""
    disaggregated: DisaggregatedRequest | None = None
    """Disaggregated serving, with separate replicas for prompts and for decoding; needs at least
    two. If null, every replica does both."""
    memory_tiers: Annotated[
        tuple[TierReference, ...],
        Field(max_length=8),
        BeforeValidator(
            separated,
            json_schema_input_type=Annotated[str, Field(max_length=1_700)] | list[TierReference],
        ),
    ] = ()
    """Memory outside the accelerator for whatever does not fit in it: catalog ids (as a list, or as
    text separated by commas), or objects. If only offload is given, this is host memory."""
    offload: OffloadRequest | None = None
    """What is placed in the first of memory_tiers even if the accelerator has room for it."""


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
    """Which list price is used: on demand, spot, or reserved for one or three years."""
    usd_per_accelerator_hour: float | None = Field(None, gt=0.0, le=1e6)
    """Rent per accelerator, instead of the list price."""
    purchase_usd_per_accelerator: Figure | None = None
    """Price of an accelerator with its share of the server; if null, the catalog's list price of
    the accelerator, if there is one."""
    amortisation_years: float | None = Field(None, gt=0.0, le=100.0)
    """Years over which purchased hardware is written off. If null, the typical life of servers."""
    electricity_usd_per_kwh: float | None = Field(None, ge=0.0, le=100.0)
    """Electricity price of the facility [USD/kWh]; if null, what large customers pay in the region,
    where the catalog knows it."""
    usd_per_tco2e: float | None = Field(None, ge=0.0, le=1e6)
    """Price per tonne of emissions from operation and manufacturing."""


class DeploymentRequest(CatalogRequest):
    """What runs where."""

    model: ModelReference = Field(examples=["meta-llama/Llama-3.1-70B"])
    """Catalog id or alias; the name of a quantised release or file of such a model;
    hf:organisation/name for a model on the Hugging Face Hub; or {'config': …} with a
    config.json."""
    precision: PrecisionRequest = PrecisionRequest()
    accelerator: AcceleratorReference = Field(examples=["nvidia-h100-sxm-80gb"])
    """Catalog id or alias, or an inline accelerator."""
    platform: PlatformReference | None = Field(None, examples=["nvidia-dgx-h100"])
    """Machine that holds the accelerators: id or alias in /v1/platforms, or an inline platform. It
    decides the host's power and manufacturing, the links, and the kind of site. If null, the
    machine that the accelerator is usually in."""
    power_limit_w: PowerLimit | None = None
    """Power limit of each accelerator, between its idle power and its thermal design power. Clocks
    fall with it. If null, its thermal design power."""
    accelerator_count: int | None = Field(None, ge=1, le=100_000)
    """Number of accelerators of all replicas together. If null, as many as parallelism uses,
    otherwise 1."""
    parallelism: ParallelismRequest | None = None
    """If null, the usual layout: replicas with as few accelerators as hold the model and its share
    of the requests, or with more if there would be fewer requests than replicas; tensor parallelism
    within the reach of fast links, and pipeline stages beyond. Some accelerators may be left
    over."""
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
    """Network round trip between users and the service. latency.over_network then gives the times
    that users see. Limits and percentiles remain those of the service itself."""
    include: _OfLatency = ()
    fields: FieldPaths = ()
