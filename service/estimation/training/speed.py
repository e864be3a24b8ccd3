"""Use case: time of a training step, throughput, and the whole run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from service.core.memory.training.settings import Method
from service.core.performance.training.formulas import SPEED
from service.core.performance.training.measured import is_timed, run_kind
from service.core.performance.training.padding import Padding, log_normal_lengths, padding
from service.core.performance.training.run import RUN, Failures
from service.core.techniques.setup import TrainingSetup
from service.estimation.inference.lengths import mean_and_spread
from service.estimation.training.calibrations import TrainingFigures
from service.estimation.training.open_choices import speed_warnings, with_open_choices
from service.estimation.training.requests import FailuresRequest, TrainingRequest
from service.estimation.wording import named_software

#: What methods are called in sentences.
_METHODS: Mapping[Method, str] = {
    "full": "training all weights",
    "lora": "LoRA",
    "qlora": "QLoRA",
    "forward": "forward passes",
}


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
    filled = None if request is None else _padding(setup, request)
    batch = setup.micro_batch
    if filled is not None:
        batch = replace(batch, tokens=filled.computed_tokens)
    speed = training_speed(
        TrainingSpeedSetup(
            deployment=setup.deployment,
            micro_batch=batch,
            settings=setup.settings,
            calibration=figures.efficiency,
            host=figures.host(setup.deployment.accelerator),
            paged_bytes=memory.paged_bytes,
            releases=figures.releases,
        )
    )
    if request is None:
        return speed
    if filled is not None:
        speed = replace(speed, useful_ratio=filled.useful_ratio)
    if request.training.mfu_ratio is not None:
        speed = with_utilisation(speed, request.training.mfu_ratio)
    else:
        speed = with_open_choices(speed, request, memory)
    if request.training.tokens is None:
        return speed
    failures = failures_of(request.training.failures, figures)
    computed = request.training.tokens / speed.useful_ratio
    return replace(speed, run=whole_run(speed, computed, failures))


def _padding(setup: TrainingSetup, request: TrainingRequest) -> Padding | None:
    """How sequences of the lengths that are asked for are filled up; None where all are full."""
    asked = request.training.sequence_lengths
    if asked is None:
        return None
    if asked.tokens is not None and asked.shares is not None:
        lengths, shares = asked.tokens, asked.shares
    else:
        mean, spread = mean_and_spread(asked)
        lengths = log_normal_lengths(mean, spread)
        shares = (1.0,) * len(lengths)
    return padding(
        lengths,
        shares,
        float(setup.micro_batch.tokens),
        float(setup.micro_batch.sequences),
        float(setup.settings.gradient_accumulation_steps),
        setup.deployment.parallelism.data,
    )


def run_steps(speed: TrainingSpeed) -> tuple[Step, ...]:
    """The formulas applied, in order, with the figures that went in and came out."""
    return (*explain(speed, SPEED), *explain(speed.run, RUN))


def run_warnings(speed: TrainingSpeed, figures: TrainingFigures) -> Iterable[EstimateWarning]:
    """What to say about efficiencies that stand in for others, open choices, and failures."""
    yield from figures.warnings
    yield from _kind_warnings(speed, figures)
    yield from speed_warnings(speed)
    if speed.run is None:
        return
    if not speed.run.goodput_ratio.value:
        yield EstimateWarning(
            "makes_no_progress",
            "failures come faster than checkpoints, so that the run never ends: save more often "
            "or faster, or use fewer accelerators",
        )
    tokens_per_step = float(speed.step.tokens_per_step)
    if speed.run.tokens < tokens_per_step:
        yield EstimateWarning(
            "less_than_a_step",
            f"one step takes {tokens_per_step:,.0f} tokens, more than the whole run has",
        )


def _kind_warnings(speed: TrainingSpeed, figures: TrainingFigures) -> Iterable[EstimateWarning]:
    """What to say where nobody timed a kind of run by a framework of this class."""
    setup = speed.setup
    kind = run_kind(setup.deployment, setup.settings)
    if is_timed(figures.framework_class, kind):
        return
    software = "any framework"
    if figures.framework_class is not None:
        software = f"{named_software(setup.settings.release)} or frameworks like it"
    what = _METHODS[kind.method]
    what += " of a model with routed experts" if kind.routed else " of a dense model"
    what += " with products of 8 bits or fewer" if kind.narrow else ""
    yield EstimateWarning(
        "kind_of_run_not_measured",
        f"no speed of {what} by {software} is published: what is known of other "
        "runs stands in, and the speed is less certain than of runs that were measured",
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
