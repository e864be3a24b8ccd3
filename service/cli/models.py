"""What ``--model`` means: an id, a model of the Hub, or files on this machine."""

from __future__ import annotations

from typing import Any


def model_reference(given: str) -> str | dict[str, Any]:
    """The model as a request refers to it."""
    return given
