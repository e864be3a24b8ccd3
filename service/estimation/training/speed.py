"""Use case: time of a training step, throughput, and the whole run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from service.core.estimate.training import (
    TrainingSpeed,
    TrainingSpeedSetup,
    training_speed,
    whole_run,
    with_utilisation,
)
from service.core.explanation import EstimateWarning, Step, explain
from service.core.interval import exact
from service.core.memory.training.memory import TrainingMemory
from service.core.performance.training.formulas import SPEED
from service.core.performance.training.run import RUN, Failures
from service.core.techniques.setup import TrainingSetup
from service.estimation.training.calibrations import TrainingFigures
from service.estimation.training.requests import FailuresRequest, TrainingRequest


def resolved_speed(
    setup: TrainingSetup,
    figures: TrainingFigures,
    memory: TrainingMemory,
    request: TrainingRequest | None = None,
) -> TrainingSpeed:
    """Speed of a resolved training run.

    Parameters
    ----------
    setup
        What is trained where, in what micro-batches, and how.
    figures
        What is measured of the framework, the hardware and its failures.
    memory
        Its memory, which says what is paged out.
    request
        Says how many tokens the run has and how it fails; without it there is no run.
    """
    speed = training_speed(
        TrainingSpeedSetup(
            deployment=setup.deployment,
            micro_batch=setup.micro_batch,
            settings=setup.settings,
            calibration=figures.efficiency,
            host=figures.host(setup.deployment.accelerator),
            paged_bytes=memory.paged_bytes,
        )
    )
    if request is None:
        return speed
    if request.training.mfu_ratio is not None:
        speed = with_utilisation(speed, request.training.mfu_ratio)
    if request.training.tokens is None:
        return speed
    failures = failures_of(request.training.failures, figures)
    return replace(speed, run=whole_run(speed, request.training.tokens, failures))


def run_steps(speed: TrainingSpeed) -> tuple[Step, ...]:
    """The formulas applied, in order, with the figures that went in and came out."""
    return (*explain(speed, SPEED), *explain(speed.run, RUN))


def run_warnings(speed: TrainingSpeed, figures: TrainingFigures) -> Iterable[EstimateWarning]:
    """What to say about efficiencies that stand in for others, and about failures."""
    yield from figures.warnings
    if speed.run is None:
        return
    if not speed.run.goodput_ratio.value:
        yield EstimateWarning(
            "makes_no_progress",
            "failures come faster than checkpoints, so that the run never ends; use a shorter "
            "checkpoint_interval_s or checkpoint_write_s, or fewer accelerators",
        )
    tokens_per_step = float(speed.step.tokens_per_step)
    if speed.run.tokens < tokens_per_step:
        yield EstimateWarning(
            "less_than_a_step",
            f"one step takes {tokens_per_step:.0f} tokens, more than the whole run has",
        )


def failures_of(asked: FailuresRequest, figures: TrainingFigures) -> Failures:
    """How often a run stops: as asked, and as published where nothing was."""
    rate = figures.failures_per_accelerator_day
    if asked.per_accelerator_day is not None:
        rate = exact(asked.per_accelerator_day)
    other = figures.other_losses_ratio
    if asked.other_losses_ratio is not None:
        other = exact(asked.other_losses_ratio)
    write_s, restart_s = asked.checkpoint_write_s, asked.restart_s
    return Failures(
        failures_per_accelerator_day=rate,
        checkpoint_write_s=figures.checkpoint_write_s if write_s is None else write_s,
        restart_s=figures.restart_s if restart_s is None else restart_s,
        checkpoint_interval_s=asked.checkpoint_interval_s,
        other_losses_ratio=other,
    )
