"""Use case: time of a training step, throughput, and the whole run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import EstimateWarning, Step
from service.core.interval import Interval, bounded, exact, from_log_sigma, quotient, scale
from service.core.performance.training.explained import speed_steps
from service.core.performance.training.run import Failures, TrainingRun, training_run
from service.core.performance.training.step import TrainingStep, bottleneck, training_step
from service.core.techniques.setup import TrainingSetup
from service.estimation.answers import figure, known_figure
from service.estimation.training.calibrations import TrainingFigures, training_figures
from service.estimation.training.requests import FailuresRequest, TrainingRequest


@dataclass(frozen=True, slots=True)
class TrainingSpeed:
    """A training run's speed, with the intervals that its calibration's spread gives.

    ``run`` is None unless the number of tokens is known.
    """

    setup: TrainingSetup
    figures: TrainingFigures
    step: TrainingStep
    step_s: Interval
    tokens_per_s: Interval
    tokens_per_s_per_accelerator: Interval
    mfu_ratio: Interval
    hfu_ratio: Interval
    run: TrainingRun | None

    def steps(self) -> tuple[Step, ...]:
        """The formulas applied, in order, with the figures that went in and came out."""
        described = speed_steps(
            self.step, self.setup.deployment, self.setup.settings, self.figures.efficiency
        )
        return described + (() if self.run is None else self.run.explained())


def training_speed(
    setup: TrainingSetup, snapshot: CatalogSnapshot, request: TrainingRequest | None = None
) -> TrainingSpeed:
    """Speed of a resolved training run.

    Parameters
    ----------
    setup
        What is trained where, in what micro-batches, and how.
    snapshot
        The catalog, for efficiencies.
    request
        Says how many tokens the run has and how it fails; without it there is no run.
    """
    deployment, settings = setup.deployment, setup.settings
    figures = training_figures(snapshot, settings.framework, deployment.accelerator.family)
    step = training_step(
        deployment,
        settings,
        setup.micro_batch,
        figures.host(deployment.accelerator),
        figures.efficiency,
    )
    step_s = from_log_sigma(step.step_s, figures.efficiency.log_sigma)
    tokens_per_s = quotient(exact(step.tokens_per_step), step_s)
    accelerators = deployment.parallelism.accelerator_count
    run = None
    if request is not None and request.training.tokens is not None:
        run = training_run(
            request.training.tokens,
            step.tokens_per_step,
            step_s,
            accelerators,
            failures_of(request.training.failures, figures),
        )
    return TrainingSpeed(
        setup=setup,
        figures=figures,
        step=step,
        step_s=step_s,
        tokens_per_s=tokens_per_s,
        tokens_per_s_per_accelerator=scale(tokens_per_s, 1.0 / accelerators),
        mfu_ratio=_share(step.mfu_ratio, step_s),
        hfu_ratio=_share(step.hfu_ratio, step_s),
        run=run,
    )


def run_warnings(speed: TrainingSpeed) -> Iterable[EstimateWarning]:
    """What to say about efficiencies that stand in for others, and about failures."""
    yield from speed.figures.warnings
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


def _share(value: float, step_s: Interval) -> Interval:
    """A share of peak with the relative spread of the step's time."""
    return bounded(quotient(exact(value * step_s.value), step_s), 0.0, max(value, 1.0))


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
