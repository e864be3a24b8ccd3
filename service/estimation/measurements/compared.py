"""Use case: figures that a user measured, beside the estimate of the same deployment."""

from __future__ import annotations

from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.interval import Interval, without
from service.estimation.answers import figure
from service.estimation.inference.estimate import inference_latency_answer, inference_memory_answer
from service.estimation.measurements.requests import (
    InferenceMeasurement,
    MeasurementRequest,
    TrainingMeasurement,
)
from service.estimation.requests import LatencyInferenceRequest
from service.estimation.training.estimate import training_memory_answer

_LATENCIES = ("ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s", "requests_per_s")
_INFERENCE_MEMORY = ("weights_bytes", "kv_cache_capacity_tokens")

Figure = dict[str, float]


def compared_measurement(request: MeasurementRequest, snapshot: CatalogSnapshot) -> dict[str, Any]:
    """The measured figures with their estimates and errors.

    Returns
    -------
    dict
        ``kind``, ``deployment`` as it was understood, ``model``, ``accelerator``, ``family`` and
        ``figures``: metric, measured, estimate with low and high, ``error_ratio`` =
        (estimate − measured) / measured, and whether the measured figure lies inside.

    Raises
    ------
    Rejected
        If the deployment refers to unknown things or asks for the impossible.
    """
    if request.inference is not None:
        answer, estimates = _inference(request.inference, snapshot)
        measured = request.inference.measured.model_dump(exclude_none=True)
        kind = "inference"
    else:
        assert request.training is not None  # noqa: S101 - validated to be one of the two
        answer, estimates = _training(request.training, snapshot)
        measured = request.training.measured.model_dump(exclude_none=True)
        kind = "training"
    deployment = answer["deployment"]
    accelerator = deployment["accelerator"]
    entry = snapshot.accelerators.get(accelerator)
    return {
        "kind": kind,
        "model": deployment["model"],
        "accelerator": accelerator,
        "family": entry.value.family if entry is not None else "unknown",
        "deployment": deployment,
        "figures": [
            _compared(metric, value, estimates[metric]) for metric, value in measured.items()
        ],
        "warnings": answer["warnings"],
    }


def _inference(
    asked: InferenceMeasurement, snapshot: CatalogSnapshot
) -> tuple[dict[str, Any], dict[str, Figure]]:
    answer = inference_memory_answer(asked.deployment, snapshot)
    estimates = _memory(answer) | {name: answer[name] for name in _INFERENCE_MEMORY}
    wanted = asked.measured.model_dump(exclude_none=True)
    if any(name in wanted for name in _LATENCIES):
        same = LatencyInferenceRequest.model_validate(asked.deployment.model_dump())
        latency = inference_latency_answer(same, snapshot)
        estimates |= {name: latency[name] for name in _LATENCIES}
    return answer, estimates


def _training(
    asked: TrainingMeasurement, snapshot: CatalogSnapshot
) -> tuple[dict[str, Any], dict[str, Figure]]:
    answer = training_memory_answer(asked.deployment, snapshot)
    return answer, _memory(answer)


def _memory(answer: dict[str, Any]) -> dict[str, Figure]:
    """What the three usual counters should show: process, allocator, tensors."""
    total, libraries = answer["total_bytes"], answer["libraries_bytes"]
    runtime = answer["runtime_bytes"]
    return {
        "process_bytes": total,
        "peak_reserved_bytes": _without(total, libraries),
        "peak_allocated_bytes": _without(total, runtime),
    }


def _without(whole: Figure, part: Figure) -> Figure:
    return figure(without(Interval(**whole), Interval(**part)))


def _compared(metric: str, measured: float, estimate: Figure) -> dict[str, Any]:
    return {
        "metric": metric,
        "measured": measured,
        "estimate": estimate["value"],
        "low": estimate["low"],
        "high": estimate["high"],
        "error_ratio": (estimate["value"] - measured) / measured,
        "inside": estimate["low"] <= measured <= estimate["high"],
    }
