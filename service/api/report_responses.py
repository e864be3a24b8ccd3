"""Shape of reports, for the OpenAPI document and the test that holds to it."""

from __future__ import annotations

from pydantic import Field

from service.api.impact_responses import Equivalence
from service.api.responses import Answer, Interval, PlacedDeployment, Repeatable


class ReportLine(Answer):
    """One figure of a report."""

    code: str = Field(description="What the standard calls it; several lines may share one.")
    name: str
    amount: Interval | None = Field(description="Null where it is not known; never left out.")
    unit: str
    method: str
    note: str


class ReportAnswer(Repeatable):
    """A footprint in the shape that a standard or a law asks for."""

    kind: str
    standard: str
    deployment: PlacedDeployment | None
    region: str
    period_days: float
    lines: list[ReportLine]
    equivalences: list[Equivalence]
