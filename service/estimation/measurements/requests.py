"""What callers may report: a measurement in the one form, with names that are known."""

from __future__ import annotations

from pydantic import ConfigDict, model_validator

from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.quantities import NotEstimated, quantity_of
from service.estimation.requests import EXAMPLE_DEPLOYMENT
from service.estimation.training.requests import EXAMPLE_TRAINING


class MeasurementRequest(MeasurementDocument):
    """A report of measured figures, to be compared with the estimate and kept."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "kind": "inference",
                    "request": EXAMPLE_DEPLOYMENT
                    | {
                        "workload": {
                            "input_tokens": 1024,
                            "output_tokens": 128,
                            "concurrency": 16,
                        }
                    },
                    "measured": {"process_bytes": 72.4e9, "ttft_s": 0.31, "tpot_s": 0.024},
                    "measured_on": "2026-11-02",
                    "tool": "vLLM 0.11 bench serve; nvidia-smi",
                },
                {
                    "kind": "training",
                    "request": EXAMPLE_TRAINING,
                    "measured": {
                        "reserved_bytes": 61.2e9,
                        "tokens_per_s": 58_000.0,
                        "it_power_w": 7_150.0,
                    },
                    "measured_on": "2026-11",
                },
            ]
        }
    )

    @model_validator(mode="after")
    def _known_quantities(self) -> MeasurementRequest:
        for name in self.figures:
            try:
                quantity_of(name, self.kind)
            except NotEstimated as unknown:
                raise ValueError(str(unknown)) from None
        return self
