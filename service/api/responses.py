"""Shapes of answers, for the OpenAPI document and for the test that holds answers to them.

Answers are built as plain dictionaries and never pass through these models when served.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.compliance_responses import Compliance
from service.api.cost_responses import InferenceCost
from service.api.deployment_responses import Answer as Answer
from service.api.deployment_responses import Deployment as Deployment
from service.api.deployment_responses import Interval as Interval
from service.api.deployment_responses import Parallelism as Parallelism
from service.api.deployment_responses import PlacedDeployment as PlacedDeployment
from service.api.deployment_responses import Precision as Precision

#: How far a change goes: the same result on the same accelerators, nearly the same, more
#: accelerators, or another recipe, load or model.
Reach = Literal["same-result", "near-same-result", "more-accelerators", "other-recipe"]


class Remark(Answer):
    """Something a careful colleague would mention."""

    code: str = Field(description="Stable code, e.g. does_not_fit.")
    message: str


class ExplanationStep(Answer):
    """One formula with the figures that went in and came out."""

    name: str
    formula: str
    inputs: dict[str, float | str | None]
    value: float | None
    unit: str
    source: str


class UsedFigure(Answer):
    """A catalog figure that was used, and where it stands."""

    name: str
    entry: str = Field(description="Catalog entry that states it, when inherited another one.")
    year: int | None
    kind: str = Field(description="datasheet, measured, derived, assumed, or given.")
    source: str | None


class UsedSource(Answer):
    """A document that figures were taken from."""

    id: str
    title: str
    publisher: str
    year: int
    url: str


class UsedEntry(Answer):
    """A catalog entry that was used, with its figures and their sources."""

    collection: str
    id: str
    figures: list[UsedFigure]
    sources: list[UsedSource]


class Remedy(Answer):
    """A change that gains memory, and what becomes of the whole by it.

    Time is counted for each token, and compared with what was asked for, if it had fitted.
    """

    technique: str = Field(description="Id among the techniques.")
    change: str
    reach: Reach
    total_bytes: Interval = Field(description="Memory after the change.")
    saved_bytes: float = Field(description="Memory before the change less that after it.")
    gained_headroom_bytes: float = Field(
        description="The same with what the change adds to the room there is."
    )
    host_bytes: float = Field(description="Host memory after the change, for each accelerator.")
    fits: bool
    accelerator_count: int
    time_ratio: float = Field(description="Time for each token, after it over as asked.")
    accelerator_time_ratio: float = Field(
        description="Time for each token × accelerators, after it over as asked."
    )


class RemedyPlan(Answer):
    """Changes in the order in which they are made, each on top of those before it."""

    reach: Reach = Field(description="How far its furthest change goes.")
    fits: bool
    accelerator_count: int
    time_ratio: float
    accelerator_time_ratio: float
    steps: list[Remedy]


class TierUse(Answer):
    """What one tier holds for one accelerator."""

    tier: str
    kind: str
    bandwidth_bytes_per_s: float = Field(description="As it arrives at the accelerator.")
    room_bytes: float | None = Field(description="Null where it is not known.")
    used_bytes: Interval
    touched_bytes_per_step: float = Field(description="Read by one decoding step.")
    hidden_share_ratio: float | None = Field(
        description="Share of a step's traffic that could come from here hidden behind the "
        "accelerator's own."
    )
    parts_bytes: dict[str, float]


class Placement(Answer):
    """Which bytes live where, for each accelerator."""

    fits: bool = Field(description="Whether everything has a place, by the central estimate.")
    fits_certainty: Literal["yes", "likely", "unlikely", "no"] = Field(
        description="The same by the interval: yes or no where all of it does or does not fit, "
        "likely or unlikely where it lies on both sides."
    )
    unplaced_bytes: Interval = Field(description="What no tier has room for.")
    host_bytes: Interval = Field(description="In host memory, expansion and pools, all together.")
    nvme_bytes: Interval = Field(description="On storage, all together.")
    effective_bandwidth_bytes_per_s: Interval | None = Field(
        description="Of all tiers together, for a step's bytes; null if something has no place."
    )
    slowdown_ratio: Interval | None = Field(
        description="Time to read a step's bytes over that of an accelerator with room for all."
    )
    tiers: list[TierUse]


class Memory(Answer):
    """Memory per accelerator, on the fullest one."""

    weights_bytes: Interval
    kv_cache_bytes: Interval = Field(description="Caches of the requests in flight, whole pages.")
    activations_bytes: Interval = Field(
        description="Peak of what a step of the engine computes with."
    )
    runtime_bytes: Interval = Field(
        description="Context, collectives' buffers, captured graphs, allocator slack."
    )
    libraries_bytes: Interval = Field(
        description="Part of runtime_bytes that is context and collectives' buffers."
    )
    total_bytes: Interval
    capacity_bytes: float = Field(description="Memory of the accelerator.")
    usable_bytes: float = Field(description="Capacity × memory_utilization_ratio.")
    fits: bool = Field(description="Whether the central estimate fits.")
    fits_certainty: Literal["yes", "likely", "unlikely", "no"] = Field(
        description="The same by the interval: yes or no where all of it does or does not fit, "
        "likely or unlikely where it lies on both sides."
    )
    headroom_bytes: Interval = Field(
        description="What everything together leaves of the memory it may fill; negative if it "
        "does not fit."
    )
    shortfall_bytes: Interval = Field(description="By how much it does not fit; 0 if it fits.")
    weights_by_class_bytes: dict[str, float]
    kv_cache_bytes_per_token: float = Field(
        description="Of the next token at the length of the load."
    )
    kv_cache_budget_bytes: Interval = Field(
        description="Room for caches beside weights and everything else; negative if they do "
        "not fit."
    )
    kv_cache_capacity_tokens: Interval = Field(
        description="Tokens of all sequences of a replica that there is room for."
    )
    max_concurrency: Interval | None = Field(description="Null where nothing bounds it.")
    max_context_tokens: Interval | None = Field(description="Null where nothing bounds it.")
    draft_model_bytes: float = Field(description="A draft model with its caches, within runtime.")
    placement: Placement | None = Field(
        description="Where everything lives, if memory beyond the accelerator is used."
    )
    would_help: list[Remedy] = Field(
        description="Single changes that gain memory, if it is short: the fitting ones first."
    )
    plans: list[RemedyPlan] = Field(
        description="If memory is short, changes in order until everything fits, for each reach."
    )


class Phase(Answer):
    """A forward step on the roofline."""

    bottleneck: Literal["compute", "memory_bandwidth", "interconnect", "overhead", "capacity"] = (
        Field(description="What bounds the step.")
    )
    step_s: float = Field(description="Time of the step, overlap and overhead included.")
    compute_bound_s: float = Field(description="Time of the FLOPs alone.")
    memory_bound_s: float = Field(description="Time of the bytes alone.")
    interconnect_s: float = Field(description="Time of messages between accelerators.")
    overhead_s: float = Field(description="Time that the engine adds.")
    arithmetic_intensity_flop_per_byte: float = Field(
        description="FLOPs of the step over the bytes that it moves."
    )
    ridge_point_flop_per_byte: float = Field(
        description="Intensity above which the accelerator is bound by compute."
    )


class Percentiles(Answer):
    """Percentiles over requests."""

    p50: Interval
    p95: Interval
    p99: Interval


class Load(Answer):
    """What a request rate does to the deployment. Percentiles are null past saturation."""

    utilisation_ratio: float = Field(description="Arrival rate over the rate at saturation.")
    saturated: bool = Field(description="Whether more arrives than can be served.")
    ttft_s: Percentiles | None
    e2e_s: Percentiles | None


class Latency(Answer):
    """Latency and throughput. TPOT = (E2E − TTFT) / (output tokens − 1)."""

    ttft_s: Interval = Field(
        description="Mean time from arrival to the first output token, waiting included."
    )
    tpot_s: Interval = Field(description="Mean time per output token after the first.")
    e2e_s: Interval = Field(description="Mean time from arrival to the last token.")
    task_s: Interval = Field(
        description="Mean time of an agent's task: calls_per_task requests and the tools between "
        "them."
    )
    output_tokens_per_s_per_user: Interval
    output_tokens_per_s_per_accelerator: Interval
    output_tokens_per_s: Interval = Field(description="Of the whole deployment.")
    requests_per_s: Interval = Field(description="Requests that the deployment answers.")
    saturation_requests_per_s: Interval = Field(
        description="Rate beyond which requests queue without end."
    )
    running_sequences_per_replica: float = Field(
        description="Mean number that a replica computes at once."
    )
    waiting_requests: float = Field(description="Mean number that waits for room.")
    prefill: Phase
    decode: Phase
    load: Load | None = Field(description="Null without a request rate.")


class DeploymentEnergy(Answer):
    """Power and energy of the deployment, before the building's share."""

    accelerator_busy_power_w: Interval = Field(
        description="Of one accelerator while requests are in flight."
    )
    accelerator_idle_power_w: Interval = Field(description="Of one accelerator without requests.")
    accelerator_mean_power_w: Interval = Field(description="Of one accelerator, over all time.")
    host_power_per_accelerator_w: Interval = Field(description="Its share of the server.")
    it_power_w: Interval = Field(description="Mean of the whole deployment, without PUE.")
    busy_ratio: float = Field(description="Share of time in which any request is in flight.")
    memory_utilisation_ratio: float = Field(description="Share of peak bandwidth while busy.")
    compute_utilisation_ratio: float = Field(description="Share of peak FLOP/s while busy.")
    it_energy_per_request_wh: Interval = Field(
        description="Accelerators and hosts, idle time included."
    )
    accelerator_energy_per_request_wh: Interval
    host_energy_per_request_wh: Interval
    accelerator_energy_per_output_token_j: Interval


class Carbon(Answer):
    """Greenhouse gases. Null where a factor is unknown; the two methods are never netted."""

    operational_location_gco2e: Interval | None = Field(
        description="Facility energy at the average of the grid."
    )
    operational_market_gco2e: Interval | None = Field(
        description="Facility energy at the intensity of what is bought: contracts, and the "
        "residual mix for the rest."
    )
    embodied_gco2e: Interval | None = Field(
        description="Share of the making of accelerators, servers and added memory."
    )
    total_gco2e: Interval | None = Field(description="Location-based operation and embodied.")
    marginal_signal_gco2e: Interval | None = Field(
        description="What using this electricity makes the grid emit; for decisions, in no total."
    )


class Water(Answer):
    """Water consumed. Null where a factor is unknown."""

    on_site_l: Interval | None = Field(description="Evaporated by cooling.")
    off_site_l: Interval | None = Field(description="Evaporated where the electricity is made.")
    total_l: Interval | None
    stress_weighted_l: Interval | None = Field(
        description="Total times the basin's withdrawal-to-supply ratio."
    )


class Impact(Answer):
    """Footprint of one basis."""

    it_energy_kwh: Interval | None = Field(description="Before the building's share (PUE).")
    facility_energy_kwh: Interval | None = Field(description="IT energy times PUE.")
    accelerator_hours: Interval | None = Field(description="Accelerator time that this takes.")
    carbon: Carbon
    water: Water
    e_waste_kg: Interval | None = Field(description="Mass of hardware worn, less what is reused.")
    primary_energy_mj: Interval | None = Field(description="Electricity and making together.")
    primary_energy_electricity_mj: Interval | None = Field(description="Part that is electricity.")
    abiotic_depletion_kgsbeq: Interval | None = Field(
        description="Of hardware and grid; null unless a factor of the grid is given."
    )
    abiotic_depletion_hardware_kgsbeq: Interval | None = Field(
        description="Part that is the making of hardware."
    )


class DeploymentImpacts(Answer):
    """Footprint per request, 1,000 output tokens, task, year and period."""

    per_request: Impact
    per_1k_tokens: Impact
    per_task: Impact
    per_year: Impact
    period: Impact = Field(
        description="Of period.days, or of period.requests where they are given."
    )


class Constraint(Answer):
    """A hard limit and how the deployment stands to it."""

    name: str
    verdict: Literal["pass", "fail"]
    value: float
    limit: float | None
    margin: float | None = Field(description="What is left to the limit; negative if it fails.")
    unit: str


class Repeatable(Answer):
    """What makes an answer repeatable, and what to know about it."""

    catalog_revision: int = Field(
        description="Sent as catalog_revision, it asks the same catalog again."
    )
    engine_version: str = Field(description="Release that computed the answer.")
    warnings: list[Remark] = Field(description="What a careful colleague would mention.")
    provenance: list[UsedEntry] = Field(
        description="Catalog entries that were used, with figures and sources."
    )
    explanation: list[ExplanationStep] = Field(
        default_factory=list, description="Present when asked for with explain."
    )


class MemoryInferenceAnswer(Repeatable, Memory):
    """Memory of an inference deployment."""

    deployment: Deployment


class LatencyInferenceAnswer(Repeatable, Latency):
    """Latency and throughput of an inference deployment."""

    deployment: Deployment
    fits: bool


class InferenceParts(Answer):
    """All about one inference deployment."""

    deployment: PlacedDeployment
    memory: Memory
    latency: Latency
    energy: DeploymentEnergy | None
    impacts: DeploymentImpacts | None
    cost: InferenceCost
    constraints: list[Constraint]
    compliance: Compliance | None = Field(description="Null unless asked for.")


class ComplianceAnswer(Repeatable, Compliance):
    """How a site, a company or a model stands to the rules of a place on a day."""

    region: str


class InferenceAnswer(Repeatable, InferenceParts):
    """Everything about one inference deployment."""


class OpenEndedInterval(Answer):
    """An interval whose upper end may be without bound, which is null."""

    value: float
    low: float
    high: float | None


class ProjectionPoint(Answer):
    """Cumulative emissions up to a day."""

    day: float
    training_kgco2e: float
    inference_kgco2e: Interval


class ProjectionAnswer(Repeatable):
    """When inference overtakes training, and the way there."""

    crossover_days: OpenEndedInterval | None = Field(description="Null if it never does.")
    training_kgco2e: Interval = Field(description="As it was given.")
    first_day_kgco2e: Interval = Field(description="Emissions of the requests of the first day.")
    series: list[ProjectionPoint]


class FieldProblem(Answer):
    """One error of a request."""

    pointer: str = Field(
        description="JSON pointer into the body, or / and the name of a query parameter."
    )
    detail: str = Field(description="What is wrong, and what would be accepted.")
    line: int | None = Field(
        default=None, description="Of a file that was sent, from 1; left out for other bodies."
    )
    column: int | None = Field(
        default=None, description="In that line, from 1; of a table the number of the cell."
    )


class ProblemDetails(Answer):
    """An error, as in RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldProblem] = Field(default_factory=list)


class Liveness(Answer):
    """The process answers."""

    status: Literal["alive"]


class Readiness(Answer):
    """Whether estimates can be answered, and from what."""

    status: Literal["ready", "degraded"]
    catalog_revision: int
    catalog_source: str = Field(description="Where the catalog comes from.")
    database_reachable: bool
    confirmed_s_ago: float | None = Field(
        description="Since the database last confirmed the catalog."
    )
    problem: str | None = Field(description="Why it is degraded; null when ready.")
    engine_version: str
