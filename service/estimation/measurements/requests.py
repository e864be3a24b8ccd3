"""What callers may report: figures measured on a deployment."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from service.estimation.references import CatalogRequest, Request
from service.estimation.requests import EXAMPLE_DEPLOYMENT, MemoryInferenceRequest
from service.estimation.training.requests import MemoryTrainingRequest

_Measured = Annotated[float | None, Field(gt=0.0, le=1e18)]


class MeasuredInference(Request):
    """Figures of an inference deployment; memory is that of one accelerator."""

    process_bytes: _Measured = None
    """All memory in use, as nvidia-smi shows it."""
    peak_reserved_bytes: _Measured = None
    """Peak of what the allocator reserved (torch.cuda.max_memory_reserved)."""
    peak_allocated_bytes: _Measured = None
    """Peak of tensors (torch.cuda.max_memory_allocated)."""
    weights_bytes: _Measured = None
    """Weights on one accelerator."""
    kv_cache_capacity_tokens: _Measured = None
    """Tokens for which the KV cache of a replica has room."""
    ttft_s: _Measured = None
    """Mean time to the first token, waiting included."""
    tpot_s: _Measured = None
    """Mean time per output token: (E2E − TTFT) / (output tokens − 1)."""
    e2e_s: _Measured = None
    """Mean time from arrival to the last token."""
    output_tokens_per_s: _Measured = None
    """Of the whole deployment."""
    requests_per_s: _Measured = None
    """Requests answered per second by the whole deployment."""


class MeasuredTraining(Request):
    """Figures of a training run; memory is that of one accelerator."""

    process_bytes: _Measured = None
    """All memory in use, as nvidia-smi shows it."""
    peak_reserved_bytes: _Measured = None
    """Peak of what the allocator reserved (torch.cuda.max_memory_reserved)."""
    peak_allocated_bytes: _Measured = None
    """Peak of tensors (torch.cuda.max_memory_allocated)."""


class InferenceMeasurement(Request):
    """An inference deployment and what was measured on it."""

    deployment: MemoryInferenceRequest
    """What ran where, and the load under which it was measured."""
    measured: MeasuredInference
    """What was measured; at least one figure."""


class TrainingMeasurement(Request):
    """A training run and what was measured on it."""

    deployment: MemoryTrainingRequest
    """What was trained where, and how."""
    measured: MeasuredTraining
    """What was measured; at least one figure."""


class MeasurementRequest(CatalogRequest):
    """A report of measured figures, to be compared with the estimate and kept."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "inference": {
                        "deployment": EXAMPLE_DEPLOYMENT
                        | {
                            "workload": {
                                "input_tokens": 1024,
                                "output_tokens": 128,
                                "concurrency": 16,
                            }
                        },
                        "measured": {"process_bytes": 72.4e9, "ttft_s": 0.31, "tpot_s": 0.024},
                    },
                    "measured_on": "2026-11-02",
                    "tool": "vLLM 0.11 bench serve; nvidia-smi",
                }
            ]
        }
    )

    inference: InferenceMeasurement | None = None
    """A report on inference; alternative to training."""
    training: TrainingMeasurement | None = None
    """A report on training; alternative to inference."""
    measured_on: date | None = None
    """Day of the measurement."""
    tool: str | None = Field(None, max_length=200)
    """Tool that measured it, with its version."""
    notes: str | None = Field(None, max_length=2000)
    """Anything else that matters; visible to all who may read the reports."""

    @model_validator(mode="after")
    def _one_kind(self) -> MeasurementRequest:
        if (self.inference is None) == (self.training is None):
            raise ValueError("give either inference or training")
        measured = (self.inference or self.training).measured  # type: ignore[union-attr]
        if not measured.model_dump(exclude_none=True):
            raise ValueError("measured has no figure")
        return self
