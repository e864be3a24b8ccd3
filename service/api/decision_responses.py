"""Shapes of answers about choices."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.responses import (
    Answer,
    FieldProblem,
    InferenceAnswer,
    InferenceParts,
    Interval,
    Parallelism,
    Precision,
    Remark,
    UsedEntry,
)
from service.api.training_estimate_responses import EstimateTrainingAnswer


class Traced(Answer):
    """What makes an answer repeatable."""

    catalog_revision: int = Field(
        description="Sent as catalog_revision, it asks the same catalog again."
    )
    engine_version: str


class BatchItem(Answer):
    """One request's answer, or what is wrong with it."""

    index: int = Field(description="Place in the request, from 0.")
    answer: InferenceAnswer | EstimateTrainingAnswer | None = Field(
        description="Null if the request was refused."
    )
    errors: list[FieldProblem] = Field(description="Why it was refused; empty if it was not.")


class BatchAnswer(Traced):
    """Answers and refusals in the order of the requests."""

    items: list[BatchItem]


class ComparedFigures(Answer):
    """Figures of one row; null where a factor is unknown."""

    total_bytes: Interval
    headroom_bytes: Interval
    ttft_s: Interval
    tpot_s: Interval
    e2e_s: Interval
    output_tokens_per_s: Interval
    requests_per_s: Interval
    it_energy_per_request_wh: Interval | None
    operational_gco2e_per_1k_tokens: Interval | None = Field(
        description="Location-based operation alone."
    )
    gco2e_per_1k_tokens: Interval | None = Field(
        description="Location-based operation and making of hardware."
    )
    l_per_1k_tokens: Interval | None
    kwh_per_year: Interval | None = Field(description="Energy of the facility.")
    rented_usd_per_hour: Interval | None
    rented_usd_per_million_output_tokens: Interval | None


class ComparisonRow(Answer):
    """One combination; refused ones have errors in place of results."""

    model: str
    accelerator: str
    region: str
    weights: str | None
    kv_cache: str | None
    tensor: int | None
    pipeline: int | None
    data: int | None
    accelerator_count: int | None
    fits: bool | None
    results: ComparedFigures | None
    errors: list[FieldProblem]


class ComparisonAnswer(Traced):
    """Rows in the order of models, accelerators, formats, layouts and regions."""

    rows: list[ComparisonRow]


class MetricWeights(Answer):
    """What matters how much."""

    headroom: float
    latency: float
    carbon: float
    water: float
    cost: float


class CandidateMetrics(Answer):
    """What candidates are compared by; cost is null where no price is known."""

    headroom: float = Field(
        description="Share of memory filled; what is free beyond the target does not lower it."
    )
    latency: float = Field(description="Seconds a request takes, or a task of an agent.")
    carbon: float = Field(description="gCO2e per 1,000 output tokens.")
    water: float = Field(description="Litres per 1,000 output tokens.")
    cost: float | None = Field(description="USD per 1,000 output tokens.")


class CandidateDraft(Answer):
    """Speculative decoding of a candidate."""

    draft_model: str | None = Field(description="Null: drafts come at no cost.")
    draft_tokens: int
    acceptance_ratio: float | None


class Candidate(Answer):
    """A configuration in a place, as the search sees it."""

    model: str
    accelerator: str
    accelerator_count: int
    region: str
    precision: Precision
    parallelism: Parallelism
    concurrency_per_replica: int = Field(description="Sequences that a replica runs at once.")
    speculative: CandidateDraft | None
    uses_memory_tiers: bool = Field(
        description="Whether part of it lies in serving.memory_tiers, outside the accelerator."
    )
    headroom_ratio: float = Field(description="Share of an accelerator's memory that stays free.")
    ttft_s: float
    tpot_s: float
    usd_per_hour: float | None = Field(description="Price of all accelerators; null: not known.")
    metrics: CandidateMetrics
    score_ratio: float = Field(description="Weighted sum of utilities; more is better.")


class Contribution(Answer):
    """What one metric adds to the score."""

    metric: str
    value: float | None
    unit: str
    utility_ratio: float = Field(description="1 at the best anchor, 0 at the worst.")
    weight_ratio: float = Field(description="Weight of the metric, all summing to one.")
    contribution_ratio: float = Field(description="Utility times weight.")


class GivenUp(Answer):
    """How much worse than the best that meets the limits."""

    metric: str
    best: float = Field(description="Best value among what meets the limits.")
    unit: str
    worse_ratio: float | None = Field(
        description="By how much the choice is worse, as a share of the best."
    )


class ChoiceRobustness(Answer):
    """Share of draws of inputs and weights in which the choice stays first."""

    share_ratio: float
    clear_winner: bool = Field(description="Whether it stays first in at least 60 % of draws.")


class WouldWinIf(Answer):
    """The smallest change of one metric that would turn the choice."""

    metric: str
    change_ratio: float = Field(
        description="Of the runner-up's figure; negative: it would have to shrink."
    )


class NearestLoser(Answer):
    """The runner-up."""

    candidate: Candidate
    would_win_if: WouldWinIf | None


class Agreement(Answer):
    """Whether the figures bear the matrix's row out."""

    focus: str = Field(description="What the matrix says decides such a workload.")
    agrees: bool | None = Field(description="Null where the row names no one factor.")
    because: str


class ChosenEstimate(InferenceParts):
    """The choice as a single estimate; catalog revision and provenance stand at the top."""

    warnings: list[Remark]


class LimitRow(Answer):
    """A limit asked for, and how the choice stands to it."""

    name: str
    verdict: Literal["pass", "fail", "unknown"]
    value: float | None
    limit: float
    margin: float | None = Field(description="What is left to the limit; negative if it fails.")
    unit: str


class Choice(Answer):
    """The best candidate for a priority, with the reasons."""

    priority: str
    candidate: Candidate
    estimate: ChosenEstimate
    limits: list[LimitRow] = Field(description="Constraints beyond these are in the estimate.")
    contributions: list[Contribution]
    given_up: list[GivenUp]
    robustness: ChoiceRobustness
    nearest_loser: NearestLoser | None
    agreement: Agreement
    confidence: str = Field(description="high, medium or low.")


class MetricAnchor(Answer):
    """Where a metric's utility is 1 and where 0."""

    metric: str
    best: float
    worst: float
    unit: str


class DecisionLimits(Answer):
    """The limits that held."""

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
    """How much was searched."""

    models: int
    accelerators: int
    regions: int
    configurations: int = Field(description="Combinations that were computed, before places.")
    candidates: int = Field(description="Configurations that met their limits, in all regions.")
    unbeaten: int = Field(
        description="Candidates that none beats: no metric worse, and one better by over 10 %."
    )


class Excluded(Answer):
    """Configurations that a limit excluded, and how close the closest came."""

    limit: str
    threshold: float | None = Field(
        description="Null for conditions without one: offered, where no cloud searched is known "
        "to rent the accelerator out; tensor_parallel_group_within_scale_up_domain; "
        "format_or_power_unknown, where hardware lacks the formats, kernels for them, or a known "
        "power; divides_global_batch, where data-parallel ranks cannot share the batch of a step; "
        "and makes_progress, where failures never let a run end."
    )
    unit: str
    candidates: int = Field(description="How many it excluded.")
    nearest_value: float | None = Field(description="Of the one that came closest.")


class MustChange(Answer):
    """By how much a figure misses its limit."""

    limit: str
    value: float
    must_fall_by: float | None = None
    must_rise_by: float | None = None


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
    """Choices by priority, the front they stand on, and what excluded the others."""

    workload_kind: str
    weights: MetricWeights
    anchors: list[MetricAnchor]
    limits: DecisionLimits
    searched: Searched
    excluded: list[Excluded]
    choices: list[Choice]
    front: list[Candidate] = Field(description="Candidates that nothing else beats, at most 50.")
    least_violating: list[NearMiss] = Field(
        description="What misses the limits by least, if nothing meets them."
    )
    warnings: list[Remark]
    provenance: list[UsedEntry]


class WorkloadKind(Answer):
    """One row of the decision matrix."""

    id: str
    name: str
    focus: str
    hard_first: str = Field(description="What has to hold before anything is weighed.")
    weights: MetricWeights
    headroom_target_ratio: float = Field(
        description="Share of memory left free that is as good as any more."
    )
    ttft_s: float | None = Field(description="Limit where a request gives none; null: none.")
    tpot_s: float | None = Field(description="Limit where a request gives none; null: none.")
    techniques: list[str] = Field(description="What to try, in this order.")
    evidence: str


class WorkloadPage(Answer):
    """The decision matrix."""

    items: list[WorkloadKind]
