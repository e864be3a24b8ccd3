"""Answers about the process itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from service.estimation.answers import Answer


class Liveness(Answer):
    """The process answers."""

    status: Literal["alive"]


class Readiness(Answer):
    """Whether estimates can be answered, and from what."""

    status: Literal["ready", "degraded"]
    catalog_revision: int
    catalog_source: Annotated[str, Field(description="Where the catalog comes from.")]
    database_reachable: bool
    confirmed_s_ago: Annotated[
        float | None, Field(description="Time since the database last confirmed the catalog.")
    ]
    problem: Annotated[str | None, Field(description="Reason for being degraded; null when ready.")]
    engine_version: str
    extras: Annotated[
        dict[str, bool],
        Field(description="Whether each part is installed that a service can be without."),
    ]
