"""Answers about where and how to train, with the reasons."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from service.core.memory.training.settings import Checkpointing, Optimizer, Schedule
from service.estimation.answers import Answer, IfAny, LimitRow, Remark
from service.estimation.comparison.answers import ComparedRunFigures
from service.estimation.detail import part_of
from service.estimation.launching.answers import RunStart
from service.estimation.recommendations.answers import (
    AppliedLimits,
    ComparedMetrics,
    DecisionAnswer,
    NearMiss,
    PlacedCandidate,
    Reasons,
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
    optimizer: Optimizer
    zero_stage: int
    activation_checkpointing: Checkpointing
    micro_batch_size: int
    gradient_accumulation_steps: int
    pipeline_schedule: Schedule
    virtual_stages: int
    """Stages a rank in an interleaved schedule."""
    offload_optimizer: Literal["none", "cpu", "nvme", "tier"]


class RunCandidate(PlacedCandidate):
    """A run in a region: as the search sees it, or once chosen, as its estimate says."""

    precision: TrainingPrecision
    training: RunSettings
    step_s: float
    days: float
    """Duration of the run, failures included."""
    mfu_ratio: float
    accelerator_hours: float
    metrics: RunMetrics


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


class RunChoice(Reasons, WholeRunEstimate, ComparedMetrics, RunnerUp):
    """The best run for one or more priorities, with the reasons."""

    candidate: RunCandidate
    request: dict[str, Any]
    """The body for /v1/estimates/training that gives the same estimate."""
    start: RunStart | None
    """The command that starts it; null for frameworks whose flags the catalog does not know."""
    figures: ComparedRunFigures
    """What the choice's own estimate says."""


class DecisionRunLimits(AppliedLimits):
    """The limits that were applied; those that are not there are none."""

    days: NotRequired[IfAny[float]]
    """Longest duration of the run, failures included."""
    usd: NotRequired[IfAny[float]]
    """Most that the run may cost."""
    kgco2e: NotRequired[IfAny[float]]
    """Most emissions of the run."""
    litres: NotRequired[IfAny[float]]
    """Most water of the run."""


class RunNearMiss(NearMiss):
    """A run that misses its limits by little."""

    method: str
    """Whether all weights are trained, or adapters beside frozen ones."""
    zero_stage: int


@part_of("front")
class RunFront(Answer, total=False):
    """What the choices stand out of."""

    front: list[RunCandidate]
    """Runs that no other beats, at most 50."""


class TrainingRecommendationAnswer(DecisionAnswer, RunFront):
    """Choices by priority, the Pareto front, and what excluded the other candidates."""

    global_batch_size: int
    """Sequences per optimizer step."""
    limits: DecisionRunLimits
    searched: Searched
    baseline: NotRequired[IfAny[RunBaseline]]
    """Your own plan; present if the request names one."""
    choices: list[RunChoice]
    least_violating: list[RunNearMiss]
    """Configurations that miss the limits by the least, if none meets them."""
