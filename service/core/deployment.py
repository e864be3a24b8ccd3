"""What runs where: the values a computation is asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from math import inf, prod
from typing import Literal, TypeAlias

from service.core.architecture.images import ImageView
from service.core.architecture.model import ModelArchitecture, Task
from service.core.backends import Backend
from service.core.elementwise import Number, Truth, minimum, scaled, where
from service.core.engine_defaults import UsageContext
from service.core.engines import USUAL_ENGINE, release_key
from service.core.hardware import Hardware
from service.core.interval import Interval
from service.core.lightweight import lightweight
from service.core.number_formats import NumberFormat
from service.core.platform import ALONE, Platform
from service.core.stacking import ALIKE, FIGURE, NAME

#: Engines that compute what they are handed are told to take so many tokens a step: no bound.
UNBOUNDED_STEP_TOKENS = 10_000_000.0


@lightweight
class Precision:
    """Number formats of the three things that are stored or multiplied."""

    weights: NumberFormat
    kv_cache: NumberFormat
    activations: NumberFormat


@lightweight
class Parallelism:
    """Degrees of parallelism.

    ``tensor × pipeline × data × context`` accelerators are used. Experts are divided among
    ``expert`` ranks, as engines do: among tensor-parallel ones first, and where these are too few
    among those of as many replicas as it takes.
    """

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    data: int = 1
    context: int = 1

    @property
    def accelerator_count(self) -> int:
        """Accelerators of all replicas together."""
        return prod((self.tensor, self.pipeline, self.data, self.context))

    @property
    def replica_accelerators(self) -> int:
        """Accelerators that together hold one copy of the attention weights."""
        return self.tensor * self.pipeline * self.context

    @property
    def joined_copies(self) -> int:
        """Copies that hold each expert once among them; 1 where a copy has all of its own."""
        return max(1, self.expert // self.tensor)

    @property
    def least_accelerators(self) -> int:
        """Accelerators of the fewest copies that hold the whole model."""
        return self.replica_accelerators * self.joined_copies

    @property
    def of_replica(self) -> Parallelism:
        """The degrees by which a replica is divided, whatever stands beside it."""
        return Parallelism(self.tensor, self.pipeline, self.expert, context=self.context)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of parallelism that divide anything, by the names of their degrees."""
        names = ("tensor", "pipeline", "expert", "data", "context")
        return frozenset(name for name in names if getattr(self, name) > 1)

    @property
    def of_layers(self) -> Parallelism:
        """The degrees by which a single layer is divided: work within layers follows from them."""
        return Parallelism(tensor=self.tensor, expert=self.expert)

    @property
    def expert_tensor(self) -> int:
        """Ways in which a single expert is divided once whole experts are spread out."""
        return max(1, self.tensor // self.expert)


def memory_kind(technology: str) -> str:
    """The kind of a technology of memory, such as ``gddr`` of GDDR6X; ``unknown`` if it is."""
    return "".join(takewhile(str.isalpha, technology)).lower() or "unknown"


@dataclass(frozen=True, slots=True)
class Link:
    """A link between accelerators: bandwidth of one direction and time of the smallest message."""

    bandwidth_bytes_per_s: Number = field(metadata=FIGURE)
    latency_s: Number = field(metadata=FIGURE)


@dataclass(frozen=True, slots=True, eq=False)
class Accelerator:
    """An accelerator as the computation sees it; compared by identity, as models are.

    ``peak_flops_per_s`` is dense, by precision ("fp32", "tf32", "bf16", "fp16", "fp8", "int8",
    "fp4"). ``scale_up`` joins ``scale_up_domain_accelerators`` of them (NVLink, ICI, xGMI; PCIe
    where there is nothing better), of which ``scale_up_pair_bandwidth_bytes_per_s`` lead to any one
    of them where each pair has links of its own; ``scale_out`` joins the domains. It stands in a
    ``platform``.
    Under a ``power_limit_w`` it keeps ``clock_ratio`` of its clocks, which its peaks follow.
    Vectors have ``vector_lane_count`` lanes, systolic matrix units ``matrix_unit_width`` rows and
    columns. ``memory_technology`` is what its memory is made as, such as HBM3, empty where
    nobody says. ``idle_power_w`` is drawn with nothing on it, ``waiting_power_w`` while a program
    holds a model and has nothing to do. Software takes ``core_count`` cores of it for devices of
    their own. Unknown figures are None.
    """

    id: str = field(metadata=NAME)
    name: str = field(metadata=NAME)
    vendor: str = field(metadata=NAME)
    family: str = field(metadata=NAME)
    memory_bytes: Number = field(metadata=FIGURE)
    memory_bandwidth_bytes_per_s: Number = field(metadata=FIGURE)
    peak_flops_per_s: Mapping[str, Number] = field(metadata=FIGURE)
    scale_up: Link = field(metadata=FIGURE)
    scale_up_domain_accelerators: int = field(metadata=FIGURE)
    scale_out: Link | None = field(metadata=FIGURE)
    host_link_bandwidth_bytes_per_s: Number | None = field(metadata=FIGURE)
    thermal_design_power_w: Number | None = field(metadata=FIGURE)
    idle_power_w: Interval | None = field(metadata=FIGURE)
    embodied_kgco2e: Interval | None = field(metadata=FIGURE)
    mass_kg: Interval | None = field(default=None, metadata=FIGURE)
    embodied_adpe_kgsbeq: Interval | None = field(default=None, metadata=FIGURE)
    embodied_primary_energy_mj: Interval | None = field(default=None, metadata=FIGURE)
    unified_memory: bool = field(default=False, metadata=ALIKE)
    platform: Platform = field(default=ALONE, metadata=FIGURE)
    power_limit_w: Number = field(default=inf, metadata=FIGURE)
    clock_ratio: Number = field(default=1.0, metadata=FIGURE)
    vector_lane_count: Number | None = field(default=None, metadata=FIGURE)
    memory_technology: str = field(default="", metadata=NAME)
    core_count: Number | None = field(default=None, metadata=FIGURE)
    waiting_power_w: Interval | None = field(default=None, metadata=FIGURE)
    matrix_unit_width: Number | None = field(default=None, metadata=FIGURE)
    scale_up_pair_bandwidth_bytes_per_s: Number | None = field(default=None, metadata=FIGURE)

    @property
    def most_power_w(self) -> Number | None:
        """The most that it may draw [W]; None where its thermal design power is unknown."""
        power_w = self.thermal_design_power_w
        return None if power_w is None else minimum(power_w, self.power_limit_w)

    @property
    def filled_features(self) -> Number | None:
        """Features to whose multiples products are filled up; None where they are not [-].

        Those of a matrix unit where it is wider than vectors.
        """
        lanes, width = self.vector_lane_count, self.matrix_unit_width
        if lanes is None or width is None:
            return width if lanes is None else lanes
        # In stacks what nobody says is NaN, which is no more than anything.
        return where(lanes == lanes, where(width > lanes, width, lanes), width)

    @property
    def hardware(self) -> Hardware:
        """What engines know it by."""
        return Hardware(self.id, self.family, self.vendor)


@dataclass(frozen=True, slots=True)
class Region:
    """A place as the computation sees it. Unknown figures are None, never zero.

    ``grid`` is the location-based annual average intensity in gCO2e/kWh, ``market`` the same by
    contract; ``wue`` litres on site per kWh of IT energy, ``ewif`` litres evaporated off site
    per kWh drawn from the grid, ``water_stress`` the basin's withdrawal-to-supply ratio.
    ``residual`` is the grid without contracted electricity, ``marginal`` what one more kWh makes it
    emit, ``carbon_free_energy`` the share that the operator states, ``adpe`` depletion of elements.
    ``wet_bulb`` is the mean of the year; electricity has the price that large customers pay.
    Where nobody states its PUE or its WUE, one ``pue_stood_in`` or ``wue_stood_in``.
    """

    id: str
    name: str
    country: str
    grid_gco2e_per_kwh: Interval | None
    market_gco2e_per_kwh: Interval | None
    pue_ratio: Interval
    wue_l_per_kwh: Interval | None
    ewif_l_per_kwh: Interval | None
    water_stress_ratio: Interval | None
    residual_gco2e_per_kwh: Interval | None = None
    marginal_gco2e_per_kwh: Interval | None = None
    carbon_free_energy_ratio: Interval | None = None
    primary_energy_mj_per_kwh: Interval | None = None
    adpe_kgsbeq_per_kwh: Interval | None = None
    wet_bulb_celsius: Interval | None = None
    electricity_usd_per_kwh: Interval | None = None
    pue_stood_in: Truth = False
    wue_stood_in: Truth = False


#: How requests come where no rate is given: one for each that is answered, or all at the same time.
Arrivals: TypeAlias = Literal["spread", "at_once"]


@dataclass(frozen=True, slots=True)
class LengthSpread:
    """How lengths of requests differ, as ratios to their mean [-].

    ``square_ratio`` is the mean of the squares over the square of the mean; percentiles follow.
    """

    square_ratio: Number = 1.0
    p50_ratio: Number = 1.0
    p95_ratio: Number = 1.0
    p99_ratio: Number = 1.0


#: All requests are alike.
NO_SPREAD = LengthSpread()


@dataclass(frozen=True, slots=True)
class Beams:
    """Beam search: ``width`` continuations of each prompt are decoded, of which one is answered.

    They share the cache of their prompt in pages, or each is ``copied``: then every continuation
    has its prompt computed and its caches held for itself, and caches are put in the new order
    after each token.
    """

    width: float = 1.0
    copied: bool = False

    @property
    def prompt_copies(self) -> float:
        """How often a prompt is computed and held [-]."""
        return self.width if self.copied else 1.0


#: Each request is one sequence.
ONE_BEAM = Beams()


@lightweight
class InferenceWorkload:
    """Requests of one kind; ``concurrency`` counts those in flight over all replicas.

    With ``arrivals`` "at_once" so many come together to idle replicas, and none after them.

    Lengths are means; ``input_spread`` and ``output_spread`` say how requests differ in them.

    An encoder reads ``encoded_tokens`` positions of each request, beside the prompt [token]. Of
    ``images`` [-] like ``image`` in each request, and of ``audio_positions`` [token], the prompt
    has the tokens, ``audio_tokens`` of the latter [token]. What
    they are for is a ``task``: "generate", or "embed" and "rerank", which have no output.

    An agent makes ``calls_per_task`` requests one after the other, with ``tool_s`` between them
    [s], whose prompts grow by ``context_growth_tokens`` each [token]; with ``context_kept_cached``
    only what is new is computed.

    With several ``beams``, a request is as many sequences after its prompt, whose answer is one.
    """

    input_tokens: Number
    output_tokens: Number
    concurrency: Number
    requests_per_s: Number | None = None
    prefix_cached_ratio: Number = 0.0
    calls_per_task: int = 1
    tool_s: float = 0.0
    context_growth_tokens: float = 0.0
    context_kept_cached: bool = False
    task: Task = "generate"
    input_spread: LengthSpread = NO_SPREAD
    output_spread: LengthSpread = NO_SPREAD
    encoded_tokens: Number = 0.0
    images: Number = 0.0
    image: ImageView | None = None
    audio_positions: Number = 0.0
    audio_tokens: Number = 0.0
    arrivals: Arrivals = "spread"
    beams: Beams = ONE_BEAM

    @property
    def sequence_tokens(self) -> Number:
        """Tokens of a sequence once it is answered [token]."""
        return self.input_tokens + (self.output_tokens if self.task == "generate" else 0.0)


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding: ``draft_tokens`` are proposed and checked in one step of the model.

    They come from a draft model, which is divided as the model is, or without one (n-grams,
    the model's own extra heads) at no cost. Each is accepted with ``acceptance_ratio`` [-].
    """

    draft_tokens: int
    acceptance_ratio: Number
    architecture: ModelArchitecture | None = None
    precision: Precision | None = None


@dataclass(frozen=True, slots=True)
class Disaggregation:
    """Disaggregated serving: prompts on some replicas, decoding on the others.

    ``prefill_replicas`` compute prompts (None: as many as balance both pools); ``link`` carries
    the caches from one accelerator to another.
    """

    prefill_replicas: int | None
    link: Link


@lightweight
class ServingSettings:
    """How an inference engine is set up; names follow vLLM's options.

    What is left open here is that of no engine in particular: what each starts with, by its
    ``usage_context``, too, is in the catalog. ``reserved_bytes`` is taken on each accelerator by
    other processes, or by workspaces that flags set aside [B]. With ``enforce_eager`` no graphs are
    captured, so that each kernel waits for the host to issue it. ``flash_attention`` says whether
    attention is fused (None: as the engine does by default), ``limit_mm_per_prompt`` how many
    images a prompt may hold (None: the engine's own default) [-]. Layers that see everything attend
    to ``attention_density_ratio`` of it [-]. ``engine_version`` is the version that was asked for
    (None: the newest), ``engine_generation`` the generation of the engine that it belongs to (None:
    the engine has none). An engine that ``preempts`` takes pages as answers grow; others set room
    aside for whole answers. ``prompts_apart`` is 1 where a step computes prompts or decodes, and 0
    where it does both [-]. The engine drives accelerators by a ``backend`` (None: it has no
    choice). Its share of memory is its own choice with ``share_by_engine``, and told otherwise.
    """

    memory_utilization_ratio: Number = 0.9
    kv_block_tokens: int = 16
    max_model_len: int | None = None
    chunked_prefill_tokens: Number = 8192.0
    engine: str = USUAL_ENGINE
    max_running_sequences: Number = 1024.0
    reserved_bytes: float = 0.0
    enforce_eager: bool = False
    flash_attention: bool | None = None
    limit_mm_per_prompt: int | None = None
    attention_density_ratio: float = 1.0
    speculation: Speculation | None = None
    disaggregation: Disaggregation | None = None
    engine_version: str | None = None
    engine_generation: str | None = None
    preempts: bool = False
    usage_context: UsageContext = "server"
    prompts_apart: Number = 0.0
    backend: Backend | None = None
    share_by_engine: bool = False

    @property
    def release(self) -> str:
        """What figures of the engine's generation are found by."""
        return release_key(self.engine, self.engine_generation)


#: Sequences at once that stand for no limit: engines without one compute what they are handed in
#: one batch, of which none waits.
WITHOUT_LIMIT = 1e6


def most_requests(serving: ServingSettings, workload: InferenceWorkload) -> Number:
    """Requests that settings let run at once on a replica: each beam is a sequence [-]."""
    return scaled(serving.max_running_sequences, 1.0 / workload.beams.width)


@lightweight
class Deployment:
    """A model in given formats on given accelerators, laid out in a given way."""

    architecture: ModelArchitecture
    precision: Precision
    accelerator: Accelerator
    parallelism: Parallelism
