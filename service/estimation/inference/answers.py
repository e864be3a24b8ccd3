"""Answers about inference: memory, latency, and everything about one deployment."""

from __future__ import annotations

from typing import Literal, NotRequired

from service.estimation.answers import (
    Answer,
    Constraint,
    FitCertainty,
    IfAny,
    Interval,
    Repeatable,
)
from service.estimation.compliance.answers import Compliance
from service.estimation.costs.answers import InferenceCost
from service.estimation.detail import part_of
from service.estimation.impacts.answers import DeploymentEnergy, DeploymentImpacts
from service.estimation.inference.echo import Deployment, PlacedDeployment
from service.estimation.inference.placement import Placement
from service.estimation.mitigations import Mitigations
from service.estimation.platforms import Facility


class MemoryParts(Answer):
    """What takes memory, and what there is."""

    weights_bytes: Interval
    kv_cache_bytes: Interval
    """KV caches of the requests in flight, in whole pages."""
    activations_bytes: Interval
    """Peak of the temporary tensors of an engine step."""
    runtime_bytes: Interval
    """The driver's context, buffers of libraries, captured graphs, and slack of the allocator."""
    total_bytes: Interval
    """Sum of all parts, in whichever memory they are."""
    capacity_bytes: float
    """Memory of the accelerator."""
    usable_bytes: float
    """Memory that the engine may use: memory_utilization_ratio × the capacity, or × what is
    free."""


@part_of("memory.by_class")
class MemoryByClass(Answer, total=False):
    """What parts consist of, and what lies outside the accelerator or is stored."""

    context_bytes: Interval
    """Part of runtime_bytes that the driver holds for a process."""
    libraries_bytes: Interval
    """Part of runtime_bytes for buffers of libraries and collectives."""
    graphs_bytes: Interval
    """Part of runtime_bytes for captured graphs."""
    host_bytes: Interval
    """Host memory that the engine uses per accelerator."""
    checkpoint_bytes: float
    """Size of the whole model's tensors, stored once."""


@part_of("memory.by_class")
class MemoryHeld(Answer, total=False):
    """What the accelerator holds, as other tools show it."""

    allocated_bytes: Interval
    """Tensors at their peak: weights, caches and activations (max_memory_allocated)."""
    reserved_bytes: Interval
    """Memory that the allocator reserves for tensors and graphs (max_memory_reserved)."""
    process_bytes: Interval
    """Memory of the process, as nvidia-smi shows it. For an engine that takes its whole share when
    it starts, usable_bytes plus what it uses in addition."""


class MemoryRoom(Answer):
    """What is left, or missing."""

    headroom_bytes: Interval
    """Usable memory minus what the accelerator holds; negative if it does not fit."""


class Shortfall(Answer, total=False):
    """What is missing."""

    shortfall_bytes: Interval
    """Missing memory. If it fits it is 0, and is left out unless include has memory.by_class."""


class CacheRoom(Answer):
    """What fits into the caches."""

    kv_cache_bytes_per_token: float
    """Cache that one more token takes, at the workload's context length."""
    kv_cache_capacity_tokens: Interval | None
    """Number of tokens, over all sequences of a replica, whose cache fits; null if nothing is
    cached. Where layers keep windows or states and an engine fills its share, it is counted in
    sequences of the longest that is admitted, as servers print it when they start."""
    max_concurrency: Interval | None
    """Null if nothing limits it."""
    max_context_tokens: Interval | None
    """Null if nothing limits it."""


@part_of("memory.by_class")
class CacheByClass(Answer, total=False):
    """What caches and weights are made of."""

    kv_cache_budget_bytes: Interval
    """Memory left for caches after weights and everything else; 0 if those do not fit."""
    draft_model_bytes: float
    """Draft model with its caches, part of runtime_bytes."""


@part_of("memory.by_class")
class WeightsByClass(Answer, total=False):
    """Weights by what they belong to."""

    weights_by_class_bytes: dict[str, float]
    placement: IfAny[Placement]
    """Where everything is placed, if memory beyond the accelerator is used."""


class Memory(
    MemoryParts,
    MemoryByClass,
    MemoryHeld,
    FitCertainty,
    MemoryRoom,
    Shortfall,
    CacheRoom,
    CacheByClass,
    WeightsByClass,
    Mitigations,
):
    """Memory per accelerator, on the fullest one."""

    fits: bool
    """Whether the central estimate fits."""


@part_of("latency.breakdown")
class PhaseTimes(Answer, total=False):
    """What the time of a forward step consists of."""

    step_s: float
    """Time of the step, with overlap and overhead."""
    compute_bound_s: float
    """Time for computation only."""
    memory_bound_s: float
    """Time for memory traffic only."""
    interconnect_s: float
    """Time for messages between accelerators."""
    overhead_s: float
    """Time that the engine adds."""
    arithmetic_intensity_flop_per_byte: float
    """FLOPs of the step over the bytes that it moves."""
    ridge_point_flop_per_byte: float
    """Intensity above which the accelerator is bound by compute."""


class PhaseVerdict(Answer):
    """What limits a forward step."""

    bottleneck: Literal["compute", "memory_bandwidth", "interconnect", "overhead", "capacity"]
    """What limits the step."""


class Phase(PhaseVerdict, PhaseTimes):
    """A forward step on the roofline."""


@part_of("latency.breakdown")
class Median(Answer, total=False):
    """The median over requests."""

    p50: Interval


class Percentiles(Median):
    """Percentiles over requests."""

    p95: Interval
    p99: Interval


class Load(Answer):
    """How a request rate loads the deployment. ttft_s and e2e_s are null where no times are."""

    utilisation_ratio: float
    """Arrival rate over the rate at saturation."""
    saturated: bool
    """Whether requests arrive faster than they can be served, by the estimate of what can be: the
    interval of saturation_requests_per_s says how sure that is."""
    ttft_s: Percentiles | None
    tpot_s: Percentiles | None
    """Null where nothing is generated."""
    e2e_s: Percentiles | None


class InFlight(Answer):
    """What requests see of which as many are always in flight: another comes for each answered."""

    ttft_s: Percentiles
    tpot_s: Percentiles | None
    """Null where nothing is generated."""
    e2e_s: Percentiles


class Burst(Answer):
    """Times of requests that all arrive at once."""

    makespan_s: Interval
    """Time until all of them are answered."""
    waves: float
    """How many times the slots of a replica are filled."""
    ttft_s: Percentiles
    tpot_s: Percentiles | None
    """Null where nothing is generated."""
    e2e_s: Percentiles


class LatencyFigures(Answer):
    """Latency and throughput, of one load."""

    ttft_s: Interval | None
    """Mean time from arrival to the first output token, or to the embedding or score, including
    queueing, of a deployment that keeps up with the rate; null above the upper end of
    saturation_requests_per_s, where none does."""
    tpot_s: Interval | None
    """Mean time per output token after the first; null where nothing is generated."""
    e2e_s: Interval | None
    """Mean time from arrival to the last token; null where ttft_s is."""
    output_tokens_per_s: Interval | None
    """Of the whole deployment; null where nothing is generated."""
    requests_per_s: Interval
    """Requests answered per second; for embedding and ranking, sequences per second."""
    saturation_requests_per_s: Interval
    """Arrival rate above which the queue grows without limit."""


class TaskTime(Answer, total=False):
    """Time of an agent's task."""

    task_s: Interval | None
    """Mean time of an agent's task: calls_per_task requests and the tool calls between them; null
    where ttft_s is. Left out where a task is a single request, unless include has
    latency.breakdown."""


@part_of("latency.breakdown")
class LatencyRates(Answer, total=False):
    """Rates per user and accelerator, and queues."""

    output_tokens_per_s_per_user: Interval | None
    output_tokens_per_s_per_accelerator: Interval | None
    input_tokens_per_s: Interval
    """Prompt tokens of answered requests per second, over the whole deployment; includes cached
    tokens and those that an encoder reads."""
    running_sequences_per_replica: float
    """Mean number of requests that a replica runs at once."""
    waiting_requests: float | None
    """Mean number of requests that wait; null above saturation."""


@part_of("latency.breakdown")
class LatencyInFlight(Answer, total=False):
    """Percentiles over requests where as many are always in flight."""

    in_flight: IfAny[InFlight]
    """Present without a request rate, unless requests come at_once."""


class LatencyPhases(Answer):
    """The steps of both phases, in full."""

    prefill: Phase
    decode: Phase | None
    """Null where nothing is generated."""


class LatencyVerdicts(Answer):
    """What limits the steps of both phases."""

    prefill: PhaseVerdict
    decode: PhaseVerdict | None


class OverNetwork(Answer):
    """Mean times as users see them, behind a network; null where ttft_s is."""

    network_round_trip_s: float
    """Time of a round trip, as the request gives it."""
    ttft_s: Interval | None
    e2e_s: Interval | None
    task_s: Interval | None
    """Includes a round trip for each call of the task."""


class Latency(LatencyFigures, TaskTime, LatencyRates, LatencyInFlight, LatencyPhases):
    """Latency and throughput. TPOT = (E2E − TTFT) / (output tokens − 1)."""

    over_network: NotRequired[IfAny[OverNetwork]]
    """Present if network_round_trip_s is given."""
    load: NotRequired[IfAny[Load]]
    """Present with a request rate."""
    burst: NotRequired[IfAny[Burst]]
    """Present if requests come at_once."""


class MemoryInferenceAnswer(Repeatable, Memory):
    """Memory of an inference deployment."""

    deployment: Deployment


class LatencyInferenceAnswer(Repeatable, Latency):
    """Latency and throughput of an inference deployment."""

    deployment: Deployment
    fits: bool


class KeptLimit(Answer):
    """A limit and what an almost idle deployment takes."""

    name: str
    """Name of the field in limits."""
    limit_s: float
    """The limit itself."""
    idle_s: float
    """The figure when hardly any requests arrive, which is the lowest possible."""
    kept_when_idle: bool
    """Whether the limit can be kept at all."""


class Goodput(Answer):
    """The highest rate of requests at which all limits are kept."""

    requests_per_s: Interval
    """0 if even an almost idle deployment misses a limit."""
    saturation_ratio: float
    """This rate as a share of the rate at saturation."""
    limited_by: list[str]
    """Limits that a higher rate would miss; empty where the deployment saturates first."""
    reason: str
    """What sets the rate, in words."""
    limits: list[KeptLimit]


class InferenceParts(Answer):
    """Everything about one inference deployment."""

    deployment: PlacedDeployment
    memory: Memory
    latency: Latency
    facility: Facility
    goodput: NotRequired[IfAny[Goodput]]
    """Present if limits are given."""
    energy: DeploymentEnergy | None
    impacts: DeploymentImpacts | None
    cost: InferenceCost
    constraints: list[Constraint]
    compliance: NotRequired[IfAny[Compliance]]
    """Present if requested."""


class InferenceAnswer(Repeatable, InferenceParts):
    """Everything about one inference deployment."""
