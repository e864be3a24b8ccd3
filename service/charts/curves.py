"""Charts over two measured axes: roofline, throughput and latency, time, Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

from service.charts.frame import (
    SHORT,
    Style,
    Unit,
    axis_title,
    axis_unit,
    beside_labels_px,
    linear,
    logarithmic,
    named,
    rows,
    specification,
)
from service.charts.theme import OKABE_ITO

_PLOT_PX = 300
_OPERATOR_COLOURS = tuple(
    OKABE_ITO[name] for name in ("blue", "orange", "green", "vermilion", "sky", "purple", "yellow")
)
_ROOF = "roof, "
#: Series of the best point within a limit, and of the load that was asked for.
_BEST, _HERE = "best that meets the limit", "you are here"
_RINGS = {_BEST: "circle", _HERE: "diamond"}
#: A level this many times above a curve is shown on a logarithmic scale with it.
_FAR_ABOVE = 3.0
#: Shares of the axes by which points are apart whose names do not run into each other.
_APART_RATIO = 0.06
#: Spread of figures beyond which a logarithmic scale shows them better.
_LOGARITHMIC_FROM = 20.0

Encoding = dict[str, Any]


def roofline(answer: Mapping[str, Any], style: Style) -> dict[str, Any]:
    """Roofs, and operators under them, on logarithmic axes."""
    x_unit, y_unit = axis_unit(answer, "x"), axis_unit(answer, "y")
    roofs = [line for line in answer["series"] if line["name"].startswith(_ROOF)]
    phases = [line for line in answer["series"] if not line["name"].startswith(_ROOF)]
    roof_rows = [row for line in roofs for row in rows(line, y_unit, x_unit)]
    points = [row for line in phases for row in rows(line, y_unit, x_unit)]
    x, y = _axes(answer, style, x_unit, y_unit, [*roof_rows, *points], logarithmic, logarithmic)
    for axis in (x, y):
        axis["axis"] = {"values": _powers_of_ten(*axis["scale"]["domain"]), "format": SHORT}
    names = [line["name"] for line in phases]
    operators = list(dict.fromkeys(row["label"] for row in points))
    ink_colour = style.theme.ink
    ink = {"value": ink_colour}
    # Left of where the roofs bend there is nothing above them.
    beside = {"orient": "top-left", "columns": 1}
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": roof_rows},
            "mark": {"type": "line", "color": style.theme.ink},
            "encoding": {
                "x": x,
                "y": y,
                "strokeDash": {
                    "field": "series",
                    "scale": {
                        "domain": [line["name"] for line in roofs],
                        "range": [[1, 0], [5, 4]],
                    },
                    "legend": {**beside, "symbolType": "stroke", "symbolStrokeColor": ink_colour},
                },
            },
        },
        {
            "data": {"values": points},
            "layer": [
                _error_bar(x, y, "y", ink),
                {
                    "mark": {
                        "type": "point",
                        "filled": True,
                        "size": 110,
                        "opacity": 1.0,
                        "stroke": style.theme.ink,
                        "strokeWidth": 0.8,
                    },
                    "encoding": {
                        "x": x,
                        "y": y,
                        "color": {
                            "field": "label",
                            "type": "nominal",
                            "scale": {"domain": operators, "range": list(_OPERATOR_COLOURS)},
                        },
                        "shape": {
                            **_shaped(names),
                            "legend": {**beside, "symbolFillColor": ink_colour},
                        },
                    },
                },
            ],
        },
    ]
    return specification(answer, style, _PLOT_PX, layers, _beside_px(y), legend=operators)


def throughput_latency(answer: Mapping[str, Any], style: Style) -> dict[str, Any]:
    """Throughput against latency: the load that was asked for, and the best within the limit.

    Training, which knows no latency, is a level with its interval.
    """
    x_unit, y_unit = axis_unit(answer, "x"), axis_unit(answer, "y")
    curve = rows(answer["series"][0], y_unit, x_unit)
    best, here = (rows(named(answer, name), y_unit, x_unit) for name in (_BEST, _HERE))
    limits = [one["at"]["value"] / x_unit.size for one in answer["limits"] if one["axis"] == "x"]
    trained = [_level(one, y_unit) for one in answer["limits"] if one["axis"] == "y"]
    highest = max(row["y"] for row in curve)
    far = any(one["y"] > _FAR_ABOVE * highest for one in trained)
    y_scale = logarithmic if far else linear
    x, y = _axes(answer, style, x_unit, y_unit, curve, logarithmic, y_scale, limits, trained)
    colour = style.theme.lines[0]
    feasible = [
        {
            "data": {"values": [{"x": at, "from": x["scale"]["domain"][0]}]},
            "layer": [
                {
                    "mark": {"type": "rect", "color": style.theme.lines[2], "opacity": 0.12},
                    "encoding": {"x": {**x, "field": "from"}, "x2": {"field": "x"}},
                },
                {
                    "mark": {"type": "rule", "color": style.theme.ink, "strokeDash": [6, 4]},
                    "encoding": {"x": x},
                },
                {
                    "mark": {"type": "text", "align": "right", "dx": -4, "dy": -4},
                    "encoding": {
                        "x": x,
                        "y": {"value": 0},
                        "text": {"value": f"limit {at:,.4g} {x_unit.label}"},
                    },
                },
            ],
        }
        for at in limits
    ]
    line = {
        "data": {"values": curve},
        "layer": [
            _error_bar(x, y, "y", {"value": colour}),
            _error_bar(x, y, "x", {"value": colour}),
            {
                "mark": {"type": "line", "color": colour, "strokeWidth": 2, "point": False},
                "encoding": {"x": x, "y": y, "order": {"field": "y"}},
            },
            {
                "mark": {
                    "type": "point",
                    "filled": True,
                    "color": colour,
                    "size": 50,
                    "opacity": 1.0,
                },
                "encoding": {"x": x, "y": y},
            },
        ],
    }
    ringed = [*best, *here]
    shapes = [name for name in (_BEST, _HERE) if any(row["series"] == name for row in ringed)]
    rings = {
        "data": {"values": ringed},
        "mark": {
            "type": "point",
            "color": style.theme.lines[1],
            "size": 260,
            "strokeWidth": 3,
            "opacity": 1.0,
        },
        "encoding": {
            "x": x,
            "y": y,
            "shape": {
                "field": "series",
                "type": "nominal",
                "scale": {"domain": shapes, "range": [_RINGS[name] for name in shapes]},
                # More in flight is further up and right: there are no points in that corner.
                "legend": {
                    "orient": "top-left",
                    "columns": 1,
                    "symbolStrokeColor": style.theme.lines[1],
                    "symbolFillColor": "transparent",
                    "symbolStrokeWidth": 2,
                    "labelColor": style.theme.ink,
                },
            },
        },
    }
    over_left = {"align": "right", "dx": -8, "dy": -8}
    beside = [row for row in curve if row["label"] not in [one["label"] for one in here]]
    return specification(
        answer,
        style,
        _PLOT_PX,
        [
            *feasible,
            line,
            *([rings] if ringed else []),
            _labels(_apart([*beside, *here], x, y), x, y, "label", over_left),
            *(_level_line(one, y, style) for one in trained),
        ],
        _beside_px(y),
    )


def impact_over_time(answer: Mapping[str, Any], style: Style) -> dict[str, Any]:
    """Cumulative lines with their bands, and the days on which training's may be crossed."""
    x_unit, y_unit = axis_unit(answer, "x"), axis_unit(answer, "y")
    lines = [rows(line, y_unit, x_unit) for line in answer["series"]]
    everything = [row for line in lines for row in line]
    x, y = _axes(answer, style, x_unit, y_unit, everything, linear, linear)
    x["scale"] = {"domain": [0.0, max(row["x"] for row in everything)], "nice": False}
    names = [line["name"] for line in answer["series"]]
    colour = _coloured(names, style)
    drawn = {
        "data": {"values": everything},
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.2},
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "y_low"},
                    "y2": {"field": "y_high"},
                    "color": colour,
                },
            },
            {
                "mark": {"type": "line", "strokeWidth": 2.5},
                "encoding": {"x": x, "y": y, "color": colour, "strokeDash": _dashed(names)},
            },
        ],
    }
    last = x["scale"]["domain"][1]
    crossings = [
        _crossing(one, x_unit, last, x, style)
        for one in answer["limits"]
        if one["at"]["low"] / x_unit.size <= last
    ]
    return specification(answer, style, 260, [*crossings, drawn], _beside_px(y), legend=names)


def lines_over_years(answer: Mapping[str, Any], style: Style) -> dict[str, Any]:
    """Lines with a point and an interval for each year."""
    x_unit, y_unit = axis_unit(answer, "x"), axis_unit(answer, "y")
    everything = [row for line in answer["series"] for row in rows(line, y_unit, x_unit)]
    x, y = _axes(answer, style, x_unit, y_unit, everything, linear, linear)
    years = sorted({row["x"] for row in everything}) or [1.0]
    x["scale"] = {"domain": [years[0] - 0.5, years[-1] + 0.5], "nice": False}
    x["axis"] = {"values": years[:: ceil(len(years) / 12)], "format": "d"}
    names = [line["name"] for line in answer["series"]]
    colour = _coloured(names, style)
    drawn = {
        "data": {"values": everything},
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 2.5},
                "encoding": {"x": x, "y": y, "color": colour, "strokeDash": _dashed(names)},
            },
            _error_bar(x, y, "y", colour),
            {
                "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1.0},
                "encoding": {"x": x, "y": y, "color": colour},
            },
        ],
    }
    return specification(answer, style, _PLOT_PX, [drawn], _beside_px(y), legend=names)


def pareto_front(answer: Mapping[str, Any], style: Style) -> dict[str, Any]:
    """Candidates as points, those unbeaten on both axes joined, the choices named."""
    x_unit, y_unit = axis_unit(answer, "x"), axis_unit(answer, "y")
    front, unbeaten, choices = (rows(line, y_unit, x_unit) for line in answer["series"])
    everything = [*front, *unbeaten, *choices]
    x, y = _axes(
        answer,
        style,
        x_unit,
        y_unit,
        everything,
        _by_spread(everything, "x"),
        _by_spread(everything, "y"),
    )
    names = [line["name"] for line in answer["series"]]
    colour = {
        "field": "series",
        "type": "nominal",
        "scale": {
            "domain": names,
            "range": [style.theme.muted, style.theme.lines[0], style.theme.lines[1]],
        },
    }
    shape = {**_shaped(names), "scale": {"domain": names, "range": ["circle", "square", "diamond"]}}
    together: dict[tuple[float, float], dict[str, Any]] = {}
    for row in choices:
        first = together.setdefault((row["x"], row["y"]), {**row, "named": []})
        first["named"].append(row["group"])
    chosen = [{**row, "named": ", ".join(row["named"])} for row in together.values()]
    layers = [
        {
            "data": {"values": unbeaten},
            "mark": {"type": "line", "interpolate": "step-after", "color": style.theme.lines[0]},
            "encoding": {"x": x, "y": y},
        },
        {
            "data": {"values": everything},
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 0.9},
            "encoding": {"x": x, "y": y, "color": colour, "shape": shape},
        },
        _labels(chosen, x, y, "named", {"align": "left", "dx": 8, "dy": -8}),
    ]
    return specification(answer, style, _PLOT_PX, layers, _beside_px(y), legend=names)


def _axes(
    answer: Mapping[str, Any],
    style: Style,
    x_unit: Unit,
    y_unit: Unit,
    shown: Sequence[Mapping[str, Any]],
    x_scale: Any,
    y_scale: Any,
    also: Sequence[float] = (),
    levels: Sequence[Mapping[str, Any]] = (),
) -> tuple[Encoding, Encoding]:
    """Encodings of both axes that hold all intervals, ``also`` across and ``levels`` up."""
    found = []
    up = [one["y_high"] for one in levels]
    for axis, unit, scale, more in (("x", x_unit, x_scale, also), ("y", y_unit, y_scale, up)):
        ends = [row[f"{axis}{end}"] for row in shown for end in ("", "_low", "_high")]
        found.append(
            {
                "field": axis,
                "type": "quantitative",
                "scale": scale([*ends, *more] or [1.0]),
                "title": axis_title(
                    answer, axis, unit, style, room_px=_PLOT_PX if axis == "y" else None
                ),
                "axis": {"tickCount": 6, "format": SHORT},
            }
        )
    return found[0], found[1]


def _beside_px(y: Encoding) -> float:
    """About how much the vertical axis takes [px]."""
    labels = (f"{end:,.0f}" if end >= 100.0 else f"{end:.2g}" for end in y["scale"]["domain"])
    return beside_labels_px(labels, len(y["title"]))


def _powers_of_ten(least: float, most: float) -> list[float]:
    return [10.0**power for power in range(ceil(log10(least)), floor(log10(most)) + 1)]


def _by_spread(shown: Sequence[Mapping[str, Any]], axis: str) -> Any:
    values = [row[axis] for row in shown]
    spread = bool(values) and min(values) > 0.0 and max(values) / min(values) > _LOGARITHMIC_FROM
    return logarithmic if spread else linear


def _coloured(names: Sequence[str], style: Style) -> Encoding:
    return {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": list(names), "range": list(style.theme.lines[: len(names)])},
    }


def _shaped(names: Sequence[str]) -> Encoding:
    """Shapes beside colours, so that no series is told by its colour alone."""
    return {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": list(names), "range": ["circle", "square"]},
    }


def _dashed(names: Sequence[str]) -> Encoding:
    """Dashes beside colours, for lines."""
    return {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": list(names), "range": [[1, 0], [9, 3], [2, 2]][: len(names)]},
    }


def _error_bar(x: Encoding, y: Encoding, along: str, colour: Encoding) -> dict[str, Any]:
    """The 90 % interval of each point along one axis."""
    encoding = {"x": x, "y": y, "color": colour}
    encoding[along] = {**encoding[along], "field": f"{along}_low"}
    encoding[f"{along}2"] = {"field": f"{along}_high"}
    return {"mark": {"type": "rule", "opacity": 0.6}, "encoding": encoding}


def _labels(
    shown: Sequence[Mapping[str, Any]], x: Encoding, y: Encoding, field: str, mark: Encoding
) -> dict[str, Any]:
    return {
        "data": {"values": list(shown)},
        "mark": {"type": "text", **mark},
        "encoding": {"x": x, "y": y, "text": {"field": field, "type": "nominal"}},
    }


def _level(one: Mapping[str, Any], unit: Unit) -> dict[str, Any]:
    """A limit of the vertical axis in the unit that is shown."""
    ends = {f"y_{end}" if end != "value" else "y": at / unit.size for end, at in one["at"].items()}
    return {**ends, "name": one["name"]}


def _level_line(one: Mapping[str, Any], y: Encoding, style: Style) -> dict[str, Any]:
    """A level with its interval as a band, named at its right end."""
    colour = style.theme.lines[1]
    right = {"value": "width"}
    return {
        "data": {"values": [dict(one)]},
        "layer": [
            {
                "mark": {"type": "rect", "color": colour, "opacity": 0.15},
                "encoding": {"y": {**y, "field": "y_low"}, "y2": {"field": "y_high"}},
            },
            {
                "mark": {"type": "rule", "color": colour, "strokeWidth": 2, "strokeDash": [8, 3]},
                "encoding": {"y": y},
            },
            {
                "mark": {"type": "text", "align": "right", "dx": -4, "dy": -8},
                "encoding": {"x": right, "y": y, "text": {"field": "name"}},
            },
        ],
    }


def _apart(shown: Sequence[dict[str, Any]], x: Encoding, y: Encoding) -> list[dict[str, Any]]:
    """The last of the points and those before it that are far enough apart to be named."""
    found: list[dict[str, Any]] = []
    for row in reversed(shown):
        at = [_along(axis["scale"], row[axis["field"]]) for axis in (x, y)]
        if all(
            abs(at[0] - _along(x["scale"], one["x"])) + abs(at[1] - _along(y["scale"], one["y"]))
            >= _APART_RATIO
            for one in found
        ):
            found.append(row)
    return found


def _along(scale: Mapping[str, Any], value: float) -> float:
    """Where a value stands on an axis, from 0 to 1."""
    first, last = scale["domain"]
    if scale.get("type") == "log":
        return log10(value / first) / log10(last / first)
    return float((value - first) / (last - first))


def _named_crossing(one: Mapping[str, Any], unit: Unit) -> str:
    value, low, high = (one["at"][end] / unit.size for end in ("value", "low", "high"))
    return f"{one['name']}: day {value:,.0f} ({low:,.0f} … {high:,.0f})"


def _crossing(
    one: Mapping[str, Any], unit: Unit, last: float, x: Encoding, style: Style
) -> dict[str, Any]:
    """The day on which lines cross, with its interval as a band."""
    ends = {end: min(at / unit.size, last) for end, at in one["at"].items()}
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "rect", "color": style.theme.muted, "opacity": 0.15},
            "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}},
        }
    ]
    if one["at"]["value"] / unit.size <= last:
        layers += [
            {
                "mark": {"type": "rule", "color": style.theme.ink, "strokeDash": [6, 4]},
                "encoding": {"x": {**x, "field": "value"}},
            },
            {
                "mark": {"type": "text", "dy": -6, "baseline": "bottom"},
                "encoding": {
                    "x": {**x, "field": "value"},
                    "y": {"value": 0},
                    "text": {"value": _named_crossing(one, unit)},
                },
            },
        ]
    return {"data": {"values": [ends]}, "layer": layers}
