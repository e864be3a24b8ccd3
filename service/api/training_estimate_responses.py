"""Shapes of the answer that has everything about a training run."""

from __future__ import annotations

from pydantic import Field

from service.api.compliance_responses import Compliance
from service.api.cost_responses import TrainingCost
from service.api.responses import Answer, Constraint, Impact, Interval, Repeatable
from service.api.training_responses import TrainingDeployment, TrainingMemory
from service.api.training_speed_responses import TrainingSpeed


class PlacedTraining(TrainingDeployment):
    """The training run as it was understood, and where."""

    region: str


class TrainingEnergy(Answer):
    """Power and energy of the run, before the building's share."""

    accelerator_power_w: Interval = Field(description="Of one accelerator, through a step.")
    accelerator_idle_power_w: Interval
    host_power_per_accelerator_w: Interval
    it_power_w: Interval = Field(description="Of all accelerators with their hosts.")
    memory_utilisation_ratio: float
    compute_utilisation_ratio: float
    it_energy_per_step_kwh: Interval
    it_energy_per_1k_tokens_wh: Interval
    it_energy_run_kwh: Interval | None = Field(
        description="Null unless training.tokens is given and the run ends."
    )


class TrainingImpacts(Answer):
    """Footprint per step, 1,000 tokens, day of training, and of the whole run."""

    per_step: Impact
    per_1k_tokens: Impact
    per_day: Impact
    run: Impact | None = Field(description="Null unless training.tokens is given and the run ends.")


class EstimateTrainingParts(Answer):
    """Everything about one training run, without what makes an answer repeatable."""

    deployment: PlacedTraining
    memory: TrainingMemory
    latency: TrainingSpeed
    energy: TrainingEnergy | None
    impacts: TrainingImpacts | None
    cost: TrainingCost
    constraints: list[Constraint]
    compliance: Compliance | None = Field(description="Null unless asked for.")


class EstimateTrainingAnswer(EstimateTrainingParts, Repeatable):
    """Everything about one training run."""
