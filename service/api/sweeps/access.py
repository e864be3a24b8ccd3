"""Sweeps as the routes find and show them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.requests import Request as HttpRequest

from service.api.http.contract import path_parameter
from service.api.http.problems import Problem
from service.api.http.state import caller, shared
from service.catalog.database.store import DatabaseUnavailable
from service.estimation.sweeps.kinds import kind_of
from service.estimation.sweeps.training_requests import TrainingSweepRequest
from service.jobs import repository

Read = TypeVar("Read")

NOT_KEPT = {"Cache-Control": "no-store"}
_RETRY_AFTER_S = "5"

ID_PARAMETER = path_parameter(
    "id",
    "Id of the sweep, as returned when it was created. Anyone who knows it may read the sweep, "
    "unless it was created with a key; then only the key's organisation may.",
    {"type": "string", "format": "uuid"},
)


async def found(http: HttpRequest, id_: str) -> dict[str, Any]:
    """A sweep that is there.

    Raises
    ------
    Problem
        If there is none (404), if it was deleted (410), if the database is away (503).
    """
    try:
        known = UUID(id_)
    except ValueError:
        raise Problem("not-found", "no such sweep") from None
    kept = await in_transaction(http, lambda connection: repository.one(connection, known))
    known_to = caller(http)
    theirs = None if known_to is None else known_to.organisation
    if kept is None or kept["organisation"] not in (None, theirs):
        raise Problem("not-found", "no such sweep")
    if kept["status"] == "deleted":
        raise Problem("gone", "the sweep was deleted")
    return kept


async def in_transaction(
    http: HttpRequest, act: Callable[[AsyncConnection], Awaitable[Read]]
) -> Read:
    """Do something on the database.

    Raises
    ------
    Problem
        If it cannot be reached (503).
    """
    try:
        async with shared(http).store.transaction() as connection:
            return await act(connection)
    except DatabaseUnavailable as error:
        raise unavailable(str(error)) from None


def unavailable(why: str) -> Problem:
    """The problem of a database that is away."""
    return Problem(
        "unavailable",
        f"sweeps are stored in the database, which cannot be reached: {why}",
        headers={"Retry-After": _RETRY_AFTER_S},
    )


async def answered(http: HttpRequest, kept: dict[str, Any]) -> dict[str, Any]:
    """A sweep that was found, as answers show it."""
    excluded = await in_transaction(
        http, lambda connection: repository.excluded(connection, kept["id"])
    )
    return shown_sweep(kept, excluded, shared(http).settings.sweep_keep_days)


def results_path(kept: Mapping[str, Any]) -> str:
    """Where the rows of a sweep are."""
    of_training = kind_of(orjson.loads(kept["request"])) is TrainingSweepRequest
    return f"/v1/sweeps/{'training/' if of_training else ''}{kept['id']}/results"


def shown_sweep(
    kept: dict[str, Any], excluded: list[dict[str, Any]], keep_days: float
) -> dict[str, Any]:
    """A sweep as answers show it."""
    request = orjson.loads(kept["request"])
    expires = (
        kept["finished_at"] + timedelta(days=keep_days) if kept["status"] == "succeeded" else None
    )
    path = f"/v1/sweeps/{kept['id']}"
    return {
        "id": str(kept["id"]),
        "name": request.get("name"),
        "status": kept["status"],
        "problem": kept["problem"],
        **{
            name: None if at is None else at.isoformat()
            for name, at in (
                *((one, kept[one]) for one in ("created_at", "started_at", "finished_at")),
                ("expires_at", expires),
            )
        },
        "catalog_revision": kept["catalog_revision"],
        "engine_version": kept["engine_version"],
        "progress": {
            "chunks": kept["chunk_count"],
            "chunks_done": kept["chunks_done"],
            "configurations": kept["configuration_count"],
            "configurations_done": kept["configurations_done"],
            "done_ratio": kept["configurations_done"] / kept["configuration_count"],
            "rows": kept["rows"],
        },
        "excluded": excluded,
        "request": request,
        "events_path": f"{path}/events",
        "results_path": results_path(kept),
    }
