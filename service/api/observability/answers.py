"""Answers about the process itself."""

from __future__ import annotations

from typing import Literal

from service.estimation.answers import Answer


class Liveness(Answer):
    """The process answers."""

    status: Literal["alive"]
    """Always alive: a process that is not does not answer."""


class Readiness(Answer):
    """Whether estimates can be answered, and from what."""

    status: Literal["ready", "degraded"]
    """Whether all is in reach, or answers rest on what is in memory."""
    catalog_revision: int
    catalog_source: Literal["postgres", "packaged files"]
    """Where the catalog comes from."""
    database_reachable: bool
    """Whether the database answered when it was last asked."""
    confirmed_s_ago: float | None
    """Time since the database last confirmed the catalog."""
    problem: str | None
    """Reason for being degraded; null when ready."""
    engine_version: str
    extras: dict[str, bool]
    """Whether each part is installed that a service can be without."""
