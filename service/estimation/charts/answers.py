"""Answers that are charts: in figures, in words, and as a specification."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from service.estimation.answers import Answer, ExplanationStep, Interval, Remark, UsedSource


class ChartAxis(Answer):
    """What an axis measures; the figures of the series are in this unit."""

    name: str
    """What stands beside the axis."""
    unit: str


class ChartLocation(Answer):
    """A place on Earth (WGS 84)."""

    latitude_deg: float
    """Degrees north of the equator."""
    longitude_deg: float
    """Degrees east of Greenwich."""


class ChartPoint(Answer):
    """One figure of a series."""

    label: str
    """What the point stands for, often an id."""
    name: NotRequired[str]
    """What people call it, where the label is an id."""
    group: str | None
    """Part of a stack that it belongs to; null without one."""
    x: Interval | None
    """Null if the labels are on the axis."""
    y: Interval
    location: ChartLocation | None
    """Location of a region, if known."""


class ChartSeries(Answer):
    """Points that belong together."""

    name: str
    """What the legend calls it."""
    points: list[ChartPoint]


class ChartLimit(Answer):
    """A reference line that figures are compared with."""

    name: str
    """What stands beside the line."""
    axis: Literal["x", "y"]
    """The axis that it crosses."""
    at: Interval
    unit: str


_VegaLiteChart = TypedDict(
    "_VegaLiteChart",
    {"$schema": Annotated[str, Field(description="Address of the schema of Vega-Lite.")]},
)


@with_config(extra="allow")
class VegaLiteChart(_VegaLiteChart):
    """A Vega-Lite 5 specification with its data; `usermeta` holds what it was computed from."""

    description: str
    """What the chart shows, in words."""
    usermeta: dict[str, Any]
    """What it was computed from: catalog revision and engine version."""


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
    """The chart that was asked for, by its name in the path."""
    vega_lite: VegaLiteChart
