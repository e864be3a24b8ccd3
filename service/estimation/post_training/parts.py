"""Parts that objectives are composed of: what is shared by teachers, references and generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Deployment
from service.core.estimate.composition import Phase, PhaseName, Pool, PoolName
from service.core.estimate.training import TrainingSpeed, run_energy
from service.core.explanation import EstimateWarning
from service.core.impacts.energy import deployment_power
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval, scale
from service.core.memory.training.memory import TrainingMemory
from service.core.memory.training.settings import TrainingSettings
from service.core.performance.calibration import PowerModel
from service.core.performance.usage import PhaseUse, Usage
from service.estimation.answers import figure
from service.estimation.post_training.answers import PoolMemory
from service.estimation.post_training.requests import PostTrainingRequest
from service.estimation.rejection import Rejected
from service.estimation.resolution import Problems
from service.estimation.training.calibrations import TrainingFigures
from service.estimation.training.setup import ResolvedTraining

#: Names of pools.
TRAINING: Final = "training"
TEACHER: Final = "teacher"
GENERATION: Final = "generation"
#: An accelerator that holds a model and does nothing.
_IDLE = Usage(0.0, 0.0, 0.0, (PhaseUse(1.0, 0.0, 0.0, 0.0),))


@dataclass(frozen=True, slots=True)
class Run:
    """The run that everything else stands beside: resolved, with its figures and sequences.

    ``sequences`` are those of an optimizer step, over all data-parallel ranks.
    """

    request: PostTrainingRequest
    snapshot: CatalogSnapshot
    resolved: ResolvedTraining
    figures: TrainingFigures
    sequences: float

    @property
    def sequence_tokens(self) -> float:
        """Tokens of a sequence."""
        return float(self.resolved.setup.micro_batch.tokens)

    @property
    def deployment(self) -> Deployment:
        """What is trained where."""
        return self.resolved.setup.deployment

    def looking_at(self, ratio: float) -> Run:
        """The run whose loss looks at a share of each sequence's tokens."""
        setup = self.resolved.setup
        setup = replace(setup, settings=replace(setup.settings, loss_ratio=ratio))
        return replace(self, resolved=replace(self.resolved, setup=setup))

    def frozen_settings(self, zero_stage: int | None) -> TrainingSettings:
        """Settings of a forward pass; weights are divided as asked for, or as the run's are."""
        settings = self.resolved.setup.settings
        own = 3 if settings.zero_stage == 3 else 0
        return replace(settings.forward, zero_stage=own if zero_stage is None else zero_stage)


@dataclass(frozen=True, slots=True)
class Pooled:
    """A pool with the catalog's entry of its accelerator and the id of its model."""

    pool: Pool
    accelerator: Entry[Accelerator]
    model: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is computed once before the run, for each token of the data, and read in the run.

    ``speed`` is that of the forward pass over the sequences of an optimizer step.
    """

    pooled: Pooled
    speed: TrainingSpeed
    figures: TrainingFigures
    stored_bytes_per_token: float
    epochs: float


@dataclass(frozen=True, slots=True)
class Parts:
    """An objective's step: the memory of the accelerators that train, phases and pools.

    ``updates`` are optimizer steps, ``sequences`` those trained on, each counted once.
    """

    memory: TrainingMemory
    speed: TrainingSpeed
    pools: tuple[Pooled, ...]
    phases: tuple[Phase, ...]
    updates: float
    sequences: float
    works_ahead: bool = False
    generated_tokens: float = 0.0
    generation_memory: PoolMemory | None = None
    teacher_memory: PoolMemory | None = None
    prepared: Prepared | None = None
    warnings: tuple[EstimateWarning, ...] = ()
    entries: tuple[tuple[str, Entry[Any]], ...] = field(default=())


def pool_of(
    name: PoolName,
    deployment: Deployment,
    entry: Entry[Accelerator],
    model: str,
    power: PowerModel,
    infrastructure: Infrastructure,
) -> Pooled:
    """A pool of accelerators, with what all of them draw while they wait."""
    idle = None
    if deployment.accelerator.thermal_design_power_w is not None:
        count = deployment.parallelism.accelerator_count
        idle = deployment_power(
            deployment.accelerator, count, _IDLE, power, infrastructure
        ).it_power_w
    return Pooled(Pool(name, deployment, infrastructure, idle), entry, model)


def training_pool(run: Run) -> Pooled:
    """The accelerators that train."""
    return pool_of(
        TRAINING,
        run.deployment,
        run.resolved.accelerator,
        run.resolved.model.id,
        run.figures.efficiency.performance.power,
        run.figures.infrastructure,
    )


def phase_of(
    name: PhaseName,
    pool: PoolName,
    speed: TrainingSpeed,
    figures: TrainingFigures,
    times: float = 1.0,
) -> Phase:
    """A phase that is a training step or its forward pass, so many times in a step."""
    known = speed.setup.deployment.accelerator.thermal_design_power_w is not None
    kwh = run_energy(speed, figures.infrastructure).step_kwh if known else None
    return Phase(name, pool, scale(speed.step_s, times), None if kwh is None else scale(kwh, times))


def waiting_phase(name: PhaseName, pool: Pool, time_s: Interval) -> Phase:
    """A phase in which a pool does little but wait."""
    idle = pool.idle_it_w
    kwh = None if idle is None else scale(idle, float(time_s.value) / 3.6e6)
    return Phase(name, pool.name, time_s, kwh)


def memory_of(memory: TrainingMemory) -> PoolMemory:
    """Memory of an accelerator that only computes forward, as it goes over the wire."""
    return {
        "total_bytes": figure(memory.total_bytes),
        "capacity_bytes": float(memory.capacity_bytes),
        "fits": bool(memory.fits),
    }


def below(problems: Problems, places: Mapping[str, str], rejected: Rejected) -> None:
    """Note what is wrong with a question within the question, at the places of the latter.

    Parameters
    ----------
    problems
        Where it is noted.
    places
        Pointers of the outer question by the beginnings of those of the inner one.
    rejected
        What was wrong with the inner one.
    """
    for error in rejected.errors:
        place = next(
            (
                outer + error.pointer.removeprefix(inner)
                for inner, outer in places.items()
                if error.pointer == inner or error.pointer.startswith(f"{inner}/")
            ),
            error.pointer,
        )
        problems.add(place, error.detail)
