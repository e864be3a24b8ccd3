"""What would make a training run fit."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from service.catalog.snapshot import CatalogSnapshot
from service.core.memory.training.memory import TrainingMemory, training_memory
from service.core.memory.training.runtime import TrainingOverheads
from service.core.performance.training.step import training_step
from service.core.techniques.plan import Judgement
from service.core.techniques.registry import TECHNIQUES
from service.core.techniques.setup import TrainingSetup
from service.core.techniques.technique import Technique, TrainingChange
from service.estimation.layouts import check_parallelism
from service.estimation.mitigations import (
    NOTHING_TO_CHANGE,
    USUAL_HOST_BYTES,
    Mitigations,
    mitigations,
    remembered,
)
from service.estimation.resolution import Problems
from service.estimation.software import check_trains
from service.estimation.training.calibrations import TrainingFigures, training_figures
from service.estimation.training.checks import check_schedule


def training_mitigations(
    memory: TrainingMemory,
    overheads: TrainingOverheads,
    snapshot: CatalogSnapshot,
    host_memory_bytes: float | None,
) -> Mitigations:
    """Changes and plans that make a training run fit; nothing where it does.

    Parameters
    ----------
    memory
        The estimate.
    overheads
        Measured overheads that it was computed with.
    snapshot
        The catalog, for measured speeds.
    host_memory_bytes
        Host memory that there is for each accelerator; a usual server's if None [B].
    """
    if memory.fits:
        return NOTHING_TO_CHANGE
    speeds = planning_figures(memory, snapshot)
    host_capacity_bytes = USUAL_HOST_BYTES if host_memory_bytes is None else host_memory_bytes
    known: dict[Hashable, TrainingMemory] = {}

    def memory_of(setup: TrainingSetup) -> TrainingMemory:
        name = _name(setup)
        if name not in known:
            known[name] = training_memory(
                setup.deployment, setup.micro_batch, setup.settings, overheads
            )
        return known[name]

    def judge(setup: TrainingSetup) -> Judgement[TrainingSetup] | None:
        if not _is_possible(setup, snapshot):
            return None
        found = memory_of(setup)
        return Judgement(
            setup=setup,
            total_bytes=found.total_bytes,
            capacity_bytes=float(found.capacity_bytes),
            headroom_bytes=float(found.headroom_bytes.value),
            host_bytes=float(found.host_bytes),
            host_capacity_bytes=host_capacity_bytes,
            fits=bool(found.fits),
            accelerators=setup.deployment.parallelism.accelerator_count,
            token_s=_token_s(setup, found, speeds),
        )

    def propose(setup: TrainingSetup) -> Iterator[tuple[Technique, Iterable[TrainingChange]]]:
        for technique in TECHNIQUES:
            if technique.training is not None:
                yield technique, technique.training(memory_of(setup))

    start = TrainingSetup(memory.deployment, memory.micro_batch, memory.settings)
    return mitigations(start, remembered(judge, _name), propose)


def planning_figures(memory: TrainingMemory, snapshot: CatalogSnapshot) -> TrainingFigures:
    """What the times of plans are computed from."""
    return training_figures(snapshot, memory.settings.release, memory.deployment.accelerator)


def _name(setup: TrainingSetup) -> Hashable:
    """What may differ between setups of one plan."""
    deployment = setup.deployment
    return deployment.precision, deployment.parallelism, setup.micro_batch, setup.settings


def _is_possible(setup: TrainingSetup, snapshot: CatalogSnapshot) -> bool:
    """Whether a request for the setup would be answered."""
    deployment, problems = setup.deployment, Problems()
    check_parallelism(deployment.parallelism, deployment.architecture, problems)
    check_schedule(
        setup.settings,
        setup.micro_batch.tokens,
        deployment.architecture,
        deployment.parallelism,
        problems,
    )
    check_trains(setup.settings, deployment.parallelism, snapshot, problems)
    return not problems.found


def _token_s(setup: TrainingSetup, memory: TrainingMemory, speeds: TrainingFigures) -> float:
    """Time of a step for each of its tokens [s]."""
    host = speeds.host(setup.deployment.accelerator)
    step = training_step(
        setup.deployment,
        setup.settings,
        setup.micro_batch,
        host,
        speeds.efficiency,
        memory.paged_bytes,
    )
    return float(step.step_s / step.tokens_per_step)
