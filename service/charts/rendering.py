"""Specifications as images. Runs in a process of its own: it takes long, and holds that process."""

from __future__ import annotations

import re
from typing import Literal
from xml.sax.saxutils import escape

#: Vega-Lite that the specifications are written for, out of those that the renderer brings.
_VERSION = "v5.21"
_OPENING = re.compile(r"<svg [^>]*>")
_SIZE = re.compile(r' width="([0-9.]+)" height="([0-9.]+)"')
#: A subscript in a text, rather than in an attribute, and what follows it there.
_SUBSCRIPT = re.compile(r"(>[^<>]*)₂([^<>]*)(?=<)")


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
    import vl_convert

    drawn = vl_convert.vegalite_to_svg(specification, vl_version=_VERSION, allowed_base_urls=[])
    svg = _as_wide_as(drawn, width_px)
    if form == "png":
        return as_png(svg, ratio)
    return _described(_lowered(svg), title, description).encode()


def as_png(svg: str, ratio: float = 1.0) -> bytes:
    """An SVG of our own as PNG, with ``ratio`` pixels for each of its own."""
    import vl_convert

    png: bytes = vl_convert.svg_to_png(_lowered(svg), scale=ratio, ppi=72)
    return png


def _as_wide_as(svg: str, width_px: int) -> str:
    """The image at a width, its height in proportion."""
    size = _SIZE.search(svg)
    if size is None:
        raise ValueError("the renderer's image does not say how large it is")
    height_px = round(float(size[2]) * width_px / float(size[1]))
    return f'{svg[: size.start()]} width="{width_px}" height="{height_px}"{svg[size.end() :]}'


def _lowered(svg: str) -> str:
    """Subscripts as lowered digits: the font that pictures are drawn with has none."""
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
