"""Use case: time of a training step, throughput, and the whole run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from service.core.estimate.training import (
    TrainingSpeed,
    TrainingSpeedSetup,
    training_speed,
    whole_run,
)
from service.core.explanation import EstimateWarning, Step
from service.core.interval import exact, scale
from service.core.performance.training.explained import speed_steps
from service.core.performance.training.run import Failures, TrainingRun
from service.core.performance.training.step import bottleneck
from service.core.techniques.setup import TrainingSetup
from service.estimation.answers import figure, known_figure
from service.estimation.training.calibrations import TrainingFigures
from service.estimation.training.requests import FailuresRequest, TrainingRequest


def resolved_speed(
    setup: TrainingSetup, figures: TrainingFigures, request: TrainingRequest | None = None
) -> TrainingSpeed:
    """Speed of a resolved training run.

    Parameters
    ----------
    setup
        What is trained where, in what micro-batches, and how.
    figures
        What is measured of the framework, the hardware and its failures.
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
        )
    )
    if request is None or request.training.tokens is None:
        return speed
    failures = failures_of(request.training.failures, figures)
    return replace(speed, run=whole_run(speed, request.training.tokens, failures))


def run_steps(speed: TrainingSpeed) -> tuple[Step, ...]:
    """The formulas applied, in order, with the figures that went in and came out."""
    setup = speed.setup
    described = speed_steps(speed.step, setup.deployment, setup.settings, setup.calibration)
    return described + (() if speed.run is None else speed.run.explained())


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
    write_s, restart_s = asked.checkpoint_write_s, asked.restart_s
    return Failures(
        per_accelerator_day=rate,
        checkpoint_write_s=figures.checkpoint_write_s if write_s is None else write_s,
        restart_s=figures.restart_s if restart_s is None else restart_s,
        checkpoint_interval_s=asked.checkpoint_interval_s,
    )


def speed_figures(speed: TrainingSpeed) -> dict[str, Any]:
    """Everything about the speed of a training run, as it goes over the wire."""
    step = speed.step
    working_s = step.step_s - step.offload_s
    tokens = step.tokens_per_step / speed.setup.deployment.parallelism.accelerator_count
    return {
        "step_s": figure(speed.step_s),
        "tokens_per_step": float(step.tokens_per_step),
        "tokens_per_s": figure(speed.tokens_per_s),
        "tokens_per_s_per_accelerator": figure(speed.tokens_per_s_per_accelerator),
        "mfu_ratio": figure(speed.mfu_ratio),
        "hfu_ratio": figure(speed.hfu_ratio),
        "bottleneck": bottleneck(step),
        "parts": {
            "matrix_products_s": float(step.matrix_s),
            "attention_s": float(step.attention_s),
            "elementwise_s": float(step.elementwise_s),
            "exposed_model_messages_s": float(step.tensor_messages_s),
            "exposed_data_messages_s": float(step.data_messages_s),
            "pipeline_bubble_s": float(step.bubble_s),
            "optimizer_s": float(step.optimizer_s),
            "offload_stall_s": float(step.offload_s),
            "overhead_s": float(step.overhead_s),
        },
        "recompute_s": float(step.recompute_s),
        "exposed_communication_s": float(step.tensor_messages_s + step.data_messages_s),
        "hidden_communication_s": float(
            step.hidden_tensor_messages_s + step.hidden_data_messages_s
        ),
        "pipeline_bubble_ratio": float(step.bubble_s / step.step_s),
        "offload_stall_ratio": float(step.offload_s / step.step_s),
        "offload_step_factor_ratio": float(step.step_s / working_s),
        "operations": {
            "model_flops_per_token": float(step.model_flops / tokens),
            "hardware_flops_per_token": float(step.hardware_flops / tokens),
            "six_nd_flops_per_token": float(step.six_nd_flops / tokens),
            "model_over_six_nd_ratio": float(step.model_flops / step.six_nd_flops),
        },
        "run": None if speed.run is None else run_figures(speed.run),
    }


def run_figures(run: TrainingRun) -> dict[str, Any]:
    """The whole run, as it goes over the wire; null where failures let it make no progress."""
    return {
        "tokens": float(run.tokens),
        "steps": float(run.steps),
        "days": known_figure(scale(run.wall_s, 1.0 / 86_400.0)),
        "useful_days": figure(scale(run.useful_s, 1.0 / 86_400.0)),
        "accelerator_hours": known_figure(run.accelerator_hours),
        "goodput_ratio": figure(run.goodput_ratio),
        "mean_time_between_failures_s": float(run.mean_time_between_failures_s),
        "checkpoint_interval_s": float(run.checkpoint_interval_s),
        "expected_failures": known_figure(run.expected_failures),
    }
