"""Holds answers against the types that the OpenAPI document is made from."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter


def validated(answer: type[Any], body: Any) -> Any:
    """The body of an answer, once it is known to be of the declared type."""
    return TypeAdapter(answer).validate_python(body, strict=True)
