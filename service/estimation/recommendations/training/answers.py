"""Answers about where and how to train, with the reasons."""

from __future__ import annotations

from typing import Any, Literal

from service.core.search.workloads import Priority
from service.estimation.answers import Answer, Parallelism, Remark, Traced, UsedEntry
from service.estimation.recommendations.answers import (
    Against,
    Agreement,
    ChoiceRobustness,
    ComparedMetric,
    Excluded,
    LimitRow,
    MetricWeights,
    MustChange,
    Searched,
    WouldWinIf,
)
from service.estimation.training.answers import EstimateTrainingParts
from service.estimation.training.echo import TrainingPrecision


class RunMetrics(Answer):
    """Metrics by which runs are compared; cost is null where no price is known."""

    headroom: float
    """Share of memory used; free memory beyond the target does not lower it."""
    latency: float
    """Duration of the run [s], failures included."""
    carbon: float
    """kgCO2e of the run."""
    water: float
    """Litres of the run, weighted by the basin's water stress."""
    cost: float | None
    """USD of the run."""
    energy: float
    """kWh of the facility for the run."""


class RunSettings(Answer):
    """How a candidate trains."""

    method: Literal["full", "lora", "qlora"]
    optimizer: str
    zero_stage: int
    activation_checkpointing: str
    micro_batch_size: int
    gradient_accumulation_steps: int
    pipeline_schedule: str
    virtual_stages: int
    """Stages a rank in an interleaved schedule."""
    offload_optimizer: Literal["none", "cpu", "nvme"]


class RunCandidate(Answer):
    """A run in a region: as the search sees it, or once chosen, as its estimate says."""

    model: str
    accelerator: str
    accelerator_count: int
    region: str
    precision: TrainingPrecision
    parallelism: Parallelism
    training: RunSettings
    headroom_ratio: float
    """Share of an accelerator's memory that is free."""
    step_s: float
    days: float
    """Duration of the run, failures included."""
    mfu_ratio: float
    accelerator_hours: float
    usd_per_hour: float | None
    """Price of all accelerators; null if not known."""
    metrics: RunMetrics
    score_ratio: float | None
    """Weighted product of the metrics, 1 if best at all that have a weight; null where a metric
    with a weight is not known."""


class RunRunnerUp(Answer):
    """The runner-up."""

    candidate: RunCandidate
    would_win_if: WouldWinIf | None


class ChosenRunEstimate(EstimateTrainingParts):
    """The choice as a single estimate, without catalog revision and provenance."""

    warnings: list[Remark]


class RunBaseline(Answer):
    """The caller's own plan, estimated as the choices are."""

    estimate: ChosenRunEstimate
    limits: list[LimitRow]
    """The same limits that choices are held to."""


class RunChoice(Answer):
    """The best run for one or more priorities, with the reasons."""

    priorities: list[Priority]
    """What it is the best choice for."""
    candidate: RunCandidate
    request: dict[str, Any]
    """The body for /v1/estimates/training that gives the same estimate."""
    estimate: ChosenRunEstimate
    limits: list[LimitRow]
    """Further constraints are in the estimate."""
    compared: list[ComparedMetric]
    against: Against | None
    """Null for the plan itself, and where there is none to compare with."""
    robustness: ChoiceRobustness
    nearest_loser: RunRunnerUp | None
    agreement: Agreement
    confidence: Literal["high", "medium", "low"]
    """How sure it is that this is the best for its first priority: high from 60 % of draws on,
    medium from 30 %, and lower where figures rest on other hardware's measurements."""


class DecisionRunLimits(Answer):
    """The limits that were applied."""

    days: float | None
    usd: float | None
    kgco2e: float | None
    litres: float | None
    it_power_w: float | None
    headroom_ratio_at_least: float


class RunNearMiss(Answer):
    """A run that misses its limits by little."""

    model: str
    accelerator: str
    accelerator_count: int
    weights: str
    method: str
    zero_stage: int
    tensor: int
    pipeline: int
    must_change: list[MustChange]


class TrainingRecommendationAnswer(Traced):
    """Choices by priority, the Pareto front, and what excluded the other candidates."""

    workload_kind: str
    global_batch_size: int
    """Sequences per optimizer step."""
    weights: MetricWeights
    limits: DecisionRunLimits
    searched: Searched
    excluded: list[Excluded]
    baseline: RunBaseline | None
    """Your own plan; null if the request names none."""
    choices: list[RunChoice]
    front: list[RunCandidate]
    """Runs that no other beats, at most 50."""
    least_violating: list[RunNearMiss]
    """Configurations that miss the limits by the least, if none meets them."""
    warnings: list[Remark]
    provenance: list[UsedEntry]
