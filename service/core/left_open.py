"""Choices that a request leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """A choice that nobody has told, with what else people make of it.

    ``names`` are the settings of a request that would tell it; each of ``others`` holds values by
    fields of the core's settings. In training it is open where ``methods`` and ``zero_stages`` hold
    those of the run; any do if there are none.
    """

    names: tuple[str, ...]
    others: tuple[tuple[tuple[str, Any], ...], ...]
    methods: frozenset[str] = frozenset()
    zero_stages: frozenset[int] = frozenset()
