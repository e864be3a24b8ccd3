"""Answers about what to deploy, with the reasons."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from service.core.search.workloads import Metric, Priority, Where
from service.estimation.answers import (
    Answer,
    IfAny,
    LimitRow,
    Parallelism,
    Provenance,
    Remark,
    Traced,
)
from service.estimation.comparison.answers import ComparedFigures
from service.estimation.detail import part_of
from service.estimation.inference.answers import InferenceParts
from service.estimation.inference.echo import Precision
from service.estimation.launching.answers import Start
from service.estimation.recommendations.requests import WorkloadKindId


class MetricWeights(Answer):
    """Weights of the metrics."""

    headroom: float
    """Of free memory."""
    latency: float
    """Of the time of a request, or of the run."""
    carbon: float
    """Of emissions."""
    water: float
    """Of water, weighted by its scarcity."""
    cost: float
    """Of money."""
    energy: float
    """Of energy."""


class CandidateMetrics(Answer):
    """Metrics by which candidates are compared; cost is null where no price is known."""

    headroom: float
    """Share of memory used; free memory beyond the target does not lower it."""
    latency: float
    """Seconds per request, or per agent task."""
    carbon: float
    """gCO2e per 1,000 output tokens."""
    water: float
    """Litres per 1,000 output tokens, weighted by the basin's water stress."""
    cost: float | None
    """USD per million output tokens."""
    energy: float
    """Wh of the facility per 1,000 output tokens."""


class CandidateDraft(Answer):
    """Speculative decoding of a candidate."""

    draft_model: NotRequired[IfAny[str]]
    """Without one, drafts cost nothing."""
    draft_tokens: int
    """Tokens that are proposed at a time."""
    acceptance_ratio: float | None
    """Share of proposed tokens that are accepted; null if nobody states it."""


class PublishedEffect(Answer):
    """What a release's format does to quality, as published."""

    benchmark: str
    """Name of the benchmark."""
    base: float
    """Result of the base model."""
    value: float
    """Result of the release."""
    unit: str
    year: int
    source: str
    kind: str
    note: NotRequired[str]


class WeightsFrom(Answer):
    """Where weights in the candidate's format come from."""

    kind: Literal["checkpoint", "release", "engine", "conversion"]
    """checkpoint: as the model is published; release: a published one of it in another format;
    engine: made by the engine when it starts, or by its tools; conversion: you would make it."""
    release: NotRequired[IfAny[str]]
    """Id of the release in /v1/models, where the weights are one."""
    quality_effects: list[PublishedEffect]
    """Published effects of the format on quality; empty if none are known."""


class PlacedCandidate(Answer):
    """What candidates of either kind say: what stands where, at what price."""

    model: str
    accelerator: str
    accelerator_count: int
    region: str
    owned: bool
    """Whether it is bought and stands in a place of your own; else it is rented."""
    parallelism: Parallelism
    headroom_ratio: float
    """Share of an accelerator's memory that is free."""
    usd_per_hour: float | None
    """Price of all accelerators; null if not known. What is owned costs its price over its life and
    its electricity."""
    usd_per_month: float | None
    """The same for a month of 730.5 hours."""
    score_ratio: float | None
    """Weighted product of the metrics, 1 if best at all that have a weight; null where a metric
    with a weight is not known."""


class Candidate(PlacedCandidate):
    """A configuration in a region: as the search sees it, or once chosen, as its estimate says."""

    engine: str
    """What serves."""
    precision: Precision
    weights_from: WeightsFrom
    concurrency_per_replica: int
    """Sequences that a replica runs at once."""
    speculative: NotRequired[IfAny[CandidateDraft]]
    disaggregated: bool
    """Whether some replicas compute prompts and the others decode."""
    uses_memory_tiers: bool
    """Whether part of it is in serving.memory_tiers, outside the accelerator."""
    ttft_s: float
    tpot_s: float
    metrics: CandidateMetrics


class ComparedMetric(Answer):
    """One metric of a choice, held against the best of the candidates within the limits."""

    metric: Metric
    value: float | None
    """Figure of the choice; null if not known."""
    best: float | None
    """Least of all candidates within the limits."""
    unit: str
    worse_ratio: float | None
    """How much worse the choice is, relative to the best."""
    weight_ratio: float
    """Weight of the metric; weights sum to one."""
    factor_ratio: float | None
    """(best / value) ^ weight. The product of all is the score."""


class AgainstRatios(Answer):
    """Figures of a choice over those of the plan; null where either is not known."""

    cost: float | None
    """Rent for the same work."""
    latency: float | None
    """Time of a request, or of the run."""
    carbon: float | None
    """Emissions for the same work."""
    water: float | None
    """Litres, whatever the stress of the basins."""
    energy: float | None
    """Energy for the same work."""
    accelerators: float
    """Number of accelerators."""


class Against(Answer):
    """A choice held against the caller's own plan, or against the cheapest choice."""

    plan: Literal["baseline", "cheapest"]
    """What the choice is held against."""
    ratios: AgainstRatios
    in_words: str
    """The ratios as people say them: 4.1 × cheaper, 30 % slower."""


class ChoiceRobustness(Answer):
    """Share of draws of figures and weights in which the choice stays first for its first priority.

    Figures are drawn from their 90 % intervals, those of one kind of accelerator together.
    """

    share_ratio: float
    """The share."""
    clear_winner: bool
    """Whether it ranks first in at least 60 % of draws."""
    in_words: str
    """What was varied, how often the choice remained the best, and what follows."""


class WouldWinIf(Answer):
    """The smallest change of one metric that would change the choice."""

    metric: str
    """The metric that would have to change."""
    change_ratio: float
    """Relative to the runner-up's figure; negative if it would have to fall."""


class NearestLoser(Answer):
    """The runner-up."""

    candidate: Candidate
    would_win_if: WouldWinIf | None


class Agreement(Answer):
    """Whether the figures confirm the deciding factor of the decision matrix."""

    focus: str
    """Deciding factor of this workload kind, by the decision matrix."""
    agrees: bool | None
    """Null if the matrix names no single factor."""
    because: str
    """What in the figures says so."""


class ChosenEstimate(InferenceParts):
    """The choice as a single estimate, without catalog revision and provenance."""

    warnings: list[Remark]


@part_of("estimates")
class WholeEstimate(Answer, total=False):
    """The estimate that figures are taken from."""

    estimate: ChosenEstimate


@part_of("compared")
class ComparedMetrics(Answer, total=False):
    """Each metric of a choice, held against the best."""

    compared: list[ComparedMetric]


@part_of("compared")
class RunnerUp(Answer, total=False):
    """What nearly won."""

    nearest_loser: NearestLoser | None


class Baseline(WholeEstimate):
    """The caller's own plan, estimated as the choices are."""

    figures: ComparedFigures
    limits: list[LimitRow]
    """The same limits that choices are held to."""


class Reasons(Answer):
    """Why a choice of either kind is one."""

    priorities: list[Priority]
    """What it is the best choice for; the fastest is the one of fewest accelerators whose time is
    within one standard error of the least."""
    limits: list[LimitRow]
    """Further constraints are in the estimate."""
    against: Against | None
    """Null for the plan itself, and where there is none to compare with."""
    robustness: ChoiceRobustness
    agreement: Agreement
    confidence: Literal["high", "medium", "low"]
    """How sure it is that this is the best for its first priority: high from 60 % of draws on,
    medium from 30 %, and lower where figures rest on other hardware's measurements."""


class Choice(Reasons, WholeEstimate, ComparedMetrics, RunnerUp):
    """The best candidate for one or more priorities, with the reasons."""

    candidate: Candidate
    request: dict[str, Any]
    """The body for /v1/estimates/inference that gives the same estimate."""
    start: Start | None
    """How to start it; null for engines whose flags the catalog does not know."""
    figures: ComparedFigures
    """What the choice's own estimate says."""


class AppliedLimits(Answer):
    """The limits that were applied; those that are not there are none."""

    usd_per_hour: NotRequired[IfAny[float]]
    usd_per_month: NotRequired[IfAny[float]]
    it_power_w: NotRequired[IfAny[float]]
    weight_bits_at_least: NotRequired[IfAny[float]]
    water_stress_ratio: NotRequired[IfAny[float]]
    compliance: NotRequired[IfAny[dict[str, Any]]]
    """Rules to keep, as asked for."""
    site: NotRequired[IfAny[dict[str, Any]]]
    """What the site can take, as asked for."""
    headroom_ratio_at_least: float
    implied: bool
    """Whether limits of the workload kind hold where the request gives none."""


class DecisionLimits(AppliedLimits):
    """The limits that were applied; those that are not there are none."""

    ttft_s: NotRequired[IfAny[float]]
    """Most time to the first token."""
    tpot_s: NotRequired[IfAny[float]]
    """Most time per output token."""
    e2e_s: NotRequired[IfAny[float]]
    """Most time from arrival to the last token."""
    task_s: NotRequired[IfAny[float]]
    """Most time of a task of several calls."""
    kgco2e_per_year: NotRequired[IfAny[float]]
    """Most emissions in a year of use."""
    l_per_year: NotRequired[IfAny[float]]
    """Most water in a year of use."""
    percentile: Literal["mean", "p50", "p95", "p99"]
    """What of ttft_s, tpot_s and e2e_s is limited."""


class Searched(Answer):
    """Size of the search."""

    models: int
    accelerators: int
    regions: int
    combinations: int
    """Combinations of models, formats, layouts, accelerators and sizes, before regions."""
    configurations: int
    """Combinations computed, before regions; the others cannot run or hold not even weights."""
    within_limits: int
    """Configurations within the limits that depend on no place, of hardware that can be had."""
    candidates: int
    """Configurations that met the limits, over all regions."""
    unbeaten: int
    """Candidates that no other one beats; to beat is to be over 10 % better in one metric and worse
    in none."""


class SearchedDeployments(Searched):
    """Size of the search, and how its replicas are counted."""

    reserve_ratio: float | None
    """Under a rate of requests, share of what replicas could carry within the limits of time that
    is left free; null without a rate."""


class Excluded(Answer):
    """Configurations that a limit excluded, and how close the best of them came."""

    stage: Literal["configuration", "place"]
    """Whether configurations are counted, or configurations in places; those of the stage
    configuration add up to searched.combinations less searched.within_limits."""
    limit: str
    """Field of limits, or one of the conditions below."""
    label: str
    """What it is called where people read it."""
    threshold: float | None
    """Null for conditions without one: offered, where no cloud searched is known to rent the
    accelerator out; tensor_parallel_group_within_scale_up_domain; format_or_power_unknown, where
    hardware lacks the formats, kernels for them, or a known power; divides_global_batch, where
    data-parallel ranks cannot share the batch of a step; needs_its_pipeline_stages, where weights
    and a sequence fill no more than half of the memory with fewer stages; and makes_progress, where
    failures never let a run end."""
    unit: str
    candidates: int
    """Number of configurations excluded."""
    nearest_value: float | None
    """Value of the configuration that came closest."""


class NotSearched(Answer):
    """Accelerators or places that were set aside before anything was computed, and why."""

    reason: Literal["not_measured", "not_offered", "water_stress_ratio", "compliance"]
    accelerators: int
    """Accelerators set aside."""
    regions: int
    """Places set aside."""
    in_words: str


class ImpliedLimit(Answer):
    """A limit that nobody set: the workload kind's."""

    field: str
    """Field of the request that it stands in for."""
    value: float | list[str]
    """What it is."""
    unit: str
    in_words: str
    """What it is, and how to remove it."""


class MustChange(Answer):
    """By how much a figure misses its limit."""

    limit: str
    """Field of limits that is missed."""
    value: float
    """The figure that misses it."""
    must_fall_by: NotRequired[float]
    """By how much it would have to fall, in its unit."""
    must_rise_by: NotRequired[float]
    """By how much it would have to rise, in its unit."""


class NearMiss(Answer):
    """A configuration that misses its limits by little."""

    model: str
    accelerator: str
    accelerator_count: int
    weights: str
    tensor: int
    pipeline: int
    usd_per_hour: float | None
    """Lowest known price of all accelerators, wherever they may be had."""
    must_change: list[MustChange]
    in_words: str
    """What would have to change in the request, in a sentence."""


@part_of("front")
class Front(Answer, total=False):
    """What the choices stand out of."""

    front: list[Candidate]
    """Candidates that no other beats, at most 50."""


class DecisionAnswer(Traced):
    """What answers about choices of either kind say."""

    workload_kind: WorkloadKindId
    weights: MetricWeights
    implied: list[ImpliedLimit]
    """Limits that the workload kind sets where the request is silent, and how to remove them."""
    not_searched: list[NotSearched]
    """What was set aside before anything was computed."""
    excluded: list[Excluded]
    warnings: list[Remark]
    provenance: Provenance


class RecommendationAnswer(DecisionAnswer, Front):
    """Choices by priority, the Pareto front, and what excluded the other candidates."""

    limits: DecisionLimits
    searched: SearchedDeployments
    baseline: NotRequired[IfAny[Baseline]]
    """Your own plan; present if the request names one."""
    choices: list[Choice]
    least_violating: list[NearMiss]
    """Configurations that miss the limits by the least, if none meets them."""


class WorkloadKind(Answer):
    """One row of the decision matrix."""

    id: str
    name: str
    focus: str
    """What decides most often."""
    hard_first: str
    """Requirement that comes before any weighing."""
    weights: MetricWeights
    headroom_target_ratio: float
    """Target for free memory: more than this share scores no better."""
    ttft_s: float | None
    """Limit if the request gives none; null for no limit."""
    tpot_s: float | None
    """Limit if the request gives none; null for no limit."""
    techniques: list[str]
    """Techniques to try, in this order."""
    where: list[Where]
    """Where hardware is had unless the request says: rented in a cloud, or bought."""
    evidence: str
    """Why, with sources."""


class WorkloadPage(Answer):
    """The decision matrix."""

    items: list[WorkloadKind]
