"""Requests out of a tool's arguments: what was not given is left to the service's own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def body(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A request with the fields that were given, each at its dotted place."""
    found: dict[str, Any] = {}
    for place, value in fields.items():
        if value is None:
            continue
        *holders, last = place.split(".")
        target = found
        for holder in holders:
            target = target.setdefault(holder, {})
        target[last] = value
    return found
