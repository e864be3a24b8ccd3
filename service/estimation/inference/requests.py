"""Everything that is asked about one inference deployment at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from service.estimation.compliance.requests import RuleFacts
from service.estimation.detail import FieldPaths, including
from service.estimation.percentiles import Percentile
from service.estimation.references import FacilityRequest, RegionReference, Request
from service.estimation.requests import (
    EXAMPLE_DEPLOYMENT,
    EXAMPLE_WORKLOAD,
    CostRequest,
    DeploymentRequest,
    NetworkRoundTrip,
    PeriodRequest,
)

if TYPE_CHECKING:
    _Included: TypeAlias = tuple[str, ...]
else:
    _Included = including(
        "provenance",
        "explanation",
        "deployment",
        "memory.by_class",
        "remedies",
        "latency.breakdown",
        "energy.breakdown",
        "impacts.breakdown",
        "cost.breakdown",
    )
_Most = Annotated[float | None, Field(gt=0.0, le=1e9)]


class TimeLimitsRequest(Request):
    """The most that users may have to wait: means, or percentiles over requests."""

    percentile: Percentile = "mean"
    """What ttft_s, tpot_s and e2e_s limit: means, or this percentile over requests, as in
    recommendations. 95 is understood as p95."""
    ttft_s: _Most = None
    """Mean time to the first token, or its percentile."""
    ttft_p50_s: _Most = None
    """Median time to the first token over requests."""
    ttft_p95_s: _Most = None
    """95th percentile of the time to the first token over requests."""
    ttft_p99_s: _Most = None
    """99th percentile of the time to the first token over requests."""
    tpot_s: _Most = None
    """Mean time per output token, or its percentile."""
    tpot_p50_s: _Most = None
    """Median time per output token over requests."""
    tpot_p95_s: _Most = None
    """95th percentile of the time per output token over requests."""
    tpot_p99_s: _Most = None
    """99th percentile of the time per output token over requests."""
    e2e_s: _Most = None
    """Mean time of a whole request, or its percentile."""
    e2e_p50_s: _Most = None
    """Median time of a whole request over requests."""
    e2e_p95_s: _Most = None
    """95th percentile of the time of a whole request over requests."""
    e2e_p99_s: _Most = None
    """99th percentile of the time of a whole request over requests."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        """Refuse a percentile that is limited under both of its names."""
        self.by_name()
        return self

    def by_name(self) -> Mapping[str, float]:
        """The limits that are set, each by what it limits: ttft_s, ttft_p95_s [s].

        Raises
        ------
        ValueError
            If one is set under both of its names.
        """
        found: dict[str, float] = {}
        for name, most_s in self.model_dump(exclude={"percentile"}, exclude_none=True).items():
            time, _, rest = name.partition("_")
            limited = name
            if rest == "s" and self.percentile != "mean":
                limited = f"{time}_{self.percentile}_s"
                if getattr(self, limited) is not None:
                    raise ValueError(f"{limited} is limited twice, as {name} is the same here")
            found[limited] = most_s
        return found


class PlacedRequest(DeploymentRequest):
    """A deployment in a place, with what it is to keep and to cost there."""

    region: RegionReference | None = Field(None, examples=["aws/eu-north-1"])
    """Cloud region, country, grid zone, or an inline region. Without a place, emissions of
    operation, water and rent are unknown, unless you state a price; the PUE is a usual one."""
    period: PeriodRequest = PeriodRequest()
    facility: FacilityRequest = FacilityRequest()
    cost: CostRequest = CostRequest()
    network_round_trip_s: NetworkRoundTrip = None
    """Network round trip between users and the service. latency.over_network then gives the times
    that users see. Limits and percentiles remain those of the service itself."""
    limits: TimeLimitsRequest | None = Field(
        None, examples=[{"ttft_p99_s": 2.0, "tpot_p99_s": 0.2}]
    )
    """Times to keep: the answer has the goodput, the highest rate of requests that keeps them."""
    compliance: RuleFacts | None = None
    """Facts about the site, which are checked against the rules of the place."""


class InferenceRequest(PlacedRequest):
    """Everything about one inference deployment in one answer."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                EXAMPLE_DEPLOYMENT | {"region": "aws/eu-north-1", "workload": EXAMPLE_WORKLOAD}
            ]
        }
    )

    include: _Included = ()
    fields: FieldPaths = ()
