"""What all pages are made with: templates, the files they load, forms, sources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.formatting import duration, gigabytes, number
from service.estimation.rejection import FieldError
from service.extras import how_to_add, is_installed
from service.portal.options import options

if TYPE_CHECKING:
    from jinja2 import Environment

#: Files that the pages load, and their media types.
ASSETS = {
    "style.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "headroom-estimate.js": "text/javascript",
}

#: Whole numbers below this are written without an exponent.
_MOST_WRITTEN_OUT = 1e9

#: What a validator says, and the same for readers of a form.
_PLAINER = (
    (
        "Input should be a valid integer, unable to parse string as an integer",
        "must be a whole number",
    ),
    ("Input should be a valid number, unable to parse string as a number", "must be a number"),
    ("Input should be greater than or equal to", "must be at least"),
    ("Input should be less than or equal to", "must be at most"),
    ("Input should be ", "must be "),
    (" as {'config': …} instead", " below instead"),
)


def rendered(template: str, **content: Any) -> str:
    """A page from its template."""
    return _environment().get_template(template).render(**content)


@lru_cache(maxsize=8)
def asset(name: str) -> bytes:
    """The content of one of the files that the pages load."""
    return files("service.portal").joinpath("static", name).read_bytes()


def form(
    fields: Mapping[str, Any], errors: Iterable[FieldError], snapshot: CatalogSnapshot
) -> dict[str, Any]:
    """What forms need: what was given, what is wrong with it, and what can be chosen."""
    listed = [
        {"name": field_of(error.pointer, fields), "detail": _detail(error, fields)}
        for error in errors
    ]
    return {"fields": fields, "errors": listed, "options": options(snapshot)}


def field_of(pointer: str, fields: Mapping[str, Any]) -> str:
    """The field of a form that an error's place in the request belongs to."""
    parts = [part for part in pointer.split("/") if part]
    if parts[:1] == ["model"]:
        return next((name for name in ("config", "hub") if fields.get(name)), "model")
    if parts == ["parallelism"]:
        return "tensor" if "tensor" in fields else "accelerator_count"
    return parts[-1] if parts else ""


def sources(estimate: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The documents that an estimate rests on, by title."""
    found = {
        source["id"]: source for entry in estimate["provenance"] for source in entry["sources"]
    }
    return sorted(found.values(), key=lambda source: str(source["title"]))


def _detail(error: FieldError, fields: Mapping[str, Any]) -> str:
    """What is wrong, as a reader of the form sees it, with where in a pasted config.json."""
    detail = error.detail
    for said, meant in _PLAINER:
        detail = detail.replace(said, meant)
    # What there is to choose stands in the form.
    detail = re.sub(r" \(known: [^)]*\)", "", detail)
    place = error.pointer.removeprefix("/model/config/")
    if place != error.pointer and fields.get("config") and not detail.startswith(place):
        return f"{place}: {detail}"
    return detail


def _typed(value: Any) -> str:
    """A number as people type it, to the last of its digits."""
    if not isinstance(value, float):
        return str(value)
    if value.is_integer() and abs(value) < _MOST_WRITTEN_OUT:
        return f"{value:.0f}"
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("service.portal"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": number, "gigabytes": gigabytes, "duration": duration}
    made.filters["typed"] = _typed
    # A file under a new name is fetched again, so that the old one may be kept for long.
    made.globals["asset"] = lambda name: f"portal/{name}?v={sha256(asset(name)).hexdigest()[:12]}"
    made.globals["images_missing"] = lambda: (
        "" if is_installed("images") else f"To see charts, {how_to_add(['images'])}."
    )
    return made
