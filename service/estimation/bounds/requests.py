"""What is asked about the limits of hardware."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from service.estimation.detail import FieldPaths, Grounded
from service.estimation.references import (
    AcceleratorReference,
    CatalogRequest,
    FacilityRequest,
    ModelReference,
    PlatformReference,
    PowerLimit,
    RegionReference,
)
from service.estimation.requests import PrecisionRequest


class BoundsRequest(CatalogRequest):
    """A model on accelerators, whatever software runs it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "meta-llama/Llama-2-70b-hf",
                    "accelerator": "groq-lpu-v1",
                    "region": "country/US",
                }
            ]
        }
    )

    model: ModelReference = Field(examples=["meta-llama/Llama-2-70b-hf"])
    """Catalog id or alias, hf:organisation/name, or {'config': …}."""
    precision: PrecisionRequest = PrecisionRequest()
    accelerator: AcceleratorReference = Field(examples=["groq-lpu-v1"])
    """Catalog id or alias, or an inline accelerator."""
    platform: PlatformReference | None = None
    """Machine that the accelerators stand in; if null, the usual one."""
    power_limit_w: PowerLimit | None = None
    """Limit of power of each accelerator."""
    accelerator_count: int | None = Field(None, ge=1, le=1_000_000)
    """Accelerators that share the work; if null, as many as hold everything."""
    sequences: int = Field(1, ge=1, le=1_000_000)
    """Requests in flight."""
    input_tokens: int = Field(1024, ge=1, le=10_000_000)
    """Prompt of each."""
    output_tokens: int = Field(256, ge=1, le=1_000_000)
    """Answer to each."""
    region: RegionReference | None = Field(None, examples=["country/US"])
    """Cloud region, country, grid zone, or an inline region. Without a place, emissions of
    operation and water are unknown."""
    facility: FacilityRequest = FacilityRequest()
    explain: bool = False
    """Add a step-by-step explanation."""
    include: Grounded = ()
    fields: FieldPaths = ()
