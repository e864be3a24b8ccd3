"""The API reference as pages made from the OpenAPI document: operations and their shapes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from service.portal.rendering import rendered

Schema = Mapping[str, Any]

_REFERENCE = "#/components/schemas/"
#: Limits of a schema, as they are said after its type.
_LIMITS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("pattern", "like {}"),
)
#: Limits of how much there may be: the least, the most, and of what.
_COUNTS = (("minLength", "maxLength", "characters"), ("minItems", "maxItems", "items"))
#: The largest whole number that every reader of JSON holds exactly.
_MOST_EXACT = 2**53
_TYPES = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "object": "object",
    "array": "list",
}
#: Values of an enumeration that are listed.
_MOST_VALUES = 40
_TRAIL = (("docs", "API reference"),)


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the words about a type: plain, or the name of a shape with a page of its own."""

    text: str
    shape: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a field of a body: its name, what it takes, and what it means."""

    name: str
    place: str
    required: bool
    takes: tuple[Part, ...]
    default: str
    meaning: str


def reference_page(contract: Mapping[str, Any]) -> str:
    """All operations, by subject.

    Parameters
    ----------
    contract
        The OpenAPI document.
    """
    by_tag: dict[str, list[tuple[str, str, str, str]]] = defaultdict(list)
    for method, path, operation in _operations(contract):
        line = (method, path, operation["summary"], operation["operationId"])
        by_tag[operation["tags"][0]].append(line)
    told = {tag["name"]: tag.get("description", "") for tag in contract.get("tags", ())}
    return rendered(
        "reference.html",
        here="API",
        title="API reference",
        trail=(),
        told=contract["info"]["description"].strip().split("\n\n"),
        subjects=[(tag, told.get(tag, ""), lines) for tag, lines in by_tag.items()],
    )


def operation_page(contract: Mapping[str, Any], name: str) -> str:
    """One operation: what it is asked, what it answers, and how to try it.

    Raises
    ------
    KeyError
        If there is no operation of that id.
    """
    method, path, operation = next(
        (found for found in _operations(contract) if found[2]["operationId"] == name),
        ("", "", None),
    )
    if operation is None:
        raise KeyError(name)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    example = next((one["value"] for one in body.get("examples", {}).values()), None)
    shapes = contract["components"]["schemas"]
    return rendered(
        "operation.html",
        up="../../",
        here="API",
        title=operation["summary"],
        trail=_TRAIL,
        method=method,
        path=path,
        told=operation.get("description", ""),
        parameters=[_parameter(one) for one in operation.get("parameters", ())],
        body=_takes(body["schema"]) if body else (),
        body_fields=list(_fields(_resolved(body["schema"], shapes))) if body else [],
        answers=[
            (status, one["description"], list(_answer_types(one)))
            for status, one in operation["responses"].items()
        ],
        example=None if example is None else _curl(path, example),
    )


def shape_page(contract: Mapping[str, Any], name: str) -> str:
    """A shape that bodies or answers have.

    Raises
    ------
    KeyError
        If there is no shape of that name.
    """
    schema = contract["components"]["schemas"][name]
    return rendered(
        "shape.html",
        up="../../",
        here="API",
        title=name,
        trail=_TRAIL,
        told=schema.get("description", ""),
        takes_parts=() if "properties" in schema else _takes(schema),
        fields=list(_fields(schema)),
    )


def _operations(contract: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, operations in contract["paths"].items():
        for method, operation in operations.items():
            yield method.upper(), path, operation


def _answer_types(answer: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Part, ...]]]:
    """Media types of an answer, each with its shape."""
    for media_type, content in answer.get("content", {}).items():
        yield media_type, _takes(content.get("schema", {}))


def _parameter(given: Mapping[str, Any]) -> Field:
    schema = given.get("schema", {})
    return Field(
        given["name"],
        given["in"],
        bool(given.get("required")),
        _takes(schema),
        _default(schema),
        given.get("description", ""),
    )


def _fields(schema: Schema) -> Iterator[Field]:
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        yield Field(
            name, "", name in required, _takes(one), _default(one), one.get("description", "")
        )


def _resolved(schema: Schema, shapes: Mapping[str, Schema]) -> Schema:
    name = schema.get("$ref", "").removeprefix(_REFERENCE)
    return shapes[name] if name else schema


def _default(schema: Schema) -> str:
    default = schema.get("x-default", schema.get("default"))
    return "" if default is None or isinstance(default, Mapping) else _written(default)


def _takes(schema: Schema) -> tuple[Part, ...]:
    """A type in words, with its limits."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        return (Part(name, name),)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return _joined([_takes(one) for one in schema[several]])
    if "const" in schema:
        return (Part(_written(schema["const"])),)
    if "enum" in schema:
        values = schema["enum"]
        more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
        return (Part(", ".join(map(_written, values[:_MOST_VALUES])) + more),)
    kinds = schema.get("type", "anything")
    word = _TYPES.get(kinds, "anything") if isinstance(kinds, str) else "anything"
    inner: tuple[Part, ...] = ()
    if "items" in schema:
        inner = (Part(" of "), *_takes(schema["items"]))
    elif isinstance(schema.get("additionalProperties"), Mapping):
        inner = (Part(" by name, each "), *_takes(schema["additionalProperties"]))
    limits = list(_limits(schema))
    return (Part(word), *inner, *((Part(f", {', '.join(limits)}"),) if limits else ()))


def _joined(types: list[tuple[Part, ...]]) -> tuple[Part, ...]:
    found: list[Part] = []
    for parts in types:
        if found:
            found.append(Part(" or "))
        found += parts
    return tuple(found)


def _limits(schema: Schema) -> Iterator[str]:
    """The limits of a type, in words; the largest number that JSON can hold is none."""
    for limit, said in _LIMITS:
        if limit in schema and schema[limit] != _MOST_EXACT:
            yield said.format(_bound(schema[limit]))
    for least, most, what in _COUNTS:
        low, high = schema.get(least), schema.get(most)
        if low is not None and high is not None:
            yield f"{_bound(low)} to {_bound(high)} {what}"
        elif low is not None:
            yield f"at least {_bound(low)} {what}"
        elif high is not None:
            yield f"at most {_bound(high)} {what}"


def _bound(value: object) -> str:
    """A limit as people write it."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _MOST_EXACT:
        value = int(value)
    return f"{value:,}" if isinstance(value, int) else _written(value)


def _written(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _curl(path: str, example: object) -> str:
    """A command that sends an example, for a shell."""
    body = orjson.dumps(example, option=orjson.OPT_INDENT_2).decode().replace("'", "'\\''")
    return (
        f'curl -X POST "$HEADROOM{quote(path, safe="/{}")}" \\\n'
        f"  -H 'Content-Type: application/json' \\\n  -d '{body}'"
    )
