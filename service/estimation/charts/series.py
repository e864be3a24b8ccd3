"""Shape of what a chart shows, the same for every kind of chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from service.core.interval import Interval
from service.estimation import answers
from service.estimation.answers import figure
from service.estimation.charts.answers import (
    ChartAxis,
    ChartFindings,
    ChartLimit,
    ChartLocation,
    ChartPoint,
    ChartSeries,
)

#: A figure as it goes over the wire.
Figure = answers.Interval | Mapping[str, float]


def point(
    label: str,
    y: Interval | Figure,
    x: Interval | Figure | None = None,
    group: str | None = None,
    location: ChartLocation | None = None,
    name: str | None = None,
) -> ChartPoint:
    """One figure of a series.

    Parameters
    ----------
    label
        What it is the figure of.
    y, x
        In the units of the axes; no ``x`` where the labels stand on that axis.
    group
        What it belongs to beside its series.
    location
        Where on Earth it is, in degrees.
    name
        What people call it, where the label is an id.
    """
    found: ChartPoint = {
        "label": label,
        "group": group,
        "x": None if x is None else _figure(x),
        "y": _figure(y),
        "location": location,
    }
    if name is not None:
        found["name"] = name
    return found


def series(name: str, points: Iterable[ChartPoint]) -> ChartSeries:
    """Points that belong together."""
    return {"name": name, "points": list(points)}


def unit_in_words(unit: str) -> str:
    """A unit as texts write it, such as "g CO₂e" for gCO2e."""
    return unit.replace("CO2e", " CO₂e")


def axis(name: str, unit: str) -> ChartAxis:
    """What an axis measures, and in what unit."""
    return {"name": name, "unit": unit}


def limit(name: str, of: Literal["x", "y"], at: Interval | Figure, unit: str) -> ChartLimit:
    """A reference line that figures are compared with.

    Parameters
    ----------
    name
        What the line means.
    of
        The axis it is a value of: "x" or "y".
    at, unit
        Where it stands.
    """
    return {"name": name, "axis": of, "at": _figure(at), "unit": unit}


def chart(
    title: str,
    description: str,
    axes: tuple[ChartAxis | None, ChartAxis],
    lines: Sequence[ChartSeries],
    sources: Sequence[Mapping[str, Any]],
    limits: Sequence[ChartLimit] = (),
) -> ChartFindings:
    """What a chart shows.

    Parameters
    ----------
    title
        What is found, then of what, divided by a colon.
    description
        The same in words, with the figures that matter, for those who cannot see it.
    axes
        Horizontal axis, None where it has labels, and vertical axis.
    lines
        The series.
    sources
        Answers that the figures were taken from: their warnings, sources and explanations are the
        chart's.
    limits
        Lines that figures are held against.
    """
    first = sources[0]
    shown: ChartFindings = {
        "catalog_revision": first["catalog_revision"],
        "engine_version": first["engine_version"],
        "title": title,
        "description": description,
        "x_axis": axes[0],
        "y_axis": axes[1],
        "series": list(lines),
        "limits": list(limits),
        "warnings": _each_once(answer["warnings"] for answer in sources),
        "sources": _each_once(
            entry["sources"] for answer in sources for entry in answer["provenance"]["entries"]
        ),
    }
    explained = [step for answer in sources for step in answer.get("explanation", ())]
    if explained:
        shown["explanation"] = explained
    return shown


def _figure(given: Interval | Figure) -> answers.Interval:
    if isinstance(given, Interval):
        return figure(given)
    return {"value": given["value"], "low": given["low"], "high": given["high"]}


def _each_once(lists: Iterable[Iterable[Any]]) -> list[Any]:
    found: dict[tuple[tuple[str, Any], ...], Any] = {}
    for items in lists:
        for item in items:
            # Names differ, so that values are never compared.
            found.setdefault(tuple(sorted(item.items())), item)
    return list(found.values())
