"""What the page about training is asked."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from service.core.memory.training_settings import Optimizer
from service.estimation.requests import (
    Degree,
    ModelReference,
    ParallelismRequest,
    Reference,
)
from service.estimation.training_requests import (
    EstimateTrainingRequest,
    TrainingOffloadRequest,
    TrainingSettingsRequest,
)
from service.portal.questions import ModelQuestion, query_of

#: Fields of the form that are settings of training by the same names.
_SETTINGS = (
    "method",
    "lora_rank",
    "optimizer",
    "zero_stage",
    "activation_checkpointing",
    "micro_batch_size",
    "gradient_accumulation_steps",
    "sequence_length",
    "tokens",
)


class TrainingPageRequest(ModelQuestion):
    """A training run as the form describes it, by the names of the API's links."""

    model: ModelReference = "meta-llama/Llama-3.1-8B"
    accelerator: Reference = "nvidia-h100-sxm-80gb"
    accelerator_count: Degree = 8
    tensor: Degree | None = None
    pipeline: Degree | None = None
    region: Reference = "aws/eu-north-1"
    method: Literal["full", "lora", "qlora"] = "full"
    lora_rank: int = Field(16, ge=1, le=8192)
    optimizer: Optimizer = "adamw"
    zero_stage: int = Field(3, ge=0, le=3)
    activation_checkpointing: Literal["none", "selective", "selective-operators", "full"] = "full"
    micro_batch_size: int = Field(1, ge=1, le=65_536)
    gradient_accumulation_steps: int = Field(1, ge=1, le=1_000_000)
    sequence_length: int = Field(8192, ge=1, le=100_000_000)
    tokens: float = Field(1e10, ge=1.0, le=1e18)
    offload_optimizer: Literal["none", "cpu", "nvme"] = "none"
    offload_parameters: Literal["none", "cpu", "nvme"] = "none"

    @property
    def estimate(self) -> EstimateTrainingRequest:
        """The estimate that the page shows."""
        return EstimateTrainingRequest(
            model=self.asked_model,
            accelerator=self.accelerator,
            accelerator_count=self.accelerator_count,
            parallelism=self.layout,
            region=self.region,
            training=TrainingSettingsRequest(
                **{name: getattr(self, name) for name in _SETTINGS},
                offload=TrainingOffloadRequest(
                    optimizer=self.offload_optimizer, parameters=self.offload_parameters
                ),
            ),
            explain=True,
        )

    @property
    def layout(self) -> ParallelismRequest | None:
        """How the accelerators are divided, if the form says so; the rest is data parallel."""
        if self.tensor is None and self.pipeline is None:
            return None
        tensor, pipeline = self.tensor or 1, self.pipeline or 1
        copies = max(self.accelerator_count // (tensor * pipeline), 1)
        return ParallelismRequest(tensor=tensor, pipeline=pipeline, data=copies)

    def link(self, **changes: Any) -> str:
        """The query of a link to the same page, with some of the fields changed."""
        return query_of(self.stated() | changes)

    def api_link(self, *left_out: str, **added: Any) -> str:
        """The query of a link to an operation of the API about the same run."""
        layout = self.layout
        data = {} if layout is None else {"data": layout.data}
        return query_of(self.api_fields(*left_out) | data | added)
