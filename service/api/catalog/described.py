"""What the catalog's own JSON Schemas say of fields, for the shapes of entries in the document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

import orjson
from typing_extensions import is_typeddict

from service.api.catalog.entries import ENTRIES
from service.settings import INSTALLATION

_SCHEMAS = INSTALLATION / "hardware_catalog" / "schema"


@cache
def told_by_catalog() -> Mapping[type, Mapping[str, str]]:
    """Descriptions of the fields of entries and of their parts."""
    told: dict[type, dict[str, str]] = defaultdict(dict)
    for collection, entry in ENTRIES.items():
        schema = orjson.loads((_SCHEMAS / f"{collection}.schema.json").read_bytes())
        _note(entry, _one(schema, schema), schema, told)
    return told


def _note(
    shape: type, stated: Mapping[str, Any], schema: Any, told: dict[type, dict[str, str]]
) -> None:
    for field, type_ in get_type_hints(shape).items():
        part = stated.get("properties", {}).get(field)
        if part is None:
            continue
        if "description" in part:
            told[shape].setdefault(field, part["description"])
        for inner in _shapes(type_):
            _note(inner, _one(part, schema), schema, told)


def _one(part: Any, schema: Any) -> Mapping[str, Any]:
    """What a list holds, or what stands at a reference."""
    while "items" in part or "$ref" in part:
        reference = part.get("$ref")
        part = schema["$defs"][reference.rsplit("/", 1)[-1]] if reference else part["items"]
    found: Mapping[str, Any] = part
    return found


def _shapes(type_: Any) -> Iterator[type]:
    if is_typeddict(type_):
        yield type_
    for part in get_args(type_):
        yield from _shapes(part)
