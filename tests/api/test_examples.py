"""The answers that the OpenAPI document shows are of the shape that it declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

MAKE = "make it with: python -m tests.api.answer_examples"
_OF_THEIR_OWN = ("application/schema+json", "application/x-ndjson")


def answers(document: dict[str, Any]) -> Iterator[str]:
    """Names of the schemas of all JSON answers, problems included."""
    for operations in document["paths"].values():
        for operation in operations.values():
            for response in operation["responses"].values():
                for media_type, content in response.get("content", {}).items():
                    # A JSON Schema describes itself, a line of a stream is a part of an answer.
                    if media_type.endswith("json") and media_type not in _OF_THEIR_OWN:
                        yield content["schema"]["$ref"].rsplit("/", 1)[-1]


async def test_every_answer_has_an_example_of_its_shape(client):
    document = (await client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    named = set(answers(document))
    assert "InferenceAnswer" in named
    assert "ProblemDetails" in named
    for name in sorted(named):
        assert schemas[name].get("examples"), f"{name} has no example; {MAKE}"
        whole = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        for example in schemas[name]["examples"]:
            faults = list(Draft202012Validator(whole).iter_errors(example))
            assert not faults, f"the example of {name} has another shape; {MAKE}"


async def test_shapes_have_names_of_their_own(client):
    document = (await client.get("/openapi.json")).json()
    # Of two classes of one name, the document names both by their modules.
    assert [name for name in document["components"]["schemas"] if "__" in name] == []
