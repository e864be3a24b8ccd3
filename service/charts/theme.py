"""Colours and type of charts, on a light and on a dark background."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

#: The palette of Okabe and Ito, told apart with every common kind of colour vision: Color Universal
#: Design, 2008, https://jfly.uni-koeln.de/color/.
OKABE_ITO: Mapping[str, str] = MappingProxyType(
    {
        "black": "#000000",
        "orange": "#E69F00",
        "sky": "#56B4E9",
        "green": "#009E73",
        "yellow": "#F0E442",
        "blue": "#0072B2",
        "vermilion": "#D55E00",
        "purple": "#CC79A7",
    }
)

#: Fonts that the renderer carries, and what browsers have in their place.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a chart.

    ``lines`` are those of the palette that stand out from the background by 3:1, as lines and
    points must (WCAG 2.2, 1.4.11); areas may be of any colour, for they are outlined in ``ink``.
    """

    background: str
    ink: str
    muted: str
    grid: str
    lines: tuple[str, ...]


THEMES: Mapping[str, Theme] = MappingProxyType(
    {
        "light": Theme(
            background="#ffffff",
            ink="#1b1f24",
            muted="#57606a",
            grid="#e4e8ec",
            lines=tuple(OKABE_ITO[name] for name in ("blue", "vermilion", "green")),
        ),
        "dark": Theme(
            background="#12161c",
            ink="#e6e9ed",
            muted="#a3acb8",
            grid="#2b323b",
            lines=tuple(OKABE_ITO[name] for name in ("sky", "orange", "green")),
        ),
    }
)

_WHITE, _BLACK = "#ffffff", "#000000"


def config(theme: Theme, legend_columns: int, name_px: int) -> dict[str, Any]:
    """The part of a specification that gives a chart its looks.

    Names of the legend are cut at ``name_px``, or nowhere where that is 0, and labels of axes
    nowhere: a renderer measures each text again to find out whether it is too long.
    """
    words = {
        "labelColor": theme.muted,
        "titleColor": theme.ink,
        "labelFont": FONT,
        "titleFont": FONT,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    return {
        "background": theme.background,
        "font": FONT,
        "view": {"stroke": None},
        "title": {
            "color": theme.ink,
            "subtitleColor": theme.muted,
            "fontSize": 14,
            "subtitleFontSize": 12,
            "anchor": "start",
            "frame": "bounds",
            "offset": 16,
        },
        "axis": {
            **words,
            "gridColor": theme.grid,
            "domainColor": theme.muted,
            "tickColor": theme.muted,
            "labelLimit": 0,
        },
        # Names stand in rows of their own; only numbers may meet.
        "axisQuantitative": {"labelOverlap": "greedy", "labelSeparation": 6},
        "legend": {
            **words,
            "orient": "bottom",
            "title": None,
            "columns": legend_columns,
            "symbolOpacity": 1.0,
            "labelLimit": name_px,
            "layout": {"top-left": {"direction": "vertical", "margin": 4}},
        },
        "text": {"color": theme.ink, "font": FONT, "fontSize": 11},
    }


def ink_on(colour: str) -> str:
    """Black or white, whichever reads better on a colour."""
    return max((_BLACK, _WHITE), key=lambda ink: contrast_ratio(ink, colour))


def contrast_ratio(first: str, second: str) -> float:
    """Contrast of two colours, from 1 to 21 (WCAG 2.2, definition of contrast ratio)."""
    darker, lighter = sorted((_luminance(first), _luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    """Relative luminance of a colour written #rrggbb (WCAG 2.2)."""
    channels = (int(colour[at : at + 2], 16) / 255.0 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
