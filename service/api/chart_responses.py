"""Shape of charts, for the OpenAPI document and the test that holds to it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from service.api.responses import Answer, ExplanationStep, Interval, Remark, UsedSource


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
    group: str | None
    x: Interval | None = Field(description="Null where the labels stand on the axis.")
    y: Interval
    location: ChartLocation | None = Field(description="Of a region, where it is known.")


class ChartSeries(Answer):
    """Points that belong together."""

    name: str
    points: list[ChartPoint]


class ChartLimit(Answer):
    """A line that figures are held against."""

    name: str
    axis: Literal["x", "y"]
    at: Interval
    unit: str


class VegaLiteChart(Answer):
    """A Vega-Lite 5 specification with its data; `usermeta` holds what it was computed from."""

    model_config = ConfigDict(extra="allow")

    schema_: str = Field(alias="$schema")
    description: str
    usermeta: dict[str, Any]


class ChartAnswer(Answer):
    """What a chart shows, in figures, in words, and as a Vega-Lite specification."""

    kind: str
    title: str = Field(description="What is found, then of what, divided by a colon.")
    description: str = Field(description="The chart in words, with the figures that matter.")
    catalog_revision: int
    engine_version: str
    x_axis: ChartAxis | None
    y_axis: ChartAxis
    series: list[ChartSeries]
    limits: list[ChartLimit]
    warnings: list[Remark]
    sources: list[UsedSource]
    explanation: list[ExplanationStep] = Field(
        default_factory=list, description="Present when asked for with explain."
    )
    vega_lite: VegaLiteChart
