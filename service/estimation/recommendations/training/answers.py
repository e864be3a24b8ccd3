"""Answers about where and how to train, with the reasons."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from service.core.search.workloads import Priority
from service.estimation.answers import (
    Answer,
    IfAny,
    LimitRow,
    Parallelism,
    Provenance,
    Remark,
    Traced,
)
from service.estimation.comparison.answers import ComparedRunFigures
from service.estimation.detail import part_of
from service.estimation.launching.answers import RunStart
from service.estimation.recommendations.answers import (
    Against,
    Agreement,
    ChoiceRobustness,
    ComparedMetrics,
    Excluded,
    ImpliedLimit,
    MetricWeights,
    MustChange,
    NotSearched,
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
    offload_optimizer: Literal["none", "cpu", "nvme", "tier"]


class RunCandidate(Answer):
    """A run in a region: as the search sees it, or once chosen, as its estimate says."""

    model: str
    accelerator: str
    accelerator_count: int
    region: str
    owned: bool
    """Whether it is bought and stands in a place of your own; else it is rented."""
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
    """Price of all accelerators; null if not known. What is owned costs its price over its life and
    its electricity."""
    usd_per_month: float | None
    """The same for a month of 730.5 hours."""
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


@part_of("estimates")
class WholeRunEstimate(Answer, total=False):
    """The estimate that figures are taken from."""

    estimate: ChosenRunEstimate


@part_of("compared")
class RunnerUp(Answer, total=False):
    """What nearly won."""

    nearest_loser: RunRunnerUp | None


class RunBaseline(WholeRunEstimate):
    """The caller's own plan, estimated as the choices are."""

    figures: ComparedRunFigures
    limits: list[LimitRow]
    """The same limits that choices are held to."""


class RunChoice(WholeRunEstimate, ComparedMetrics, RunnerUp):
    """The best run for one or more priorities, with the reasons."""

    priorities: list[Priority]
    """What it is the best choice for."""
    candidate: RunCandidate
    request: dict[str, Any]
    """The body for /v1/estimates/training that gives the same estimate."""
    start: RunStart | None
    """The command that starts it; null for frameworks whose flags the catalog does not know."""
    figures: ComparedRunFigures
    """What the choice's own estimate says."""
    limits: list[LimitRow]
    """Further constraints are in the estimate."""
    against: Against | None
    """Null for the plan itself, and where there is none to compare with."""
    robustness: ChoiceRobustness
    agreement: Agreement
    confidence: Literal["high", "medium", "low"]
    """How sure it is that this is the best for its first priority: high from 60 % of draws on,
    medium from 30 %, and lower where figures rest on other hardware's measurements."""


class DecisionRunLimits(Answer):
    """The limits that were applied; those that are not there are none."""

    days: NotRequired[IfAny[float]]
    usd: NotRequired[IfAny[float]]
    usd_per_hour: NotRequired[IfAny[float]]
    usd_per_month: NotRequired[IfAny[float]]
    kgco2e: NotRequired[IfAny[float]]
    litres: NotRequired[IfAny[float]]
    it_power_w: NotRequired[IfAny[float]]
    weight_bits_at_least: NotRequired[IfAny[float]]
    water_stress_ratio: NotRequired[IfAny[float]]
    compliance: NotRequired[IfAny[dict[str, Any]]]
    """Rules to keep, as asked for."""
    site: NotRequired[IfAny[dict[str, Any]]]
    """What the site can take, as asked for."""
    headroom_ratio_at_least: float
    implied: bool


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
    usd_per_hour: float | None
    """Lowest known price of all accelerators, wherever they may be had."""
    must_change: list[MustChange]
    in_words: str
    """What would have to change in the request, in a sentence."""


@part_of("front")
class RunFront(Answer, total=False):
    """What the choices stand out of."""

    front: list[RunCandidate]
    """Runs that no other beats, at most 50."""


class TrainingRecommendationAnswer(Traced, RunFront):
    """Choices by priority, the Pareto front, and what excluded the other candidates."""

    workload_kind: str
    global_batch_size: int
    """Sequences per optimizer step."""
    weights: MetricWeights
    limits: DecisionRunLimits
    searched: Searched
    implied: list[ImpliedLimit]
    """Limits that the workload kind sets where the request is silent, and how to remove them."""
    not_searched: list[NotSearched]
    """What was set aside before anything was computed."""
    excluded: list[Excluded]
    baseline: NotRequired[IfAny[RunBaseline]]
    """Your own plan; present if the request names one."""
    choices: list[RunChoice]
    least_violating: list[RunNearMiss]
    """Configurations that miss the limits by the least, if none meets them."""
    warnings: list[Remark]
    provenance: Provenance
