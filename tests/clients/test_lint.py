"""The OpenAPI document obeys the rules of ``tests/clients/redocly.yaml``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.api.app import create_app
from service.settings import Settings
from tests.node.needs import PACKAGES, node

RULES = Path(__file__).parent / "redocly.yaml"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(Settings(embedded_database=False, log_level="error")).openapi()


def faults(document: dict[str, Any], folder: Path) -> list[str]:
    """What the linter finds, errors and warnings."""
    file = folder / "openapi.json"
    file.write_text(json.dumps(document))
    told = node(
        *(str(PACKAGES / "@redocly" / "cli" / "bin" / "cli.js"), "lint", str(file)),
        *("--config", str(RULES), "--format", "json", "--max-problems", "1000"),
        REDOCLY_TELEMETRY="off",
        REDOCLY_SUPPRESS_UPDATE_NOTICE="true",
    ).stdout
    answer, _ = json.JSONDecoder().raw_decode(told[told.index("{") :])
    return [
        f"{one['ruleId']}: {one['message']} {[place['pointer'] for place in one['location']]}"
        for one in answer["problems"]
    ]


def direct(schema: dict[str, Any]) -> list[str]:
    """The name of the schema that stands in the place of this one, if one does."""
    return [schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else []


def named(part: Any) -> set[str]:
    """Names of all schemas that a part of the document refers to."""
    if isinstance(part, list):
        return {name for one in part for name in named(one)}
    if not isinstance(part, dict):
        return set()
    return {name for one in part.values() for name in named(one)} | set(direct(part))


def test_the_document_is_clean(document: dict[str, Any], tmp_path: Path) -> None:
    assert not faults(document, tmp_path)


def test_every_field_of_a_request_is_described(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    bodies = [
        operation.get("requestBody", {})
        for operations in document["paths"].values()
        for operation in operations.values()
    ]
    waiting, seen = {name for body in bodies for name in named(body)}, set()
    while waiting:
        seen |= waiting
        waiting = {other for name in waiting for other in named(schemas[name])} - seen
    bare = [
        f"{name}.{field}"
        for name in sorted(seen)
        for field, told in schemas[name].get("properties", {}).items()
        if not any("description" in one for one in (told, *(schemas[n] for n in direct(told))))
    ]
    assert seen
    assert not bare


def test_faults_would_be_found(document: dict[str, Any], tmp_path: Path) -> None:
    broken = json.loads(json.dumps(document))
    operation = broken["paths"]["/v1/estimates/inference"]["post"]
    del operation["summary"]
    del operation["description"]
    del broken["paths"]["/v1/projections"]["get"]["parameters"][0]["description"]
    operation["operationId"] = "createTrainingEstimate"
    operation["responses"] = {"200": operation["responses"]["200"]}
    content = operation["requestBody"]["content"]["application/json"]
    content["examples"]["example-1"]["value"]["accelerator_count"] = "eight"
    found = {fault.partition(":")[0] for fault in faults(broken, tmp_path)}
    assert found == {
        "operation-summary",
        "operation-description",
        "parameter-description",
        "operation-operationId-unique",
        "no-invalid-media-type-examples",
        "rule/refusals-are-stated",
    }
