"""What is asked about a site's social licence: the place, facts about the site, and weights."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from service.estimation.compliance.requests import RuleFacts
from service.estimation.detail import FieldPaths, Grounded
from service.estimation.impacts.requests import SiteRequest
from service.estimation.references import CatalogRequest, Ratio, RegionReference, Request

Weight = Annotated[float, Field(ge=0.0, le=1e6)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]


class SocialWeightsRequest(Request):
    """How much each part counts; those that are left out keep the usual weight."""

    moratoria: Weight | None = None
    """Measures of local governments against data centres."""
    legislation: Weight | None = None
    """Bills of the state about data centres."""
    grid_connection: Weight | None = None
    """Years until a site gets power."""
    water: Weight | None = None
    """Water stress of the basin."""
    noise: Weight | None = None
    """Margin to the noise limit, or distance to the nearest homes."""
    local_benefit: Weight | None = None
    """Ownership and benefit that stay in the place."""
    disputes: Weight | None = None
    """Disputes on record."""
    transparency: Weight | None = None
    """Published figures about the place."""


class SocialLicenceRequest(CatalogRequest):
    """A place, and what is known of a site there."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"region": "aws/us-east-1"},
                {
                    "region": "state/US-VA",
                    "homes_distance_m": 150,
                    "local_benefit_ratio": 0.1,
                    "disputes_count": 2,
                    "weights": {"noise": 0.4},
                },
            ]
        }
    )

    region: RegionReference = Field(examples=["aws/us-east-1"])
    """Cloud region, country, grid zone, or an inline region."""
    site: SiteRequest | None = None
    """Facts about the site; its sound sources with a receptor and a limit give the noise."""
    homes_distance_m: float | None = Field(None, ge=0.0, le=1e6)
    """From the site to the nearest homes; counts where the noise is not computed."""
    local_benefit_ratio: Ratio | None = None
    """Share of ownership, jobs, taxes or heat that stays in the place, by your own account; no
    public indicator was found."""
    disputes_count: Count | None = None
    """Lawsuits, objections and campaigns on record about the site or its neighbours."""
    published_ratio: Ratio | None = None
    """Share of PUE, water use and carbon-free share that the operator publishes of the site; if
    null, of those that the catalog has for the place itself."""
    weights: SocialWeightsRequest = SocialWeightsRequest()
    """How much each part counts."""
    compliance: RuleFacts | None = None
    """Facts for the rules of the place: those that fail are listed, whatever the index says."""
    explain: bool = False
    """Add a step-by-step explanation."""
    include: Grounded = ()
    fields: FieldPaths = ()
