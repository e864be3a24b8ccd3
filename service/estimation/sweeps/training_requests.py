"""What callers may ask a sweep of training runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from service.estimation.recommendations.requests import ChoiceRequest
from service.estimation.recommendations.training.requests import (
    RunLimits,
    RunRequest,
    TrainingRecommendationRequest,
    TrainingSearchRequest,
)
from service.estimation.references import FetchedModel, ModelConfig


class TrainingSweepRequest(ChoiceRequest):
    """A design-space study of training: what is combined, and which rows are kept."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "8 or 64 of two accelerators",
                    "model": "meta-llama/Llama-3.1-8B",
                    "training": {"tokens": 2e9, "sequence_length": 8192},
                    "search": {
                        "accelerators": ["nvidia-h100-sxm-80gb", "amd-mi300x-192gb"],
                        "accelerator_counts": [8, 64],
                        "regions": ["aws/eu-north-1", "azure/francecentral"],
                    },
                    "limits": {"days": 7},
                    "keep": "survivors",
                }
            ]
        }
    )

    name: Annotated[str | None, Field(max_length=200)] = None
    """Name of the sweep."""
    training: RunRequest
    """What is trained on, and how it may be trained: its tokens, at least."""
    search: TrainingSearchRequest = TrainingSearchRequest()
    """Lists whose combinations are evaluated; null means what recommendations search."""
    limits: RunLimits = RunLimits()
    """Null sets no limit, but for the life of the hardware."""
    keep: Literal["survivors", "candidates"] = "survivors"
    """Keep only what fits and meets the limits; or keep every candidate whose weights and states
    fit, with a mark that says whether it does."""

    @model_validator(mode="after")
    def _searchable(self) -> TrainingSweepRequest:
        # What contradicts itself in a recommendation does so here.
        self.as_search()
        return self

    def as_search(self) -> TrainingRecommendationRequest:
        """The recommendation that searches the same."""
        asked = {name: getattr(self, name) for name in self.model_fields_set - {"name", "keep"}}
        return TrainingRecommendationRequest.model_validate(asked)

    def standing_alone(self) -> TrainingSweepRequest:
        """The same request with what was fetched from the Hub written out, for whoever does it."""

        def whole(model: object) -> object:
            if isinstance(model, FetchedModel):
                return ModelConfig(config=model.config, safetensors_index=model.safetensors_index)
            return model

        changed = {
            "model": whole(self.model),
            "models": None if self.models is None else [whole(one) for one in self.models],
        }
        return self.model_copy(update=changed)
