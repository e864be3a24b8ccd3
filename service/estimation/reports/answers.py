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
    """What the line is called in the standard."""
    amount: Interval | None
    """Null if not known; never left out."""
    unit: str
    method: str
    """How the amount was arrived at."""
    note: str
    """What the amount leaves out or rests on."""


class ReportAnswer(Repeatable):
    """A footprint in the form that a standard or a law requires."""

    kind: str
    """The report that was asked for, by its name in the path."""
    standard: str
    """The standard or law, with its version."""
    deployment: PlacedDeployment | None
    region: str
    period_days: float
    """Days that the amounts are of."""
    lines: list[ReportLine]
    equivalences: list[Equivalence]
