"""The contract breaks nothing that was released without saying so."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from tests.api.contract.differences import breakages
from tests.api.contract.released import FILE, reduced, released

CHANGELOG = Path(__file__).parents[3] / "CHANGELOG.md"


def since(version: str, changelog: str) -> str:
    """What a changelog says of everything after a release."""
    return changelog.partition(f"\n## {version} ")[0]


def names(text: str, name: str) -> bool:
    """Whether a text has a name as a word of its own."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def test_what_breaks_is_in_the_changelog(app) -> None:
    before = released()
    told = since(before["version"], CHANGELOG.read_text(encoding="utf-8"))
    untold = [
        str(each)
        for each in breakages(before, reduced(app.openapi()))
        if not names(told, each.name)
    ]
    assert not untold, "\n".join(
        [f"breaks clients of {before['version']} and is not in CHANGELOG.md:", *untold]
    )


def test_the_contract_breaks_nothing_of_itself(app) -> None:
    whole = reduced(app.openapi())
    assert breakages(whole, whole) == []
    assert FILE.stat().st_size < 100_000


def test_changelogs_are_read_up_to_the_release() -> None:
    text = "# Changelog\n\n## Unreleased\n- `load` is gone.\n\n## 0.6.0 – 2026\n- `usd` is gone."
    assert names(since("0.6.0", text), "load")
    assert not names(since("0.6.0", text), "usd")
    assert not names(since("0.6.0", text), "oad")


REF = "#/components/schemas/"
DOCUMENT: dict[str, Any] = {
    "info": {"version": "1.0"},
    "paths": {
        "/v1/a": {
            "post": {
                "operationId": "createA",
                "parameters": [
                    {"name": "unit", "in": "query", "schema": {"type": "string", "maxLength": 9}}
                ],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": f"{REF}Asked"}}},
                },
                "responses": {
                    "200": {
                        "description": "Right",
                        "content": {
                            "application/json": {"schema": {"$ref": f"{REF}Told"}},
                            "text/csv": {"schema": {"type": "string"}},
                        },
                    },
                    "422": {"description": "Wrong"},
                },
            }
        },
        "/v1/b": {"get": {"operationId": "getB", "responses": {"204": {"description": "Right"}}}},
    },
    "components": {
        "schemas": {
            "Asked": {
                "type": "object",
                "additionalProperties": False,
                "required": ["model"],
                "properties": {
                    "model": {"anyOf": [{"type": "string"}, {"$ref": f"{REF}Inline"}]},
                    "count": {"type": "integer", "minimum": 1, "description": "How many"},
                    "way": {"type": "string", "enum": ["up", "down"]},
                    "title": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                },
            },
            "Inline": {"type": "object", "properties": {"layers": {"type": "number"}}},
            "Told": {
                "type": "object",
                "required": ["verdict", "parts"],
                "properties": {
                    "verdict": {"type": "string", "enum": ["yes", "no"]},
                    "parts": {"type": "array", "items": {"$ref": f"{REF}Part"}},
                    "note": {"type": "string"},
                },
            },
            "Part": {
                "type": "object",
                "required": ["usd", "of"],
                "properties": {
                    "usd": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                    "of": {"type": "array", "items": {"$ref": f"{REF}Part"}},
                },
            },
        }
    },
}
POST = ("paths", "/v1/a", "post")
ASKED = ("components", "schemas", "Asked")
TOLD = ("components", "schemas", "Told")
PART = ("components", "schemas", "Part")
GONE = object()


def changed(place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The document with another value somewhere, or without it."""
    document = copy.deepcopy(DOCUMENT)
    holder: Any = document
    for part in place[:-1]:
        holder = holder[part]
    if value is GONE:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return document


def found(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each.name, each.what) for each in breakages(reduced(DOCUMENT), reduced(document))]


@pytest.mark.parametrize(
    ("place", "value", "name", "what"),
    [
        (("paths", "/v1/b"), GONE, "/v1/b", "is gone"),
        ((*POST, "operationId"), "makeA", "createA", "is called makeA now"),
        ((*POST, "parameters"), [], "unit", "is gone"),
        ((*POST, "parameters", 0, "required"), True, "unit", "is required now"),
        (
            (*POST, "parameters", 0, "schema", "maxLength"),
            5,
            "unit",
            "maxLength is 5 now, was 9",
        ),
        (
            ("paths", "/v1/b", "get", "requestBody"),
            {"required": True, "content": {}},
            "GET /v1/b",
            "needs a body now",
        ),
        ((*POST, "responses", "200", "content", "text/csv"), GONE, "text/csv", "text/csv is gone"),
        (
            (*POST, "responses"),
            {"201": {"description": "Made"}},
            "POST /v1/a",
            "does not answer 200 any more",
        ),
        ((*ASKED, "properties", "count"), GONE, "count", "is gone"),
        ((*ASKED, "required"), ["model", "count"], "count", "is required now"),
        ((*ASKED, "properties", "count", "minimum"), 2, "count", "minimum is 2 now, was 1"),
        ((*ASKED, "properties", "count", "maximum"), 9, "count", "maximum is 9 now, was none"),
        ((*ASKED, "properties", "count", "type"), "string", "count", "type integer became string"),
        ((*ASKED, "properties", "way", "enum"), ["up"], "down", "the value 'down' is gone"),
        (
            (*ASKED, "properties", "model"),
            {"type": "string"},
            "model",
            "type object became string",
        ),
        (
            (*ASKED, "properties", "title"),
            {"type": "number"},
            "title",
            "type null became number",
        ),
        (
            ("components", "schemas", "Inline", "properties", "layers", "type"),
            "integer",
            "layers",
            "type number became integer",
        ),
        ((*TOLD, "properties", "note"), GONE, "note", "is gone"),
        ((*TOLD, "required"), ["parts"], "verdict", "may be absent now"),
        ((*TOLD, "properties", "verdict", "enum"), ["yes"], "no", "the value 'no' is gone"),
        ((*TOLD, "properties", "verdict"), {"type": "string"}, "verdict", "may have any value now"),
        (
            (*TOLD, "properties", "note", "type"),
            ["string", "null"],
            "note",
            "type string became string or null",
        ),
        (
            (*TOLD, "properties", "note"),
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "note",
            "may be null now",
        ),
        ((*PART, "properties", "usd"), GONE, "usd", "is gone"),
    ],
)
def test_what_breaks_is_found_once(place: Any, value: Any, name: str, what: str) -> None:
    assert found(changed(place, value)) == [(name, what)]


def test_a_new_field_of_a_request_breaks_only_if_it_is_needed() -> None:
    wider = changed((*ASKED, "properties", "load"), {"type": "number"})
    assert found(wider) == []
    wider["components"]["schemas"]["Asked"]["required"].append("load")
    assert found(wider) == [("load", "is new and required")]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("paths", "/v1/c"), {"get": {"operationId": "getC", "responses": {}}}),
        ((*POST, "summary"), "Something"),
        ((*POST, "responses", "200", "content", "application/x-ndjson"), {"schema": {}}),
        ((*ASKED, "required"), []),
        ((*ASKED, "properties", "count", "minimum"), 0),
        ((*ASKED, "properties", "count", "type"), "number"),
        ((*ASKED, "properties", "count", "description"), "How many of them"),
        ((*ASKED, "properties", "way", "enum"), ["up", "down", "left"]),
        ((*ASKED, "properties", "way"), {"type": "string"}),
        ((*TOLD, "properties", "more"), {"type": "number"}),
        ((*TOLD, "required"), ["verdict", "parts", "note"]),
        ((*TOLD, "properties", "verdict", "enum"), ["yes", "no", "perhaps"]),
        ((*TOLD, "properties", "note"), {"type": "string", "enum": ["a"]}),
        ((*PART, "properties", "usd"), {"type": "number"}),
        ((*PART, "properties", "usd"), {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    ],
)
def test_what_is_added_breaks_nothing(place: Any, value: Any) -> None:
    assert found(changed(place, value)) == []
