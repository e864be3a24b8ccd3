"""The contract of the last release, reduced to its shapes.

``python -m tests.api.contract.released`` keeps that of the checkout; run it when one is tagged.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("released.json.gz")
#: Words for people, and what follows from the rest.
_WORDS = ("description", "summary", "examples", "example", "title", "default", "discriminator")
_KEPT = ("operationId", "parameters", "requestBody", "responses")


def reduced(document: dict[str, Any]) -> dict[str, Any]:
    """What of an OpenAPI document programs depend on."""
    return {
        "version": document["info"]["version"],
        "paths": {
            path: {
                method: {key: _shapes(operation[key]) for key in _KEPT if key in operation}
                for method, operation in item.items()
            }
            for path, item in document["paths"].items()
        },
        "schemas": {
            name: _shapes(schema) for name, schema in document["components"]["schemas"].items()
        },
    }


def _shapes(part: Any) -> Any:
    if isinstance(part, list):
        return [_shapes(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        # Names of fields are names, whatever they are called.
        name: {field: _shapes(shape) for field, shape in value.items()}
        if name == "properties"
        else _shapes(value)
        for name, value in part.items()
        if name not in _WORDS
    }


def released() -> dict[str, Any]:
    """The contract of the last release."""
    read: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
    return read


def keep(document: dict[str, Any]) -> None:
    """Keep a contract as the released one."""
    text = json.dumps(reduced(document), separators=(",", ":"), sort_keys=True)
    FILE.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    from service.api.app import create_app
    from service.settings import Settings

    keep(create_app(Settings(embedded_database=False, log_level="error")).openapi())
