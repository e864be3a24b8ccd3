"""What callers may report: figures measured on a deployment."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from service.estimation.requests import (
    EXAMPLE_DEPLOYMENT,
    CatalogRequest,
    MemoryInferenceRequest,
    Request,
)
from service.estimation.training_requests import MemoryTrainingRequest

_Measured = Annotated[float | None, Field(gt=0.0, le=1e18)]


class MeasuredInference(Request):
    """Figures of an inference deployment; memory is that of one accelerator."""

    process_bytes: _Measured = Field(None, description="All memory taken, as nvidia-smi shows it.")
    peak_reserved_bytes: _Measured = Field(
        None, description="Peak of what the allocator reserved (torch.cuda.max_memory_reserved)."
    )
    peak_allocated_bytes: _Measured = Field(
        None, description="Peak of tensors (torch.cuda.max_memory_allocated)."
    )
    weights_bytes: _Measured = None
    kv_cache_capacity_tokens: _Measured = None
    ttft_s: _Measured = None
    tpot_s: _Measured = None
    e2e_s: _Measured = None
    output_tokens_per_s: _Measured = Field(None, description="Of the whole deployment.")
    requests_per_s: _Measured = None


class MeasuredTraining(Request):
    """Figures of a training run; memory is that of one accelerator."""

    process_bytes: _Measured = Field(None, description="All memory taken, as nvidia-smi shows it.")
    peak_reserved_bytes: _Measured = Field(
        None, description="Peak of what the allocator reserved (torch.cuda.max_memory_reserved)."
    )
    peak_allocated_bytes: _Measured = Field(
        None, description="Peak of tensors (torch.cuda.max_memory_allocated)."
    )


class InferenceMeasurement(Request):
    """An inference deployment and what was measured on it."""

    deployment: MemoryInferenceRequest
    measured: MeasuredInference


class TrainingMeasurement(Request):
    """A training run and what was measured on it."""

    deployment: MemoryTrainingRequest
    measured: MeasuredTraining


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
    training: TrainingMeasurement | None = None
    measured_on: date | None = None
    tool: str | None = Field(None, max_length=200, description="What measured it, with versions.")
    notes: str | None = Field(None, max_length=2000)

    @model_validator(mode="after")
    def _one_kind(self) -> MeasurementRequest:
        if (self.inference is None) == (self.training is None):
            raise ValueError("give either inference or training")
        measured = (self.inference or self.training).measured  # type: ignore[union-attr]
        if not measured.model_dump(exclude_none=True):
            raise ValueError("measured holds no figure")
        return self
