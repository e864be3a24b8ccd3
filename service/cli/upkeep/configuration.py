"""``headroom settings``: the reference of all settings, made from their definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, get_args, get_origin

import typer
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from service.cli.upkeep.checkout import checkout
from service.descriptions import descriptions
from service.settings import Settings, variable_of

_HEAD = """\
<!-- Written by `./headroom settings --write-docs`; do not edit by hand. -->

# Configuration

Every setting is an environment variable, read when a process starts. A value out of bounds keeps
the service from starting. Options of `./headroom serve` win over `HEADROOM_HOST`,
`HEADROOM_PORT` and `HEADROOM_WORKERS`. `.env.example` is the same list as a file to copy.

| variable | default | bounds | what it is |
| --- | --- | --- | --- |
"""
#: Defaults that depend on who runs the service where, as they are told to people.
_PLACES = {
    "data_directory": "`~/.local/share/headroom`; for root `/var/lib/headroom`",
    "catalog_directory": "`hardware_catalog`, as installed",
    "hub_cache_directory": "`~/.cache/headroom/hub`",
}
_SIGNS = {Ge: "≥", Gt: ">", Le: "≤", Lt: "<"}


def settings(
    write_docs: Annotated[bool, typer.Option(help="Write docs/configuration.md.")] = False,
) -> None:
    """Print the reference of all settings, as Markdown."""
    text = settings_document()
    if write_docs:
        (checkout() / "docs" / "configuration.md").write_text(text, encoding="utf-8")
    else:
        print(text, end="")


def settings_document() -> str:
    """The page about all settings, in the order of their definition."""
    return _HEAD + "".join(_rows())


def _rows() -> Iterator[str]:
    described = descriptions(Settings)
    for name, field in Settings.model_fields.items():
        cells = (f"`{variable_of(name)}`", _default(name, field), _bounds(field), described[name])
        yield f"| {' | '.join(cells)} |\n"


def _default(name: str, field: FieldInfo) -> str:
    if name in _PLACES:
        return _PLACES[name]
    value = field.default
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{value}`"


def _bounds(field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(field.annotation))
    limits = []
    for limit in field.metadata:
        for kind, sign in _SIGNS.items():
            if isinstance(limit, kind):
                limits.append(f"{sign} {getattr(limit, kind.__name__.lower())}")
    return ", ".join(limits) or "–"
