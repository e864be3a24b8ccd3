"""Answers that are charts: in figures, in words, and as a specification."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import with_config
from typing_extensions import TypedDict

from service.estimation.answers import Answer, ExplanationStep, Interval, Remark, UsedSource


class ChartAxis(Answer):
    """What an axis measures; the figures of the series are in this unit."""

    name: str
    unit: str


class ChartLocation(Answer):
    """A place on Earth (WGS 84)."""

    latitude_deg: float
    longitude_deg: float


class ChartPoint(Answer):
    """One figure of a series."""

    label: str
    name: NotRequired[str]
    """What people call it, where the label is an id."""
    group: str | None
    x: Interval | None
    """Null if the labels are on the axis."""
    y: Interval
    location: ChartLocation | None
    """Location of a region, if known."""


class ChartSeries(Answer):
    """Points that belong together."""

    name: str
    points: list[ChartPoint]


class ChartLimit(Answer):
    """A reference line that figures are compared with."""

    name: str
    axis: Literal["x", "y"]
    at: Interval
    unit: str


_VegaLiteChart = TypedDict("_VegaLiteChart", {"$schema": str})


@with_config(extra="allow")
class VegaLiteChart(_VegaLiteChart):
    """A Vega-Lite 5 specification with its data; `usermeta` holds what it was computed from."""

    description: str
    usermeta: dict[str, Any]


class ChartFindings(Answer):
    """What a chart shows, in figures and in words."""

    title: str
    """The finding, a colon, and the deployment that it is about."""
    description: str
    """The chart in words, with its main figures."""
    catalog_revision: int
    engine_version: str
    x_axis: ChartAxis | None
    y_axis: ChartAxis
    series: list[ChartSeries]
    limits: list[ChartLimit]
    warnings: list[Remark]
    sources: list[UsedSource]
    explanation: NotRequired[list[ExplanationStep]]
    """Present if the request sets explain."""


class ChartAnswer(ChartFindings):
    """What a chart shows, in figures, in words, and as a Vega-Lite specification."""

    kind: str
    vega_lite: VegaLiteChart
