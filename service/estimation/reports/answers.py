"""Answers in the shape that a standard or a law asks for."""

from __future__ import annotations

from service.estimation.answers import Answer, Interval, Repeatable
from service.estimation.impacts.answers import Equivalence
from service.estimation.inference.echo import PlacedDeployment


class ReportLine(Answer):
    """One figure of a report."""

    code: str
    """Name or number in the standard; several lines may share one."""
    name: str
    amount: Interval | None
    """Null if not known; never left out."""
    unit: str
    method: str
    note: str


class ReportAnswer(Repeatable):
    """A footprint in the form that a standard or a law requires."""

    kind: str
    standard: str
    deployment: PlacedDeployment | None
    region: str
    period_days: float
    lines: list[ReportLine]
    equivalences: list[Equivalence]
