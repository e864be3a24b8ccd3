"""The speed of a training run, as it goes over the wire."""

from __future__ import annotations

from service.core.estimate.training import TrainingSpeed
from service.core.interval import scale
from service.core.performance.training.run import TrainingRun
from service.core.performance.training.step import TrainingStep, bottleneck
from service.estimation.answers import figure, known_figure
from service.estimation.detail import WHOLE, Detail
from service.estimation.training import answers


def speed_figures(speed: TrainingSpeed, detail: Detail = WHOLE) -> answers.TrainingSpeed:
    """The speed of a training run, as it goes over the wire."""
    step = speed.step
    told: answers.TrainingSpeed = {
        "step_s": figure(speed.step_s),
        "tokens_per_step": float(step.tokens_per_step),
        "global_batch_sequences": float(speed.global_batch_sequences),
        "global_batch_tokens": float(step.tokens_per_step),
        "tokens_per_s": figure(speed.tokens_per_s),
        "tokens_per_s_per_accelerator": figure(speed.tokens_per_s_per_accelerator),
        "useful_tokens_ratio": speed.useful_ratio,
        "mfu_ratio": figure(speed.mfu_ratio),
        "hfu_ratio": figure(speed.hfu_ratio),
        "model_tflops_per_accelerator": figure(speed.model_tflops_per_accelerator),
        "hardware_tflops_per_accelerator": figure(speed.hardware_tflops_per_accelerator),
        "bottleneck": bottleneck(step),
        "exposed_communication_s": float(
            step.exposed_model_messages_s + step.exposed_data_messages_s
        ),
        "pipeline_bubble_ratio": float(step.pipeline_bubble_s / step.published_step_s),
        "run": None if speed.run is None else run_figures(speed.run),
    }
    return {**told, **_breakdown(speed)} if detail.has("latency.breakdown") else told


def _breakdown(speed: TrainingSpeed) -> answers.StepBreakdown:
    step = speed.step
    parts_s = step.published_step_s
    working_s = parts_s - step.offload_stall_s
    tokens = step.tokens_per_step / speed.setup.deployment.parallelism.accelerator_count
    return {
        "parts": _parts(step),
        "recompute_s": float(step.recompute_s),
        "exposed_expert_communication_s": float(step.exposed_expert_messages_s),
        "hidden_communication_s": float(
            step.hidden_tensor_messages_s + step.hidden_data_messages_s
        ),
        "offload_stall_ratio": float(step.offload_stall_s / parts_s),
        "offload_step_factor_ratio": float(parts_s / working_s),
        "operations": {
            "model_flops_per_token": float(step.model_flops / tokens),
            "hardware_flops_per_token": float(step.hardware_flops / tokens),
            "six_nd_flops_per_token": float(step.six_nd_flops / tokens),
            "model_over_six_nd_ratio": float(step.model_flops / step.six_nd_flops),
        },
    }


def _parts(step: TrainingStep) -> answers.StepParts:
    parts: answers.StepParts = {
        "matrix_products_s": float(step.matrix_products_s),
        "attention_s": float(step.attention_s),
        "elementwise_s": float(step.elementwise_s),
        "exposed_model_messages_s": float(step.exposed_model_messages_s),
        "exposed_data_messages_s": float(step.exposed_data_messages_s),
        "pipeline_bubble_s": float(step.pipeline_bubble_s),
        "optimizer_s": float(step.optimizer_s),
        "offload_stall_s": float(step.offload_stall_s),
        "overhead_s": float(step.overhead_s),
    }
    if step.own_correction_ratio is not None:
        parts["own_correction_s"] = float(step.step_s - step.published_step_s)
    return parts


def run_figures(run: TrainingRun) -> answers.TrainingRun:
    """The whole run, as it goes over the wire; null where failures let it make no progress."""
    return {
        "tokens": float(run.tokens),
        "steps": float(run.steps),
        "days": known_figure(scale(run.wall_s, 1.0 / 86_400.0)),
        "useful_days": figure(scale(run.useful_s, 1.0 / 86_400.0)),
        "accelerator_hours": known_figure(run.accelerator_hours),
        "goodput_ratio": figure(run.goodput_ratio),
        "failures_goodput_ratio": figure(run.failures_goodput_ratio),
        "other_losses_ratio": figure(run.failures.other_losses_ratio),
        "mean_time_between_failures_s": float(run.mean_time_between_failures_s),
        "checkpoint_interval_s": float(run.checkpoint_interval_s),
        "expected_failures": known_figure(run.expected_failures),
    }
