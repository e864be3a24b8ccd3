"""Answers about what to deploy, with the reasons."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from service.core.search.workloads import Metric, Priority
from service.estimation.answers import Answer, Parallelism, Remark, Traced, UsedEntry
from service.estimation.inference.answers import InferenceParts
from service.estimation.inference.echo import Precision
from service.estimation.launching.answers import Start


class MetricWeights(Answer):
    """Weights of the metrics."""

    headroom: float
    latency: float
    carbon: float
    water: float
    cost: float
    energy: float


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
    """USD per 1,000 output tokens."""
    energy: float
    """Wh of the facility per 1,000 output tokens."""


class CandidateDraft(Answer):
    """Speculative decoding of a candidate."""

    draft_model: str | None
    """Null: drafts cost nothing."""
    draft_tokens: int
    acceptance_ratio: float | None


class PublishedEffect(Answer):
    """What a release's format does to quality, as published."""

    benchmark: str
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
    release: str | None
    """Id of the release in /v1/models."""
    quality_effects: list[PublishedEffect]
    """Published effects of the format on quality; empty if none are known."""


class Candidate(Answer):
    """A configuration in a region: as the search sees it, or once chosen, as its estimate says."""

    model: str
    accelerator: str
    accelerator_count: int
    region: str
    precision: Precision
    weights_from: WeightsFrom
    parallelism: Parallelism
    concurrency_per_replica: int
    """Sequences that a replica runs at once."""
    speculative: CandidateDraft | None
    uses_memory_tiers: bool
    """Whether part of it is in serving.memory_tiers, outside the accelerator."""
    headroom_ratio: float
    """Share of an accelerator's memory that is free."""
    ttft_s: float
    tpot_s: float
    usd_per_hour: float | None
    """Price of all accelerators; null if not known."""
    metrics: CandidateMetrics
    score_ratio: float | None
    """Weighted product of the metrics, 1 if best at all that have a weight; null where a metric
    with a weight is not known."""


class ComparedMetric(Answer):
    """One metric of a choice, held against the best of the candidates within the limits."""

    metric: Metric
    value: float | None
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
    water: float | None
    """Litres, whatever the stress of the basins."""
    energy: float | None
    accelerators: float


class Against(Answer):
    """A choice held against the caller's own plan, or against the cheapest choice."""

    plan: Literal["baseline", "cheapest"]
    ratios: AgainstRatios
    in_words: str
    """The ratios as people say them: 4.1 × cheaper, 30 % slower."""


class ChoiceRobustness(Answer):
    """Share of draws of figures and weights in which the choice stays first for its first priority.

    Figures are drawn from their 90 % intervals, those of one kind of accelerator together.
    """

    share_ratio: float
    clear_winner: bool
    """Whether it ranks first in at least 60 % of draws."""


class WouldWinIf(Answer):
    """The smallest change of one metric that would change the choice."""

    metric: str
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


class ChosenEstimate(InferenceParts):
    """The choice as a single estimate, without catalog revision and provenance."""

    warnings: list[Remark]


class LimitRow(Answer):
    """A requested limit, and whether the choice meets it."""

    name: str
    verdict: Literal["pass", "fail", "unknown"]
    value: float | None
    limit: float
    margin: float | None
    """Distance to the limit; negative if it is exceeded."""
    unit: str


class Baseline(Answer):
    """The caller's own plan, estimated as the choices are."""

    estimate: ChosenEstimate
    limits: list[LimitRow]
    """The same limits that choices are held to."""


class Choice(Answer):
    """The best candidate for one or more priorities, with the reasons."""

    priorities: list[Priority]
    """What it is the best choice for."""
    candidate: Candidate
    request: dict[str, Any]
    """The body for /v1/estimates/inference that gives the same estimate."""
    start: Start | None
    """How to start it; null for engines whose flags the catalog does not know."""
    estimate: ChosenEstimate
    limits: list[LimitRow]
    """Further constraints are in the estimate."""
    compared: list[ComparedMetric]
    against: Against | None
    """Null for the plan itself, and where there is none to compare with."""
    robustness: ChoiceRobustness
    nearest_loser: NearestLoser | None
    agreement: Agreement
    confidence: Literal["high", "medium", "low"]
    """How sure it is that this is the best for its first priority: high from 60 % of draws on,
    medium from 30 %, and lower where figures rest on other hardware's measurements."""


class DecisionLimits(Answer):
    """The limits that were applied."""

    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    task_s: float | None
    usd_per_hour: float | None
    kgco2e_per_year: float | None
    l_per_year: float | None
    it_power_w: float | None
    weight_bits_at_least: float | None
    headroom_ratio_at_least: float


class Searched(Answer):
    """Size of the search."""

    models: int
    accelerators: int
    regions: int
    configurations: int
    """Combinations computed, before regions."""
    candidates: int
    """Configurations that met the limits, over all regions."""
    unbeaten: int
    """Candidates that no other one beats; to beat is to be over 10 % better in one metric and worse
    in none."""


class Excluded(Answer):
    """Configurations that a limit excluded, and how close the best of them came."""

    limit: str
    threshold: float | None
    """Null for conditions without one: offered, where no cloud searched is known to rent the
    accelerator out; tensor_parallel_group_within_scale_up_domain; format_or_power_unknown, where
    hardware lacks the formats, kernels for them, or a known power; divides_global_batch, where
    data-parallel ranks cannot share the batch of a step; and makes_progress, where failures never
    let a run end."""
    unit: str
    candidates: int
    """Number of configurations excluded."""
    nearest_value: float | None
    """Value of the configuration that came closest."""


class MustChange(Answer):
    """By how much a figure misses its limit."""

    limit: str
    value: float
    must_fall_by: NotRequired[float]
    must_rise_by: NotRequired[float]


class NearMiss(Answer):
    """A configuration that misses its limits by little."""

    model: str
    accelerator: str
    accelerator_count: int
    weights: str
    tensor: int
    pipeline: int
    must_change: list[MustChange]


class RecommendationAnswer(Traced):
    """Choices by priority, the Pareto front, and what excluded the other candidates."""

    workload_kind: str
    weights: MetricWeights
    limits: DecisionLimits
    searched: Searched
    excluded: list[Excluded]
    baseline: Baseline | None
    """Your own plan; null if the request names none."""
    choices: list[Choice]
    front: list[Candidate]
    """Candidates that no other beats, at most 50."""
    least_violating: list[NearMiss]
    """Configurations that miss the limits by the least, if none meets them."""
    warnings: list[Remark]
    provenance: list[UsedEntry]


class WorkloadKind(Answer):
    """One row of the decision matrix."""

    id: str
    name: str
    focus: str
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
    evidence: str


class WorkloadPage(Answer):
    """The decision matrix."""

    items: list[WorkloadKind]
