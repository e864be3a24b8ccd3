"""Charts on a map of the world: an impact in the places where it would arise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

import orjson

from service.charts.frame import SHORT, Style, axis_title, axis_unit, rows, specification

#: Height of the map as a share of its width: the outline reaches from 56° S to 84° N.
_HEIGHT_RATIO = 0.44
#: Ratio of the most to the least from which colours follow the logarithm.
_LOGARITHMIC_FROM = 4.0
#: Longitude east of which a name is written to the left of its point [deg].
_LEFT_FROM_DEG = 60.0
#: Latitudes within which names of places close in longitude would cover each other [deg].
_NAMES_APART_DEG = (8.0, 60.0)
_NOTE = "Best estimates; the chart by region shows their intervals."
_PROJECTION = {"type": "equalEarth"}

Row = dict[str, Any]


def impacts_map(answer: Mapping[str, Any], style: Style) -> dict[str, Any]:
    """Points coloured by an impact, with the least, the most and the one asked about named."""
    unit = axis_unit(answer, "y")
    line = answer["series"][-1]
    # The least are drawn last, and so on top where places coincide.
    shown = [
        {**row, **point["location"]}
        for row, point in zip(rows(line, unit), line["points"], strict=True)
    ][::-1]
    impacts = [row["y"] for row in shown]
    least, most = min(impacts), max(impacts)
    logarithmic = least > 0.0 and most > _LOGARITHMIC_FROM * least
    width_px = style.width_px
    colour = {
        "field": "y",
        "type": "quantitative",
        "scale": {"scheme": "viridis", "type": "log" if logarithmic else "linear", "nice": False},
        "legend": {
            "title": " ".join(axis_title(answer, "y", unit, style)),
            "titleLimit": width_px,
            "direction": "horizontal",
            "gradientLength": min(width_px // 2, 320),
            "gradientThickness": 10,
            "format": SHORT,
            # More than these would touch each other on a phone.
            "values": [least, (least * most) ** 0.5 if logarithmic else (least + most) / 2.0, most],
        },
    }
    place = {
        "longitude": {"field": "longitude_deg", "type": "quantitative"},
        "latitude": {"field": "latitude_deg", "type": "quantitative"},
    }
    layers: list[dict[str, Any]] = [
        {
            "data": {"graticule": {"step": [30, 30], "extent": [[-180, -60], [180.01, 84]]}},
            "projection": _PROJECTION,
            "mark": {
                "type": "geoshape",
                "filled": False,
                "stroke": style.theme.grid,
                "strokeWidth": 0.5,
            },
        },
        {
            "data": {"values": {"type": "Feature", "geometry": land(), "properties": {}}},
            "projection": _PROJECTION,
            "mark": {
                "type": "geoshape",
                "fill": style.theme.grid,
                "stroke": style.theme.muted,
                "strokeWidth": 0.4,
            },
        },
        {
            "data": {"values": shown},
            "projection": _PROJECTION,
            "mark": {
                "type": "circle",
                "size": 80,
                "opacity": 1.0,
                "stroke": style.theme.ink,
                "strokeWidth": 0.8,
            },
            "encoding": {**place, "color": colour},
        },
    ]
    named = _named(shown)
    # On top of its neighbours, and larger, so that a name belongs to one dot.
    layers.append(
        {
            "data": {"values": named},
            "projection": _PROJECTION,
            "mark": {
                "type": "circle",
                "size": 150,
                "opacity": 1.0,
                "stroke": style.theme.ink,
                "strokeWidth": 2.0,
            },
            "encoding": {**place, "color": colour},
        }
    )
    for row in named:
        left = row["longitude_deg"] > _LEFT_FROM_DEG
        text = {
            "type": "text",
            "align": "right" if left else "left",
            "dx": -11 if left else 11,
            "baseline": "middle",
            "fontWeight": "bold" if row["group"] else "normal",
        }
        for halo in (True, False):
            outline = (
                {"stroke": style.theme.background, "strokeWidth": 3, "strokeJoin": "round"}
                if halo
                else {}
            )
            layers.append(
                {
                    "data": {"values": [{**row, "text": f"{row['label']}: {row['y']:,.3g}"}]},
                    "projection": _PROJECTION,
                    "mark": {**text, **outline},
                    "encoding": {**place, "text": {"field": "text", "type": "nominal"}},
                }
            )
    plot_px = int(width_px * _HEIGHT_RATIO)
    return specification(answer, style, plot_px, layers, note=_NOTE)


@lru_cache(maxsize=1)
def land() -> dict[str, Any]:
    """Outline of the land, as GeoJSON.

    Natural Earth, 1:110m land (public domain, https://www.naturalearthdata.com), from the npm
    package world-atlas 2.0.2 (ISC licence, Michael Bostock): without Antarctica, simplified by
    Douglas and Peucker's algorithm to 0.4°, coordinates to 0.1°.
    """
    outline: dict[str, Any] = orjson.loads(
        files("service.charts").joinpath("land.json").read_bytes()
    )
    return outline


def _named(shown: Sequence[Row]) -> list[Row]:
    """The region asked about, the least and the most, as far as their names have room."""
    ranked = sorted(shown, key=lambda row: float(row["y"]))
    wanted = [*(row for row in shown if row["group"]), ranked[0], ranked[-1]]
    found: list[Row] = []
    for row in wanted:
        if all(_apart(row, one) for one in found):
            found.append(row)
    return found


def _apart(first: Row, second: Row) -> bool:
    up_deg, across_deg = _NAMES_APART_DEG
    up = abs(float(first["latitude_deg"]) - float(second["latitude_deg"]))
    across = abs(float(first["longitude_deg"]) - float(second["longitude_deg"]))
    return up > up_deg or across > across_deg
