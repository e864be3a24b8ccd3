"""Use cases about training: memory per accelerator, speed, and everything in one answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from service.catalog.entries import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import Caution
from service.core.interval import Interval, exact
from service.core.memory.training import TrainingMemory, training_memory, training_stages
from service.core.memory.training_state import trained_parameters
from service.estimation.answers import explanation, figure, frame, provenance, warnings
from service.estimation.constraints import training_constraints
from service.estimation.resolution import Problems, resolve_region
from service.estimation.training_impacts import training_impacts
from service.estimation.training_requests import (
    EstimateTrainingRequest,
    LatencyTrainingRequest,
    MemoryTrainingRequest,
)
from service.estimation.training_setup import ResolvedTraining, echo_training, resolve_training
from service.estimation.training_speed import (
    TrainingSpeed,
    run_cautions,
    speed_figures,
    training_speed,
)

#: Stages that are listed one by one; of longer pipelines only the fullest is.
_MOST_STAGES = 128


def training_memory_answer(
    request: MemoryTrainingRequest, snapshot: CatalogSnapshot
) -> dict[str, Any]:
    """Memory per accelerator of a training run, and what fits.

    Raises
    ------
    Rejected
        If the request refers to unknown things or asks for the impossible.
    """
    resolved = resolve_training(request, snapshot, Problems())
    memory = _memory(resolved)
    answer = frame(snapshot.revision)
    answer |= {"deployment": echo_training(resolved)}
    answer |= memory_figures(resolved, memory)
    answer["warnings"] = warnings((*resolved.cautions, *fit_cautions(memory)))
    answer["provenance"] = provenance(snapshot, resolved.entries(snapshot))
    if request.explain:
        answer["explanation"] = explanation(memory.steps())
    return answer


def training_latency_answer(
    request: LatencyTrainingRequest, snapshot: CatalogSnapshot
) -> dict[str, Any]:
    """Step time, throughput and bottleneck of a training run, and the length of the whole run.

    Raises
    ------
    Rejected
        If the request refers to unknown things or asks for the impossible.
    """
    resolved = resolve_training(request, snapshot, Problems())
    memory = _memory(resolved)
    speed = training_speed(resolved.setup, snapshot, request)
    answer = frame(snapshot.revision)
    answer |= {"deployment": echo_training(resolved), "fits": bool(memory.fits)}
    answer |= speed_figures(speed)
    answer["warnings"] = warnings((*resolved.cautions, *fit_cautions(memory), *run_cautions(speed)))
    entries = [*resolved.entries(snapshot), *speed_entries(speed, snapshot)]
    answer["provenance"] = provenance(snapshot, entries)
    if request.explain:
        answer["explanation"] = explanation(speed.steps())
    return answer


def training_estimate(
    request: EstimateTrainingRequest, snapshot: CatalogSnapshot
) -> dict[str, Any]:
    """Memory, speed, energy and impacts of a training run in one answer.

    Raises
    ------
    Rejected
        If the request refers to unknown things or asks for the impossible.
    """
    problems = Problems()
    region = problems.attempt(
        "/region", lambda: resolve_region(request.region, snapshot, request.year)
    )
    resolved = resolve_training(request, snapshot, problems)
    if region is None:
        raise AssertionError("unreachable: an unknown region is a noted problem")
    memory = _memory(resolved)
    speed = training_speed(resolved.setup, snapshot, request)
    impacts = training_impacts(speed, region, request.year)
    answer = frame(snapshot.revision)
    answer |= {
        "deployment": echo_training(resolved) | {"region": region.id},
        "memory": memory_figures(resolved, memory),
        "latency": speed_figures(speed),
        "energy": impacts.energy,
        "impacts": impacts.impacts,
        "cost": None,
        "constraints": training_constraints(memory),
    }
    answer["warnings"] = warnings(
        (*resolved.cautions, *fit_cautions(memory), *run_cautions(speed), *impacts.cautions)
    )
    calibrations = [
        ("calibrations", snapshot.calibrations[id_]) for id_ in speed.figures.power_entries
    ]
    answer["provenance"] = provenance(
        snapshot,
        [
            *resolved.entries(snapshot),
            *speed_entries(speed, snapshot),
            *calibrations,
            ("regions", region),
        ],
    )
    if request.explain:
        answer["explanation"] = explanation((*memory.steps(), *speed.steps(), *impacts.steps))
    return answer


def speed_entries(speed: TrainingSpeed, snapshot: CatalogSnapshot) -> list[tuple[str, Entry[Any]]]:
    """Calibrations that speed and the run's length were computed with."""
    used = speed.figures.entries
    if speed.run is not None:
        used = (*used, speed.figures.failure_entry)
    return [("calibrations", snapshot.calibrations[id_]) for id_ in used]


def memory_figures(resolved: ResolvedTraining, memory: TrainingMemory) -> dict[str, Any]:
    """Everything about the memory of a training run, as it goes over the wire."""
    return {
        **_parts(memory),
        "libraries_bytes": figure(memory.libraries),
        "communication_bytes": figure(memory.communication),
        "update_bytes": figure(memory.update),
        "capacity_bytes": float(memory.capacity_bytes),
        "fits": bool(memory.fits),
        "fits_certainty": str(memory.fits_certainty),
        "headroom_bytes": figure(memory.headroom),
        "shortfall_bytes": figure(memory.shortfall),
        "host_bytes": figure(exact(memory.host_bytes)),
        "nvme_bytes": figure(exact(memory.nvme_bytes)),
        "max_micro_batch_size": figure(memory.max_micro_batch_sequences),
        "trained_parameters": trained_parameters(memory.deployment.architecture, memory.settings),
        "fullest_stage": memory.state.stage,
        "stages": [_stage(stage) for stage in _stages(resolved, memory)],
    }


def fit_cautions(memory: TrainingMemory) -> Iterable[Caution]:
    """What to say about a run that does not fit, or only narrowly."""
    if not memory.fits:
        missing = memory.shortfall.value / 1e9
        fitting = memory.max_micro_batch_sequences.value
        yield Caution(
            "does_not_fit",
            f"the run as asked needs {missing:.1f} GB more per accelerator than there is"
            + (
                f"; micro-batches of up to {fitting:.0f} fit"
                if fitting >= 1
                else "; no micro-batch fits"
            ),
        )
    elif memory.fits_certainty != "yes":
        yield Caution("fits_narrowly", "the memory interval reaches past the accelerator's memory")


def _memory(resolved: ResolvedTraining) -> TrainingMemory:
    setup = resolved.setup
    return training_memory(setup.deployment, setup.micro_batch, setup.settings, resolved.overheads)


def _stages(resolved: ResolvedTraining, memory: TrainingMemory) -> tuple[TrainingMemory, ...]:
    pipeline = memory.deployment.parallelism.pipeline
    if pipeline == 1 or pipeline > _MOST_STAGES:
        return (memory,)
    return training_stages(
        memory.deployment, memory.micro_batch, memory.settings, resolved.overheads
    )


def _stage(memory: TrainingMemory) -> dict[str, Any]:
    return {
        "stage": memory.state.stage,
        "layers": memory.state.layers,
        "micro_batches_in_flight": float(memory.in_flight),
        **_parts(memory),
        "fits": bool(memory.fits),
    }


def _parts(memory: TrainingMemory) -> dict[str, dict[str, float]]:
    parts: dict[str, Interval] = {
        "weights_bytes": memory.weights,
        "gradients_bytes": memory.gradients,
        "optimizer_bytes": memory.optimizer,
        "activations_bytes": memory.activations,
        "logits_bytes": memory.logits,
        "runtime_bytes": memory.runtime,
        "total_bytes": memory.total,
    }
    return {name: figure(part) for name, part in parts.items()}
