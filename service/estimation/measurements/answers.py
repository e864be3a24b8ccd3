"""Answers about reported measurements beside their estimates."""

from __future__ import annotations

from typing import Literal, NotRequired

from pydantic import JsonValue

from service.estimation.answers import Answer, AskedAs, Remark
from service.estimation.measurements.compared import ComparedFigure


class MeasuredFigure(Answer):
    """A measured figure, with the estimate at the time it was reported."""

    metric: str
    """Name of the quantity."""
    measured: float
    """The figure as it was reported."""
    estimate: float
    """What the estimate said."""
    low: float
    high: float
    error_ratio: float
    """(estimate - measured) / measured."""
    inside: bool
    """Whether the measured figure lies in the interval."""
    implausible: bool
    """Whether the two are more than 30 times apart: kept, but nothing follows from it."""


class RefusedFigure(Answer):
    """A figure that no estimate of this configuration gives."""

    metric: str
    reason: str


class Measurement(Answer):
    """A report with its comparison."""

    id: int
    """Number of the report."""
    created_at: str
    organisation: str | None
    """Who alone sees it and is corrected by it; null for everybody's."""
    author: str | None
    kind: Literal["inference", "training", "impacts"]
    """What was measured."""
    model: str
    accelerator: str
    family: str
    catalog_revision: int
    engine_version: str
    document: AskedAs
    """What was reported, in the form that POST /v1/measurements takes."""
    deployment: dict[str, JsonValue]
    """The configuration as it was understood."""
    figures: list[MeasuredFigure]
    out_of_memory_foreseen: bool | None
    """Whether the estimate, too, says that it does not fit; null unless it ran out of memory."""
    refused: NotRequired[list[RefusedFigure]]
    """Figures without an estimate; present when a report is sent."""
    warnings: NotRequired[list[Remark]]
    """Warnings of the estimate; present when a report is sent."""


class MeasurementPage(Answer):
    """A page of reports, newest first."""

    items: list[Measurement]
    next_cursor: str | None


class MeasurementGroup(Answer):
    """Errors of one metric of one model on one accelerator."""

    model: str
    accelerator: str
    family: str
    metric: str
    count: int
    """Figures of the group."""
    mean_error_ratio: float
    """(estimate - measured) / measured."""
    median_error_ratio: float
    """Median of (estimate - measured) / measured."""
    coverage_ratio: float
    """Share of figures inside the interval."""


class MeasurementSummary(Answer):
    """Errors over all reports but implausible figures."""

    items: list[MeasurementGroup]


def measured_figure(found: ComparedFigure) -> MeasuredFigure:
    """A compared figure as it goes over the wire."""
    return {
        "metric": found.quantity,
        "measured": found.measured,
        "estimate": found.value,
        "low": found.low,
        "high": found.high,
        "error_ratio": found.error_ratio,
        "inside": found.inside,
        "implausible": found.implausible,
    }
