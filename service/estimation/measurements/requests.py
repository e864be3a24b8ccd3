"""What callers may report: a measurement in the one form, with names that are known."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.quantities import (
    OUT_OF_MEMORY,
    NotEstimated,
    names_of,
    quantity_of,
)
from service.estimation.nearest import nearest
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

    @field_validator("measured")
    @classmethod
    def _known_quantities(cls, given: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        for name in given.keys() - {OUT_OF_MEMORY} if "kind" in info.data else ():
            try:
                quantity_of(name, info.data["kind"])
            except NotEstimated as unknown:
                known = names_of(info.data["kind"])
                near = nearest(name, known)
                listed = "" if near else f" (known are {', '.join(known)})"
                told = {"text": f"{unknown}{listed}", "suggestions": near}
                raise PydanticCustomError("unknown_quantity", "{text}", told) from None
        return given
