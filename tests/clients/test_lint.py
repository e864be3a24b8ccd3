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


def is_described(told: dict[str, Any], schemas: dict[str, Any]) -> bool:
    """Whether a field says what it means, or the one kind of object that it holds does."""
    if "description" in told:
        return True
    kinds = [one for one in told.get("anyOf", [told.get("items", told)]) if one != {"type": "null"}]
    names = [one["$ref"].rsplit("/", 1)[-1] for one in kinds if "$ref" in one]
    return len(kinds) == 1 and any("description" in schemas[name] for name in names)


def test_the_document_is_clean(document: dict[str, Any], tmp_path: Path) -> None:
    assert not faults(document, tmp_path)


def test_every_field_is_described(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    bare = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, told in schema.get("properties", {}).items()
        if not is_described(told, schemas)
    ]
    assert len(schemas) > 400
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
