"""Answers about reported measurements beside their estimates."""

from __future__ import annotations

from typing import Literal, NotRequired

from pydantic import JsonValue

from service.estimation.answers import Answer, AskedAs, Remark


class MeasuredFigure(Answer):
    """A measured figure, with the estimate at the time it was reported."""

    metric: str
    measured: float
    estimate: float
    low: float
    high: float
    error_ratio: float
    """(estimate - measured) / measured."""
    inside: bool
    """Whether the measured figure lies in the interval."""


class Measurement(Answer):
    """A report with its comparison."""

    id: int
    created_at: str
    author: str | None
    kind: Literal["inference", "training"]
    model: str
    accelerator: str
    family: str
    catalog_revision: int
    engine_version: str
    measured_on: str | None
    tool: str | None
    notes: str | None
    request: AskedAs
    """The deployment as it was reported."""
    deployment: dict[str, JsonValue]
    """The deployment as it was understood."""
    figures: list[MeasuredFigure]
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
    mean_error_ratio: float
    """(estimate - measured) / measured."""
    median_error_ratio: float
    coverage_ratio: float
    """Share of figures inside the interval."""


class MeasurementSummary(Answer):
    """Errors over all reports."""

    items: list[MeasurementGroup]
