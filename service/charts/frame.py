"""What all charts have in common: title, description, size, provenance, axes and their units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from service.charts.theme import THEMES, Theme, config

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"

#: Three significant digits in plain notation, as d3 spells them; short without trailing zeros.
DIGITS = ",.3r"
SHORT = ",.3~r"

_SPREADS = "Thin lines and bands show 90 % intervals."

#: Width of a character of the title and of what is below it, on the safe side [px].
_TITLE_CHARACTER_PX, _SUBTITLE_CHARACTER_PX = 8.0, 6.5
#: Likewise of labels, on average: most are small letters [px].
_LABEL_CHARACTER_PX = 5.9
#: Ticks with room on both sides, and a line of the title of a vertical axis [px].
_TICKS_PX, _TITLE_LINE_PX = 9, 15
#: What stands beside the name of an entry of the legend: its symbol, and room on both sides [px].
_LEGEND_SYMBOL_PX = 34
PADDING_PX = 12
_LABEL_RATIO, _MOST_LABEL_PX = 0.44, 220
_MOST_NAME_PX = 260
_ENDS = ("value", "low", "high")
#: Marks that are figures rather than axes, names or limits.
_POINTED_AT = frozenset({"bar", "point", "circle"})
_SPACE, _BELOW, _LOG = 1.05, 0.8, 1.25


@dataclass(frozen=True, slots=True)
class Style:
    """How a chart is drawn; ``height_px`` of None is as much as it needs."""

    theme: Theme
    width_px: int
    height_px: int | None


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that figures are shown in: ``size`` of the unit that they come in."""

    label: str
    size: float


#: Units that figures come in, and those that they are shown in, the largest first.
_SHOWN: Mapping[str, tuple[Unit, ...]] = {
    "B": (Unit("GB", 1e9),),
    "s": (Unit("s", 1.0), Unit("ms", 1e-3)),
    "FLOP/s": (Unit("TFLOP/s", 1e12),),
    "kgCO2e": (Unit("t CO₂e", 1e3), Unit("kg CO₂e", 1.0)),
    "gCO2e": (Unit("t CO₂e", 1e6), Unit("kg CO₂e", 1e3), Unit("g CO₂e", 1.0)),
    "L": (Unit("m³", 1e3), Unit("L", 1.0), Unit("mL", 1e-3)),
    "kWh": (Unit("MWh", 1e3), Unit("kWh", 1.0), Unit("Wh", 1e-3)),
    "W": (Unit("MW", 1e6), Unit("kW", 1e3), Unit("W", 1.0)),
    "d": (Unit("", 1.0),),
    "year": (Unit("", 1.0),),
    "1/s": (Unit("", 1.0),),
    "FLOP/B": (Unit("FLOP per byte", 1.0),),
}


def shown_unit(unit: str, greatest: float) -> Unit:
    """The unit to show figures in, of which the greatest is given."""
    known = _SHOWN.get(unit, (Unit(unit, 1.0),))
    return next((one for one in known if greatest >= one.size), known[-1])


def axis_unit(answer: Mapping[str, Any], axis: str) -> Unit:
    """The unit to show one axis in: ``axis`` is "x" or "y"."""
    ends = [
        abs(point[axis]["value"])
        for line in answer["series"]
        for point in line["points"]
        if point[axis] is not None
    ]
    ends += [abs(one["at"]["value"]) for one in answer["limits"] if one["axis"] == axis]
    return shown_unit(answer[f"{axis}_axis"]["unit"], max(ends, default=0.0))


def axis_title(
    answer: Mapping[str, Any], axis: str, unit: Unit, style: Style, room_px: int | None = None
) -> list[str]:
    """What an axis measures, and in what, in lines of ``room_px``, or beside the labels."""
    name: str = answer[f"{axis}_axis"]["name"]
    # A unit stays in one piece.
    label = unit.label.replace(" ", "\N{NO-BREAK SPACE}")
    text = f"{name} [{label}]" if label else name
    along_px = room_px or style.width_px - label_px(style.width_px)
    return wrap(text, max(int(along_px / _SUBTITLE_CHARACTER_PX), 16), break_on_hyphens=False)


def label_characters(width_px: int) -> int:
    """Characters that a line of a label of bars has room for."""
    return int(label_px(width_px) / _LABEL_CHARACTER_PX)


def label_px(width_px: int) -> int:
    """Width that labels of bars may take of a chart [px]."""
    return min(int(width_px * _LABEL_RATIO), _MOST_LABEL_PX)


def beside_labels_px(labels: Iterable[str], title_lines: int = 0) -> float:
    """About the room that an axis takes beside the marks: ticks, labels, and lines of a title."""
    longest = max(map(len, labels), default=0)
    return _TICKS_PX + longest * _LABEL_CHARACTER_PX + title_lines * _TITLE_LINE_PX


def rows(
    line: Mapping[str, Any], y_unit: Unit, x_unit: Unit | None = None, **added: Any
) -> list[dict[str, Any]]:
    """Points of a series as rows of data, in the units that they are shown in."""
    found = []
    for point in line["points"]:
        row = {
            "series": line["name"],
            "label": point.get("name", point["label"]),
            "group": point["group"],
            **added,
        }
        for axis, unit in (("y", y_unit), ("x", x_unit)):
            if unit is not None and point[axis] is not None:
                value, low, high = (point[axis][end] / unit.size for end in _ENDS)
                row |= {axis: value, f"{axis}_low": low, f"{axis}_high": high}
                row[f"{axis}_told"] = _told(value, low, high, unit)
        found.append(row)
    return found


def _told(value: float, low: float, high: float, unit: Unit) -> str:
    """A figure with its interval and unit, for whoever points at it."""
    ends = f" ({low:,.3g} … {high:,.3g})" if low < high else ""
    return f"{value:,.3g}{ends} {unit.label}".rstrip()


def named(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The series of a name, without points where the answer has none of it."""
    empty: Mapping[str, Any] = {"name": name, "points": []}
    return next((line for line in answer["series"] if line["name"] == name), empty)


def logarithmic(values: Iterable[float]) -> dict[str, Any]:
    """A logarithmic scale with some room around positive values."""
    known = sorted(values)
    return {"type": "log", "domain": [known[0] / _LOG, known[-1] * _LOG], "nice": False}


def linear(values: Iterable[float]) -> dict[str, Any]:
    """A linear scale from zero with some room above."""
    return {"domain": [0.0, max(values, default=1.0) * _SPACE or 1.0], "nice": False}


def specification(
    answer: Mapping[str, Any],
    style: Style,
    plot_px: int,
    layers: Sequence[Mapping[str, Any]],
    beside_px: float = 0.0,
    legend: Sequence[str] = (),
    note: str = _SPREADS,
) -> dict[str, Any]:
    """A whole specification around the layers of a chart.

    Parameters
    ----------
    answer
        What is shown: title, description and what it was computed from.
    style
        How it is drawn.
    plot_px
        Height of the marks themselves, if the style does not give that of the whole [px].
    layers
        Marks with their data and encodings.
    beside_px
        About how much stands left of the marks [px]; 0 where nothing does.
    legend
        Names in the legend below the marks.
    note
        How to read intervals, if there are any.
    """
    title, _, subtitle = answer["title"].partition(": ")
    spread = any(
        point["y"]["low"] < point["y"]["high"]
        for line in answer["series"]
        for point in line["points"]
    )
    told = _tooltip(answer)
    titles = _lines([title], style, _TITLE_CHARACTER_PX)
    below = _lines([subtitle, *([note] if spread else [])], style, _SUBTITLE_CHARACTER_PX)
    column_px = _LEGEND_SYMBOL_PX + _SUBTITLE_CHARACTER_PX * max(map(len, legend), default=1)
    columns = max(int((style.width_px - label_px(style.width_px) // 2) // column_px), 1)
    return {
        "$schema": SCHEMA,
        "title": {"text": titles, "subtitle": below},
        "description": f"{answer['title']}. {answer['description']}",
        **_size(style, plot_px, beside_px),
        "padding": PADDING_PX,
        "layer": [_pointed_at(layer, told) for layer in layers],
        "config": config(
            style.theme,
            columns,
            _limit_px(legend, _MOST_NAME_PX),
        ),
        "usermeta": {
            "catalog_revision": answer["catalog_revision"],
            "engine_version": answer["engine_version"],
            "sources": answer["sources"],
        },
    }


def _size(style: Style, plot_px: int, beside_px: float) -> dict[str, Any]:
    """Width and height of the marks, or of the whole where its height is given.

    A renderer lays a whole of a given size out twice, and finding out how wide words are is what
    takes longest: without a given height, marks get the width that is left, laid out once.
    """
    if style.height_px:
        size = {"width": style.width_px, "height": style.height_px}
        return {**size, "autosize": {"type": "fit", "contains": "padding"}}
    width_px = style.width_px - 2 * PADDING_PX - round(beside_px)
    return {"width": width_px, "height": plot_px, "autosize": "pad"}


def _limit_px(texts: Iterable[str], most_px: int) -> int:
    """Where texts are cut; 0 where none of them is too long [px]."""
    longest = max(map(len, texts), default=0)
    return most_px if longest * _SUBTITLE_CHARACTER_PX > most_px else 0


def _tooltip(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is said of a mark that is pointed at."""
    axes = [(name, answer[f"{name}_axis"]) for name in ("y", "x")]
    return [
        {"field": "label", "type": "nominal", "title": "of"},
        {"field": "series", "type": "nominal", "title": "what"},
        *(
            {"field": f"{name}_told", "type": "nominal", "title": axis["name"]}
            for name, axis in axes
            if axis is not None
        ),
    ]


def _pointed_at(layer: Mapping[str, Any], told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A layer whose marks say what they are when they are pointed at."""
    if "layer" in layer:
        return {**layer, "layer": [_pointed_at(one, told) for one in layer["layer"]]}
    mark = layer["mark"]
    kind = mark if isinstance(mark, str) else mark["type"]
    if kind not in _POINTED_AT:
        return dict(layer)
    return {**layer, "encoding": {**layer["encoding"], "tooltip": list(told)}}


def _lines(parts: Iterable[str], style: Style, character_px: float) -> list[str]:
    """Text broken into lines that the chart is wide enough for, all of about the same length."""
    room = max(int((style.width_px - 2 * PADDING_PX) / character_px), 16)
    return [line for part in parts for line in _evenly(part, room)]


def _evenly(text: str, room: int) -> list[str]:
    """Text in as few lines of at most ``room`` characters as it takes, all about as long."""
    lines = wrap(text, room, break_on_hyphens=False)
    least = len(text) // max(len(lines), 1)
    for width in range(least, room):
        even = wrap(text, width, break_on_hyphens=False, break_long_words=False)
        if len(even) == len(lines) and max(map(len, even)) <= room:
            return even
    return lines


def style_of(theme: str, width_px: int, height_px: int | None) -> Style:
    """A style by the name of its theme."""
    return Style(THEMES[theme], width_px, height_px)
