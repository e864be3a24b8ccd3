"""Documents as pages for browsers, and as PDF."""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import lru_cache
from importlib.resources import files
from math import ceil
from typing import TYPE_CHECKING

import orjson

from service.reports.document import Document, Table

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = "templates"
#: Letters beyond which a text is rather broken than given a wider column.
_WIDEST_COLUMN = 34
#: Letters that the space beside a column takes, and how much wider bold letters are.
_GUTTER, _BOLD_RATIO = 4, 1.15


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("service.reports", _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def as_html(document: Document) -> str:
    """A page that needs nothing else, for the screen and for paper."""
    return _environment().get_template("document.html").render(document=document)


def as_pdf(document: Document) -> bytes:
    """A PDF; the same document gives the same bytes."""
    import typst

    told = asdict(document)
    for given, section in zip(document.sections, told["sections"], strict=True):
        for block, shown in zip(given.blocks, section["blocks"], strict=True):
            if isinstance(block, Table):
                shown["widths"] = _widths(block)
    template = files("service.reports").joinpath(_TEMPLATES, "document.typ").read_bytes()
    made: bytes = typst.compile(
        template, sys_inputs={"document": orjson.dumps(told).decode()}, ignore_system_fonts=True
    )
    return made


def _widths(table: Table) -> list[int]:
    """Columns in proportion to what is in them; headings are broken between words."""
    return [
        _GUTTER
        + max(
            *(ceil(len(word) * _BOLD_RATIO) for word in re.split(r"[\s-]", name)),
            *(min(len(row[at]), _WIDEST_COLUMN) for row in table.rows),
            1,
        )
        for at, name in enumerate(table.columns)
    ]
