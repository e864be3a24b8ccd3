"""`Idempotency-Key`: what is sent twice under one key is kept once."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request as HttpRequest

from service.api.http.problems import invalid
from service.estimation.rejection import FieldError

_LONGEST_KEY = 200


def key_parameter(description: str) -> dict[str, Any]:
    """The declaration of the header."""
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "schema": {"type": "string", "minLength": 1, "maxLength": _LONGEST_KEY},
        "description": description,
    }


def idempotency_key(http: HttpRequest) -> str | None:
    """The key that a request carries, if it does.

    Raises
    ------
    Problem
        If it is no decent key (422).
    """
    key = http.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= _LONGEST_KEY and key.isprintable()):
        raise invalid(
            [FieldError("", f"Idempotency-Key must be 1 to {_LONGEST_KEY} printable characters")]
        )
    return key
