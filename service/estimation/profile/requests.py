"""What is asked about the memory of a model in training and in inference."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from service.core.memory.pruning import Structure
from service.estimation.detail import FieldPaths, Grounded
from service.estimation.references import Figure, Request
from service.estimation.requests import DeploymentRequest, PrecisionRequest
from service.estimation.training.requests import TrainingSettingsRequest


class PruningRequest(Request):
    """Weights that are set to zero."""

    structure: Structure
    """structured: whole rows, heads or layers; 2:4: two of every four; unstructured: anywhere."""
    sparsity_ratio: Annotated[float, Field(ge=0.0, le=0.999)] | None = None
    """Share of zeros among the weights of attention, feed-forward layers and experts; of 2:4 it is
    half and is left out."""

    @model_validator(mode="after")
    def _a_share(self) -> PruningRequest:
        if (self.structure == "2:4") != (self.sparsity_ratio is None):
            raise ValueError("give sparsity_ratio, except for 2:4, which is half")
        return self


class MemoryProfileRequest(DeploymentRequest):
    """A model that is trained and served on the same accelerators."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "meta-llama/Llama-2-7b-hf",
                    "accelerator": "nvidia-h100-sxm-80gb",
                    "workload": {
                        "input_tokens": {"tokens": [200, 1000, 3000], "shares": [5, 3, 1]},
                        "output_tokens": 200,
                        "concurrency": 16,
                    },
                    "reserved_tokens": 4096,
                    "pruning": {"structure": "2:4"},
                }
            ]
        }
    )

    training: TrainingSettingsRequest = TrainingSettingsRequest()
    """How it is trained."""
    include: Grounded = ()
    fields: FieldPaths = ()
    training_precision: PrecisionRequest | None = None
    """Number formats of training; if null, those of inference."""
    activation_constant: Figure | None = None
    """C of the rule of thumb C · layers · sequences · tokens · hidden size · bytes; if null, 15,
    from 10 to 20."""
    reserved_tokens: int | None = Field(None, ge=1, le=100_000_000)
    """Tokens that a cache in one piece reserves for each sequence; if null,
    serving.max_model_len, else the longest context of the model."""
    pruning: PruningRequest | None = None
    """Zeros among the weights of inference."""
