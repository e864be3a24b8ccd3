"""What requests for charts share: how to draw, examples, and the training that is shown beside."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from pydantic import Field

from service.estimation.references import Request
from service.estimation.requests import EXAMPLE_DEPLOYMENT, EXAMPLE_WORKLOAD
from service.estimation.training.requests import TrainingRequest

DEPLOYED: dict[str, Any] = EXAMPLE_DEPLOYMENT | {"workload": EXAMPLE_WORKLOAD}
PLACED: dict[str, Any] = DEPLOYED | {"region": "aws/eu-north-1"}


class StyleRequest(Request):
    """How a chart is drawn."""

    format: Literal["json", "vega-lite", "svg", "png"] | None = None
    """Format of the answer, for clients that cannot send Accept; if null, Accept decides."""
    theme: Literal["light", "dark"] = "light"
    """Background for which the colours are chosen."""
    width_px: int = Field(640, ge=240, le=1600)
    """Width of the chart."""
    height_px: int | None = Field(None, ge=120, le=1200)
    """Height of the chart; if null, as much as it needs."""
    pixel_ratio: float = Field(2.0, ge=1.0, le=3.0)
    """Pixels of a PNG per pixel of the chart."""


Training = TypeVar("Training", bound=TrainingRequest)


def same_training(kind: type[Training], request: Request) -> Training:
    """The training of a chart's model on the chart's accelerators."""
    asked = {name: getattr(request, name) for name in TrainingRequest.model_fields}
    # The cache is that of the inference beside it.
    asked["precision"] = asked["precision"].model_copy(update={"kv_cache": None})
    return kind(**asked)
