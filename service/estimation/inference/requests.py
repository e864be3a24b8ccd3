"""Everything that is asked about one inference deployment at once."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from service.estimation.compliance.requests import RuleFacts
from service.estimation.references import FacilityRequest, RegionReference
from service.estimation.requests import (
    EXAMPLE_DEPLOYMENT,
    EXAMPLE_WORKLOAD,
    CostRequest,
    DeploymentRequest,
    PeriodRequest,
)


class InferenceRequest(DeploymentRequest):
    """Everything about one inference deployment in one answer."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                EXAMPLE_DEPLOYMENT | {"region": "aws/eu-north-1", "workload": EXAMPLE_WORKLOAD}
            ]
        }
    )

    region: RegionReference = Field(examples=["aws/eu-north-1"])
    """Cloud region, country, grid zone, or an inline region."""
    period: PeriodRequest = PeriodRequest()
    facility: FacilityRequest = FacilityRequest()
    cost: CostRequest = CostRequest()
    compliance: RuleFacts | None = None
    """Facts about the site, to check them against the rules of the place."""
