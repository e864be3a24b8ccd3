"""Answers about what to deploy, with the reasons."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field

from service.estimation.answers import Answer, Parallelism, Remark, Traced, UsedEntry
from service.estimation.inference.answers import InferenceParts
from service.estimation.inference.echo import Precision


class MetricWeights(Answer):
    """What matters how much."""

    headroom: float
    latency: float
    carbon: float
    water: float
    cost: float


class CandidateMetrics(Answer):
    """What candidates are compared by; cost is null where no price is known."""

    headroom: Annotated[
        float,
        Field(
            description="Share of memory filled; what is free beyond the target does not lower it."
        ),
    ]
    latency: Annotated[float, Field(description="Seconds a request takes, or a task of an agent.")]
    carbon: Annotated[float, Field(description="gCO2e per 1,000 output tokens.")]
    water: Annotated[float, Field(description="Litres per 1,000 output tokens.")]
    cost: Annotated[float | None, Field(description="USD per 1,000 output tokens.")]


class CandidateDraft(Answer):
    """Speculative decoding of a candidate."""

    draft_model: Annotated[str | None, Field(description="Null: drafts come at no cost.")]
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
    concurrency_per_replica: Annotated[
        int, Field(description="Sequences that a replica runs at once.")
    ]
    speculative: CandidateDraft | None
    uses_memory_tiers: Annotated[
        bool,
        Field(
            description="Whether part of it lies in serving.memory_tiers, outside the accelerator."
        ),
    ]
    headroom_ratio: Annotated[
        float, Field(description="Share of an accelerator's memory that stays free.")
    ]
    ttft_s: float
    tpot_s: float
    usd_per_hour: Annotated[
        float | None, Field(description="Price of all accelerators; null: not known.")
    ]
    metrics: CandidateMetrics
    score_ratio: Annotated[float, Field(description="Weighted sum of utilities; more is better.")]


class Contribution(Answer):
    """What one metric adds to the score."""

    metric: str
    value: float | None
    unit: str
    utility_ratio: Annotated[float, Field(description="1 at the best anchor, 0 at the worst.")]
    weight_ratio: Annotated[float, Field(description="Weight of the metric, all summing to one.")]
    contribution_ratio: Annotated[float, Field(description="Utility times weight.")]


class GivenUp(Answer):
    """How much worse than the best that meets the limits."""

    metric: str
    best: Annotated[float, Field(description="Best value among what meets the limits.")]
    unit: str
    worse_ratio: Annotated[
        float | None, Field(description="By how much the choice is worse, as a share of the best.")
    ]


class ChoiceRobustness(Answer):
    """Share of draws of inputs and weights in which the choice stays first."""

    share_ratio: float
    clear_winner: Annotated[
        bool, Field(description="Whether it stays first in at least 60 % of draws.")
    ]


class WouldWinIf(Answer):
    """The smallest change of one metric that would turn the choice."""

    metric: str
    change_ratio: Annotated[
        float, Field(description="Of the runner-up's figure; negative: it would have to shrink.")
    ]


class NearestLoser(Answer):
    """The runner-up."""

    candidate: Candidate
    would_win_if: WouldWinIf | None


class Agreement(Answer):
    """Whether the figures bear the matrix's row out."""

    focus: Annotated[str, Field(description="What the matrix says decides such a workload.")]
    agrees: Annotated[bool | None, Field(description="Null where the row names no one factor.")]
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
    margin: Annotated[
        float | None, Field(description="What is left to the limit; negative if it fails.")
    ]
    unit: str


class Choice(Answer):
    """The best candidate for a priority, with the reasons."""

    priority: str
    candidate: Candidate
    estimate: ChosenEstimate
    limits: Annotated[
        list[LimitRow], Field(description="Constraints beyond these are in the estimate.")
    ]
    contributions: list[Contribution]
    given_up: list[GivenUp]
    robustness: ChoiceRobustness
    nearest_loser: NearestLoser | None
    agreement: Agreement
    confidence: Annotated[str, Field(description="high, medium or low.")]


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
    configurations: Annotated[
        int, Field(description="Combinations that were computed, before places.")
    ]
    candidates: Annotated[
        int, Field(description="Configurations that met their limits, in all regions.")
    ]
    unbeaten: Annotated[
        int,
        Field(
            description="Candidates that none beats: no metric worse, and one better by over 10 %."
        ),
    ]


class Excluded(Answer):
    """Configurations that a limit excluded, and how close the closest came."""

    limit: str
    threshold: Annotated[
        float | None,
        Field(
            description="Null for conditions without one: offered, where no cloud searched is "
            "known to rent the accelerator out; tensor_parallel_group_within_scale_up_domain; "
            "format_or_power_unknown, where hardware lacks the formats, kernels for them, or a "
            "known power; divides_global_batch, where data-parallel ranks cannot share the batch "
            "of a step; and makes_progress, where failures never let a run end."
        ),
    ]
    unit: str
    candidates: Annotated[int, Field(description="How many it excluded.")]
    nearest_value: Annotated[float | None, Field(description="Of the one that came closest.")]


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
    """Choices by priority, the front they stand on, and what excluded the others."""

    workload_kind: str
    weights: MetricWeights
    anchors: list[MetricAnchor]
    limits: DecisionLimits
    searched: Searched
    excluded: list[Excluded]
    choices: list[Choice]
    front: Annotated[
        list[Candidate], Field(description="Candidates that nothing else beats, at most 50.")
    ]
    least_violating: Annotated[
        list[NearMiss], Field(description="What misses the limits by least, if nothing meets them.")
    ]
    warnings: list[Remark]
    provenance: list[UsedEntry]


class WorkloadKind(Answer):
    """One row of the decision matrix."""

    id: str
    name: str
    focus: str
    hard_first: Annotated[str, Field(description="What has to hold before anything is weighed.")]
    weights: MetricWeights
    headroom_target_ratio: Annotated[
        float, Field(description="Share of memory left free that is as good as any more.")
    ]
    ttft_s: Annotated[
        float | None, Field(description="Limit where a request gives none; null: none.")
    ]
    tpot_s: Annotated[
        float | None, Field(description="Limit where a request gives none; null: none.")
    ]
    techniques: Annotated[list[str], Field(description="What to try, in this order.")]
    evidence: str


class WorkloadPage(Answer):
    """The decision matrix."""

    items: list[WorkloadKind]
