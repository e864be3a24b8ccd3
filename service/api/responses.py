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

    fits: bool
    fits_certainty: Literal["yes", "likely", "unlikely", "no"]
    unplaced_bytes: Interval
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
    kv_cache_bytes: Interval
    activations_bytes: Interval
    runtime_bytes: Interval = Field(
        description="Context, collectives' buffers, captured graphs, allocator slack."
    )
    libraries_bytes: Interval = Field(
        description="Part of runtime_bytes that is context and collectives' buffers."
    )
    total_bytes: Interval
    capacity_bytes: float
    usable_bytes: float = Field(description="Capacity × memory_utilization_ratio.")
    fits: bool
    fits_certainty: Literal["yes", "likely", "unlikely", "no"]
    headroom_bytes: Interval
    shortfall_bytes: Interval
    weights_by_class_bytes: dict[str, float]
    kv_cache_bytes_per_token: float
    kv_cache_budget_bytes: Interval = Field(
        description="Room for caches beside weights and everything else; negative if they do "
        "not fit."
    )
    kv_cache_capacity_tokens: Interval
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

    bottleneck: Literal["compute", "memory_bandwidth", "interconnect", "overhead", "capacity"]
    step_s: float
    compute_bound_s: float
    memory_bound_s: float
    interconnect_s: float
    overhead_s: float
    arithmetic_intensity_flop_per_byte: float
    ridge_point_flop_per_byte: float


class Percentiles(Answer):
    """Percentiles over requests."""

    p50: Interval
    p95: Interval
    p99: Interval


class Load(Answer):
    """What a request rate does to the deployment. Percentiles are null past saturation."""

    utilisation_ratio: float
    saturated: bool
    ttft_s: Percentiles | None
    e2e_s: Percentiles | None


class Latency(Answer):
    """Latency and throughput. TPOT = (E2E − TTFT) / (output tokens − 1)."""

    ttft_s: Interval
    tpot_s: Interval
    e2e_s: Interval
    task_s: Interval
    output_tokens_per_s_per_user: Interval
    output_tokens_per_s_per_accelerator: Interval
    output_tokens_per_s: Interval
    requests_per_s: Interval
    saturation_requests_per_s: Interval
    running_sequences_per_replica: float
    waiting_requests: float
    prefill: Phase
    decode: Phase
    load: Load | None = Field(description="Null without a request rate.")


class DeploymentEnergy(Answer):
    """Power and energy of the deployment, before the building's share."""

    accelerator_busy_power_w: Interval
    accelerator_idle_power_w: Interval
    accelerator_mean_power_w: Interval
    host_power_per_accelerator_w: Interval
    it_power_w: Interval
    busy_ratio: float
    memory_utilisation_ratio: float
    compute_utilisation_ratio: float
    it_energy_per_request_wh: Interval
    accelerator_energy_per_request_wh: Interval
    host_energy_per_request_wh: Interval
    accelerator_energy_per_output_token_j: Interval


class Carbon(Answer):
    """Greenhouse gases. Null where a factor is unknown; the two methods are never netted."""

    operational_location_gco2e: Interval | None
    operational_market_gco2e: Interval | None
    embodied_gco2e: Interval | None
    total_gco2e: Interval | None = Field(description="Location-based operation and embodied.")
    marginal_signal_gco2e: Interval | None = Field(
        description="What using this electricity makes the grid emit; for decisions, in no total."
    )


class Water(Answer):
    """Water consumed. Null where a factor is unknown."""

    on_site_l: Interval | None
    off_site_l: Interval | None
    total_l: Interval | None
    stress_weighted_l: Interval | None


class Impact(Answer):
    """Footprint of one basis."""

    it_energy_kwh: Interval | None
    facility_energy_kwh: Interval | None
    accelerator_hours: Interval | None
    carbon: Carbon
    water: Water
    e_waste_kg: Interval | None
    primary_energy_mj: Interval | None
    primary_energy_electricity_mj: Interval | None
    abiotic_depletion_kgsbeq: Interval | None
    abiotic_depletion_hardware_kgsbeq: Interval | None


class DeploymentImpacts(Answer):
    """Footprint per request, 1,000 output tokens, task, year and period."""

    per_request: Impact
    per_1k_tokens: Impact
    per_task: Impact
    per_year: Impact
    period: Impact


class Constraint(Answer):
    """A hard limit and how the deployment stands to it."""

    name: str
    verdict: Literal["pass", "fail"]
    value: float
    limit: float | None
    margin: float | None
    unit: str


class Repeatable(Answer):
    """What makes an answer repeatable, and what to know about it."""

    catalog_revision: int
    engine_version: str
    warnings: list[Remark]
    provenance: list[UsedEntry]
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
    training_kgco2e: Interval
    first_day_kgco2e: Interval
    series: list[ProjectionPoint]


class FieldProblem(Answer):
    """One error of a request."""

    pointer: str
    detail: str
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
    catalog_source: str
    database_reachable: bool
    confirmed_s_ago: float | None
    problem: str | None
    engine_version: str
