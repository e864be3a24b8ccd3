"""Charts made of bars: parts of memory, impacts by region, sensitivity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

from service.charts.frame import (
    DIGITS,
    PADDING_PX,
    Style,
    Unit,
    axis_title,
    axis_unit,
    beside_labels_px,
    label_characters,
    label_px,
    linear,
    named,
    rows,
    specification,
)
from service.charts.theme import OKABE_ITO, ink_on

_TOTAL = "total"
#: Share of the axis that a part must take to be labelled.
_LABELLED_RATIO = 0.07
#: Share of the axis from which on the name of a limit has room on its left.
_NAMED_LEFT_RATIO = 0.36
#: Height of the name of a limit above the bars [px].
_LIMIT_PX = 13

_MEMORY_COLOURS = {
    "weights": OKABE_ITO["blue"],
    "gradients": OKABE_ITO["purple"],
    "optimizer": OKABE_ITO["vermilion"],
    "activations": OKABE_ITO["green"],
    "logits": OKABE_ITO["yellow"],
    "kv_cache": OKABE_ITO["orange"],
    "runtime": "#999999",
}
#: Parts of memory as pages call them.
_NAMES = {
    "kv_cache": "KV cache",
    "activations": "working memory",
    "optimizer": "optimizer states",
    "runtime": "engine and driver",
}
_IMPACT_COLOURS = (OKABE_ITO["orange"], OKABE_ITO["blue"])
#: Divides the lines of a label; no name has it.
_BREAK = "|"
#: Room for a figure beside a bar, and for the name of the one that was asked about [px].
_FIGURE_PX, _HERE_PX = 46, 84
#: Share of the plot that what stands beside a bar may take at most.
_MOST_BESIDE_RATIO = 0.5
_ENDS = ("input at its low", "input at its high")


def memory_breakdown(answer: Mapping[str, Any], style: Style) -> dict[str, Any]:
    """Stacked bars of the parts of memory, with the capacity."""
    colours = [
        (line["name"], _MEMORY_COLOURS[line["name"]])
        for line in answer["series"]
        if line["name"] in _MEMORY_COLOURS
    ]
    return _stacked(answer, style, colours, bar_px=64)


def impacts_by_region(answer: Mapping[str, Any], style: Style) -> dict[str, Any]:
    """Stacked bars of the parts of an impact, one a region, the least on top."""
    parts = [line["name"] for line in answer["series"] if line["name"] != _TOTAL]
    colours = list(zip(parts, _IMPACT_COLOURS, strict=False))
    return _stacked(answer, style, colours, bar_px=26, labelled=False)


def sensitivity(answer: Mapping[str, Any], style: Style) -> dict[str, Any]:
    """A tornado: bars from the figure as asked to where each end of an input takes it."""
    unit = axis_unit(answer, "y")
    base = answer["limits"][0]["at"]["value"] / unit.size
    ends = [row for name in _ENDS for row in rows(named(answer, name), unit)]
    most = label_characters(style.width_px)
    for row in ends:
        row["base"] = base
        row["label"] = f"{shorten(row['label'], most, placeholder='…')}{_BREAK}{row['group']}"
        row["below"] = row["y"] < base
    order = list(dict.fromkeys(row["label"] for row in ends))
    reached = [row["y"] for row in ends] + [base]
    plot_px = max(style.width_px - label_px(style.width_px) - 3 * _FIGURE_PX, _FIGURE_PX)
    room = ((max(reached) - min(reached)) or base or 1.0) * _FIGURE_PX / plot_px
    scale = {"domain": [min(reached) - room, max(reached) + room], "nice": False, "zero": False}
    across = _across(answer, unit, scale, style)
    labels = {
        "field": "label",
        "type": "nominal",
        "sort": order,
        "title": None,
        "axis": {
            "labelExpr": f"split(datum.label, '{_BREAK}')",
            "labelOffset": -6 * (max(label.count(_BREAK) for label in order or [_BREAK])),
        },
    }
    bars = {
        "mark": {"type": "bar", "stroke": style.theme.ink, "strokeWidth": 0.5, "height": 16},
        "encoding": {
            "x": {"field": "base", **across},
            "x2": {"field": "y"},
            "y": labels,
            "color": _colours(list(zip(_ENDS, reversed(_IMPACT_COLOURS), strict=True))),
        },
    }
    figures = [
        {
            "transform": [
                {"filter": f"datum.y !== datum.base && datum.below === {str(below).lower()}"}
            ],
            "mark": {"type": "text", "align": align, "dx": dx},
            "encoding": {
                "x": {"field": "y", **across},
                "y": labels,
                "text": {"field": "y", "format": DIGITS},
            },
        }
        for below, align, dx in ((True, "right", -5), (False, "left", 5))
    ]
    as_asked = {
        "data": {"values": [{"y": base}]},
        "mark": {"type": "rule", "color": style.theme.ink},
        "encoding": {"x": {"field": "y", **across}},
    }
    layer = {"data": {"values": ends}, "layer": [bars, *figures]}
    return specification(
        answer,
        style,
        34 * max(len(order), 1),
        [layer, as_asked],
        beside_px=beside_labels_px(line for label in order for line in label.split(_BREAK)),
        legend=_ENDS,
    )


def _stacked(
    answer: Mapping[str, Any],
    style: Style,
    colours: Sequence[tuple[str, str]],
    bar_px: int,
    labelled: bool = True,
) -> dict[str, Any]:
    """Horizontal bars of parts one after the other, the interval of their total, and limits."""
    unit = axis_unit(answer, "y")
    totals = rows(named(answer, _TOTAL), unit)
    order = [row["label"] for row in totals]
    limits = [
        {
            "name": f"{one['name']} {one['at']['value'] / unit.size:,.3g} {unit.label}",
            "y": one["at"]["value"] / unit.size,
        }
        for one in answer["limits"]
    ]
    # The figure of a total, and the name of the one that was asked about, stand behind it.
    plot_px = style.width_px - label_px(style.width_px) - 2 * PADDING_PX
    ends = [
        row["y_high"] / (1.0 - min(beside_px / plot_px, _MOST_BESIDE_RATIO))
        for row in totals
        for beside_px in [_FIGURE_PX if labelled else _HERE_PX if row["group"] else 0]
    ]
    scale = linear(ends + [one["y"] for one in limits])
    parts = _end_to_end(answer, unit, colours)
    across = _across(answer, unit, scale, style)
    most = label_characters(style.width_px)
    axis = {"labelExpr": f"truncate(datum.label, {most})"}
    labels = {"field": "label", "type": "nominal", "sort": order, "title": None, "axis": axis}
    size = {"height": {"band": 0.72}}
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": parts},
            "mark": {"type": "bar", "stroke": style.theme.ink, "strokeWidth": 0.5, **size},
            "encoding": {
                "x": {"field": "start", **across},
                "x2": {"field": "end"},
                "y": labels,
                "color": _colours([(part_in_words(name), colour) for name, colour in colours]),
            },
        }
    ]
    layers += _limit_lines(limits, across, style)
    layers.append(_spread(totals, across, labels, style))
    layers.append(_here(totals, across, labels, style))
    if labelled:
        least = scale["domain"][1] * _LABELLED_RATIO
        layers.append(
            {
                "data": {"values": [row for row in parts if row["y"] >= least]},
                "layer": [_figure_of_part(across, labels, halo) for halo in (True, False)],
            }
        )
        layers.append(
            {
                "data": {"values": totals},
                "layer": [
                    {
                        "mark": {
                            "type": "text",
                            "align": "left",
                            "dx": 6,
                            "fontWeight": "bold",
                            **halo,
                        },
                        "encoding": {
                            "x": {"field": "y_high", **across},
                            "y": labels,
                            "text": {"field": "y", "format": DIGITS},
                        },
                    }
                    for halo in (
                        {
                            "stroke": style.theme.background,
                            "strokeWidth": 5,
                            "strokeJoin": "round",
                        },
                        {},
                    )
                ],
            }
        )
    height_px = bar_px * max(len(order), 1)
    return specification(
        answer,
        style,
        height_px,
        layers,
        beside_px=beside_labels_px(label[:most] for label in order),
        legend=[part_in_words(name) for name, _ in colours],
    )


def _figure_of_part(
    across: Mapping[str, Any], labels: Mapping[str, Any], halo: bool
) -> dict[str, Any]:
    """The figure on a part of a bar; its halo parts it from a line that passes behind it."""
    outline = {"stroke": {"field": "colour", "type": "nominal", "scale": None}} if halo else {}
    return {
        "mark": {"type": "text", **({"strokeWidth": 5, "strokeJoin": "round"} if halo else {})},
        "encoding": {
            "x": {"field": "middle", **across},
            "y": labels,
            "text": {"field": "y", "format": DIGITS},
            "color": {"field": "ink", "type": "nominal", "scale": None},
            **outline,
        },
    }


def _end_to_end(
    answer: Mapping[str, Any], unit: Unit, colours: Sequence[tuple[str, str]]
) -> list[dict[str, Any]]:
    """Rows with where each part starts and ends on the axis."""
    reached: dict[str, float] = {}
    found = []
    for name, colour in colours:
        for row in rows(named(answer, name), unit):
            start = reached.get(row["label"], 0.0)
            end = reached[row["label"]] = start + row["y"]
            found.append(
                {
                    **row,
                    "series": part_in_words(name),
                    "start": start,
                    "end": end,
                    "middle": (start + end) / 2.0,
                    "ink": ink_on(colour),
                    "colour": colour,
                }
            )
    return found


def _spread(
    totals: list[dict[str, Any]], across: Mapping[str, Any], labels: Mapping[str, Any], style: Style
) -> dict[str, Any]:
    """The 90 % interval of totals, edged with the background so that it shows on any colour."""
    encoding = {"x": {"field": "y_low", **across}, "x2": {"field": "y_high"}, "y": labels}

    def rule(colour: str, width: float) -> dict[str, Any]:
        return {"mark": {"type": "rule", "color": colour, "strokeWidth": width}}

    ends = [
        {
            "mark": {"type": "tick", "color": style.theme.ink, "thickness": 1.5, "size": 8},
            "encoding": {"x": {"field": end, **across}, "y": labels},
        }
        for end in ("y_low", "y_high")
    ]
    lines = [
        {**rule(colour, width), "encoding": encoding}
        for colour, width in ((style.theme.background, 4), (style.theme.ink, 1.5))
    ]
    return {"data": {"values": totals}, "layer": [*lines, *ends]}


def _here(
    totals: list[dict[str, Any]], across: Mapping[str, Any], labels: Mapping[str, Any], style: Style
) -> dict[str, Any]:
    """The bar that was asked about, named behind its interval."""
    return {
        "data": {"values": [row for row in totals if row["group"]]},
        "mark": {
            "type": "text",
            "align": "left",
            "dx": 8,
            "fontWeight": "bold",
            "color": style.theme.ink,
        },
        "encoding": {
            "x": {"field": "y_high", **across},
            "y": labels,
            "text": {"value": "you are here"},
        },
    }


def _limit_lines(
    limits: Sequence[Mapping[str, Any]], across: Mapping[str, Any], style: Style
) -> list[dict[str, Any]]:
    """Dashed lines, named above the bars, each name on a line of its own."""
    found: list[dict[str, Any]] = []
    for at, one in enumerate(limits):
        # Named towards the side on which there is room.
        left = one["y"] > across["scale"]["domain"][1] * _NAMED_LEFT_RATIO
        data = {"values": [{**one, "text": one["name"]}]}
        place = {"x": {"field": "y", **across}}
        found.append(
            {
                "data": data,
                "mark": {
                    "type": "rule",
                    "color": style.theme.ink,
                    "strokeDash": [6, 4] if at == 0 else [2, 3],
                    "strokeWidth": 1.5,
                },
                # Up to its name, so that it cannot be read as that of the line beside it.
                "encoding": {
                    **place,
                    "y": {"value": -3 - _LIMIT_PX * (len(limits) - at)},
                    "y2": {"value": "height"},
                },
            }
        )
        found.append(
            {
                "data": data,
                "mark": {
                    "type": "text",
                    "align": "right" if left else "left",
                    "dx": -4 if left else 4,
                    "dy": -6 - _LIMIT_PX * (len(limits) - 1 - at),
                    "baseline": "bottom",
                    "color": style.theme.ink,
                },
                "encoding": {**place, "y": {"value": 0}, "text": {"field": "text"}},
            }
        )
    return found


def _across(
    answer: Mapping[str, Any], unit: Unit, scale: Mapping[str, Any], style: Style
) -> dict[str, Any]:
    """The horizontal encoding of the answer's vertical axis: the bars lie."""
    return {"type": "quantitative", "scale": scale, "title": axis_title(answer, "y", unit, style)}


def _colours(named_colours: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "field": "series",
        "type": "nominal",
        "scale": {
            "domain": [name for name, _ in named_colours],
            "range": [colour for _, colour in named_colours],
        },
    }


def part_in_words(name: str) -> str:
    """A part of memory as people call it; what is no part of memory keeps its name."""
    return _NAMES.get(name, name)
