"""Specifications as images. Runs in a process of its own: it takes long, and holds that process."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape

#: Vega-Lite that the specifications are written for, out of those that the renderer brings.
_VERSION = "v5.21"
_OPENING = re.compile(r"<svg [^>]*>")
_SIZE = re.compile(r' width="([0-9.]+)" height="([0-9.]+)"')
#: A subscript in a text, rather than in an attribute, and what follows it there.
_SUBSCRIPT = re.compile(r"(>[^<>]*CO)[2₂](e?[^<>]*)(?=<)")
#: Letters and signs that none of the renderer's own fonts has: those after Hebrew, save
#: punctuation, arrows and signs.
_OTHER_SCRIPTS = re.compile("[\u0600-\u1cff\u2e80-\uffff\U00010000-\U0010ffff]")
#: What names the list of a machine's fonts on Linux, and a list of none.
_FONT_LIST = "FONTCONFIG_FILE"
_NO_FONTS = Path(__file__).with_name("fonts.conf")
_NOTHING = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
_EMPTY = '{"data": {"values": [{}]}, "mark": "point"}'
#: Where Linux keeps fonts.
_FONT_FOLDERS = tuple(
    Path(one).expanduser()
    for one in (
        *("/usr/share/fonts", "/usr/local/share/fonts"),
        *("~/.fonts", "~/.local/share/fonts"),
    )
)


def rendered(
    specification: str,
    form: Literal["svg", "png"],
    title: str,
    description: str,
    width_px: int,
    ratio: float,
) -> bytes:
    """A specification as an image, without looking anything up anywhere.

    Parameters
    ----------
    specification
        Vega-Lite as JSON, with all its data in it.
    form
        What kind of image.
    title, description
        What the image says to those who cannot see it; in SVG only.
    width_px
        Width of the image, which the specification is about as wide as [px].
    ratio
        Pixels of a PNG for each pixel of the chart [-].
    """
    # The renderer has no glyph for the subscript, and would search all others for one.
    asked = specification.replace("CO₂", "CO2")
    drawn = _renderer(asked).vegalite_to_svg(asked, vl_version=_VERSION, allowed_base_urls=[])
    svg = _as_wide_as(drawn, width_px)
    if form == "png":
        return as_png(svg, ratio)
    return _described(_lowered(svg), title, description).encode()


def as_png(svg: str, ratio: float = 1.0) -> bytes:
    """An SVG of our own as PNG, with ``ratio`` pixels for each of its own."""
    png: bytes = _renderer(svg).svg_to_png(_lowered(svg), scale=ratio, ppi=72)
    return png


def start() -> None:
    """Load what draws and let it draw once, which takes longer than most charts do afterwards."""
    rendered(_EMPTY, "svg", "", "", 1, 1.0)


def _renderer(text: str) -> Any:
    """What draws, with fonts for a text.

    It opens the file of a font for each letter that it measures, which is most of the time that a
    chart takes; its own fonts, which charts are set in, it has in memory. So the machine's are left
    out until a text is in a script that its own do not have.
    """
    renderer = _with_own_fonts()
    if _OTHER_SCRIPTS.search(text):
        _add_fonts_of_the_machine()
    return renderer


@cache
def _with_own_fonts() -> Any:
    import vl_convert

    before = os.environ.get(_FONT_LIST)
    os.environ[_FONT_LIST] = str(_NO_FONTS)
    try:
        # It looks for fonts when it draws for the first time.
        vl_convert.svg_to_png(_NOTHING)
    finally:
        del os.environ[_FONT_LIST]
        if before is not None:
            os.environ[_FONT_LIST] = before
    return vl_convert


@cache
def _add_fonts_of_the_machine() -> None:
    import vl_convert

    for folder in filter(Path.is_dir, _FONT_FOLDERS):
        vl_convert.register_font_directory(str(folder))


def _as_wide_as(svg: str, width_px: int) -> str:
    """The image at a width, its height in proportion."""
    size = _SIZE.search(svg)
    if size is None:
        raise ValueError("the renderer's image does not say how large it is")
    height_px = round(float(size[2]) * width_px / float(size[1]))
    return f'{svg[: size.start()]} width="{width_px}" height="{height_px}"{svg[size.end() :]}'


def _lowered(svg: str) -> str:
    """The digit of CO2 as a lowered one: the font that pictures are drawn with has none."""
    return _SUBSCRIPT.sub(
        r'\1<tspan dy="0.22em" font-size="70%">2</tspan><tspan dy="-0.154em">\2</tspan>', svg
    )


def _described(svg: str, title: str, description: str) -> str:
    """The image as one, with its title and description (SVG 2, 5.8; WAI-ARIA Graphics)."""
    opening = _OPENING.match(svg)
    if opening is None:
        raise ValueError("the renderer's image does not start as SVG does")
    labelled = 'role="img" aria-labelledby="chart-title chart-description"'
    tag = opening[0].replace("<svg ", f"<svg {labelled} ", 1)
    words = (
        f'<title id="chart-title">{escape(title)}</title>'
        f'<desc id="chart-description">{escape(description)}</desc>'
    )
    return f"{tag}{words}{svg[opening.end() :]}"
