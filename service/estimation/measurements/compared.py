"""Use case: figures that a user measured, beside the estimate of the same deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from service.catalog.snapshot import CatalogSnapshot
from service.core import interval as core
from service.core.interval import without
from service.estimation.answers import Interval, figure
from service.estimation.inference.answers import MemoryInferenceAnswer
from service.estimation.inference.estimate import inference_latency_answer, inference_memory_answer
from service.estimation.measurements.answers import MeasuredFigure
from service.estimation.measurements.requests import (
    InferenceMeasurement,
    MeasurementRequest,
    TrainingMeasurement,
)
from service.estimation.requests import LatencyInferenceRequest
from service.estimation.training.answers import MemoryTrainingAnswer
from service.estimation.training.estimate import training_memory_answer

_LATENCIES = ("ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s", "requests_per_s")

Compared: TypeAlias = tuple[Mapping[str, Any], dict[str, Interval]]


def compared_measurement(request: MeasurementRequest, snapshot: CatalogSnapshot) -> dict[str, Any]:
    """The measured figures with their estimates and errors.

    Returns
    -------
    dict
        ``kind``, ``deployment`` as it was understood, ``model``, ``accelerator``, ``family`` and
        ``figures``: metric, measured, estimate with low and high, ``error_ratio`` =
        (estimate − measured) / measured, and whether the measured figure lies inside.
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


def _inference(asked: InferenceMeasurement, snapshot: CatalogSnapshot) -> Compared:
    answer = inference_memory_answer(asked.deployment, snapshot)
    estimates = _memory(answer) | {
        "weights_bytes": answer["weights_bytes"],
        "kv_cache_capacity_tokens": answer["kv_cache_capacity_tokens"],
    }
    wanted = asked.measured.model_dump(exclude_none=True)
    if any(name in wanted for name in _LATENCIES):
        same = LatencyInferenceRequest.model_validate(asked.deployment.model_dump())
        latency: Mapping[str, Any] = inference_latency_answer(same, snapshot)
        estimates |= {name: latency[name] for name in _LATENCIES}
    return answer, estimates


def _training(asked: TrainingMeasurement, snapshot: CatalogSnapshot) -> Compared:
    answer = training_memory_answer(asked.deployment, snapshot)
    return answer, _memory(answer)


def _memory(answer: MemoryInferenceAnswer | MemoryTrainingAnswer) -> dict[str, Interval]:
    """What the three usual counters should show: process, allocator, tensors."""
    total, libraries = answer["total_bytes"], answer["libraries_bytes"]
    runtime = answer["runtime_bytes"]
    return {
        "process_bytes": total,
        "peak_reserved_bytes": _without(total, libraries),
        "peak_allocated_bytes": _without(total, runtime),
    }


def _without(whole: Interval, part: Interval) -> Interval:
    return figure(without(core.Interval(**whole), core.Interval(**part)))


def _compared(metric: str, measured: float, estimate: Interval) -> MeasuredFigure:
    return {
        "metric": metric,
        "measured": measured,
        "estimate": estimate["value"],
        "low": estimate["low"],
        "high": estimate["high"],
        "error_ratio": (estimate["value"] - measured) / measured,
        "inside": estimate["low"] <= measured <= estimate["high"],
    }
