"""What a projection over time is asked."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from service.estimation.detail import FieldPaths, Grounded
from service.estimation.references import CatalogRequest, Figure


class ProjectionRequest(CatalogRequest):
    """A training run's emissions against those of the inference that follows it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "training_kgco2e": {"value": 552000, "low": 500000, "high": 600000},
                    "requests_per_day": 10_000_000,
                    "gco2e_per_request": {"value": 0.15, "low": 0.08, "high": 0.3},
                    "days": 730,
                }
            ]
        }
    )

    training_kgco2e: Figure
    """Emissions of the training run."""
    requests_per_day: Figure
    """Requests on the first day."""
    gco2e_per_request: Figure
    """Emissions per request, e.g. from an inference estimate."""
    growth_per_year_ratio: float = Field(0.0, ge=-20.0, le=20.0)
    """Growth rate, compounded continuously; negative for decline."""
    days: int = Field(365, ge=1, le=36_500)
    """Length of the series."""
    points: int = Field(61, ge=2, le=1_000)
    """Number of points of the series."""
    explain: bool = False
    """Add a step-by-step explanation."""
    include: Grounded = ()
    fields: FieldPaths = ()
