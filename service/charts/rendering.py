"""Specifications as images. Runs in a process of its own: it takes long, and holds that process."""

from __future__ import annotations

import re
from typing import Literal
from xml.sax.saxutils import escape

#: Vega-Lite that the specifications are written for, out of those that the renderer brings.
_VERSION = "v5.21"
_OPENING = re.compile(r"<svg [^>]*>")


def rendered(
    specification: str, form: Literal["svg", "png"], title: str, description: str, ratio: float
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
    ratio
        Pixels of a PNG for each pixel of the chart [-].
    """
    import vl_convert

    if form == "png":
        png: bytes = vl_convert.vegalite_to_png(
            specification, vl_version=_VERSION, scale=ratio, ppi=72, allowed_base_urls=[]
        )
        return png
    svg = vl_convert.vegalite_to_svg(specification, vl_version=_VERSION, allowed_base_urls=[])
    return _described(svg, title, description).encode()


def as_png(svg: str) -> bytes:
    """An SVG of our own as PNG, pixel by pixel."""
    import vl_convert

    png: bytes = vl_convert.svg_to_png(svg, scale=1.0, ppi=72)
    return png


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
