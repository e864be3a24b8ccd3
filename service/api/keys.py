"""API keys of the caller's organisation: made, listed, changed over and revoked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import ConfigDict, Field
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.access.keys import KeyRecord, NewKey, make_key
from service.access.repository import add_key, read_keys, revoke_key, time_of
from service.api.http.bodies import read_request
from service.api.http.contract import (
    KEYED_POST_PROBLEMS,
    KEYED_PROBLEMS,
    NEEDS_KEY,
    Operations,
    body_of,
    path_parameter,
)
from service.api.http.problems import Problem, invalid
from service.api.http.queries import plain_query
from service.api.http.state import RETRY_AFTER_S, caller_with, shared
from service.catalog.database.store import DatabaseUnavailable
from service.catalog.entries.documents import DocumentInvalid, canonical
from service.estimation.answers import Answer
from service.estimation.references import Request
from service.estimation.rejection import FieldError

router = Operations(prefix="/v1/keys", tags=["keys"])

Scope = Literal["catalog:write", "own:write", "keys:write"]
Result = TypeVar("Result")

_SCOPE = "keys:write"
_NOT_KEPT = {"Cache-Control": "no-store"}
_MOST_KEYS = 1_000


class KeyRequest(Request):
    """A key to be made for the caller's organisation."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "build server", "scopes": ["own:write"], "expires_in_days": 90}]
        }
    )

    name: str = Field(min_length=1, max_length=100)
    """Name of the person or system that will use it."""
    scopes: Annotated[list[Scope], Field(max_length=10)] = Field([])
    """What it allows beyond estimates; at most what the caller's own key allows."""
    expires_in_days: float | None = Field(365.0, gt=0, le=3_650)
    """Null for a key that never expires."""


class RotationRequest(Request):
    """A key to be replaced by a new one of the same name and scopes."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"overlap_hours": 24}]})

    overlap_hours: float = Field(24.0, ge=0, le=24 * 90)
    """Hours for which the old key remains valid."""
    expires_in_days: float | None = Field(365.0, gt=0, le=3_650)
    """Expiry of the new key; null if it never expires."""


class ApiKey(Answer):
    """A key, without its secret, which nobody can tell again."""

    id: str
    name: str
    organisation: str
    scopes: list[Scope]
    """What the key may do beyond reading."""
    created_at: str
    created_by: str
    """Who made it: a key, a token's subject, or the command line."""
    expires_at: str | None
    """When it ceases to be valid, by ISO 8601; null if it does not."""
    revoked_at: str | None
    """May be in the future, after a key was replaced."""
    holds: bool
    """Whether it is valid now."""


class NewApiKey(ApiKey):
    """A new key with its text: told this once, and kept nowhere."""

    key: str
    """The secret to send as Authorization: Bearer."""


class ApiKeyPage(Answer):
    """All keys of the organisation, the oldest first."""

    items: list[ApiKey]


def _id_parameter() -> dict[str, Any]:
    return path_parameter(
        "id",
        "Id of a key: its second part, which is not secret.",
        {"type": "string", "minLength": 1, "maxLength": 100},
    )


@router.post(
    "",
    status_code=201,
    operation_id="createApiKey",
    summary="Create a key for your organisation",
    responses={201: {"model": NewApiKey}, **KEYED_POST_PROBLEMS},
    openapi_extra=NEEDS_KEY | body_of(KeyRequest),
)
async def create_key(http: HttpRequest) -> Response:
    """Create a key that allows at most what the caller's key allows; needs the scope keys:write.

    Its text is in this answer and never told again.
    """
    caller = caller_with(http, _SCOPE)
    request = await read_request(http, KeyRequest, shared(http).settings.body_limit_bytes)
    beyond = sorted(set(request.scopes) - caller.scopes)
    if beyond:
        detail = f"your own key does not allow {', '.join(beyond)}"
        raise invalid([FieldError("/scopes", detail)])
    try:
        canonical(request.name)
    except DocumentInvalid as error:
        raise invalid([FieldError("/name", error.detail)]) from None

    async def make(connection: AsyncConnection) -> Response:
        held = await read_keys(connection, caller.organisation)
        if len(held) >= _MOST_KEYS:
            raise Problem("conflict", f"an organisation has at most {_MOST_KEYS} keys")
        key, now = make_key(), await time_of(connection)
        await add_key(
            connection,
            key,
            organisation=caller.organisation,
            name=request.name,
            scopes=request.scopes,
            expires_at=_after_days(now, request.expires_in_days),
            created_by=caller.author,
        )
        return _told(key, await read_keys(connection, caller.organisation), now)

    return await _kept(http, make)


@router.get(
    "",
    operation_id="listApiKeys",
    summary="Keys of your organisation",
    responses={200: {"model": ApiKeyPage}, **KEYED_PROBLEMS},
    openapi_extra=NEEDS_KEY,
)
async def list_keys(http: HttpRequest) -> Response:
    """All keys, including expired and revoked ones, without their secret text."""
    plain_query(http.query_params, {})
    caller = caller_with(http, _SCOPE)

    async def read(connection: AsyncConnection) -> Response:
        found = await read_keys(connection, caller.organisation)
        now = await time_of(connection)
        return _json({"items": [_shown(record, now) for record in found]})

    return await _kept(http, read)


@router.post(
    "/{id}/rotations",
    status_code=201,
    operation_id="createApiKeyRotation",
    summary="Replace a key; the old one remains valid for a while",
    responses={201: {"model": NewApiKey}, **KEYED_POST_PROBLEMS},
    openapi_extra=NEEDS_KEY | body_of(RotationRequest) | {"parameters": [_id_parameter()]},
)
async def rotate_key(http: HttpRequest) -> Response:
    """Replace a key by a new one with the same name and scopes.

    The old one ends after overlap_hours; the text of the new one is in this answer alone.
    """
    caller = caller_with(http, _SCOPE)
    request = await read_request(http, RotationRequest, shared(http).settings.body_limit_bytes)

    async def rotate(connection: AsyncConnection) -> Response:
        old = await _one(connection, http.path_params["id"], caller.organisation)
        now = await time_of(connection)
        if not _holds(old, now):
            raise Problem("conflict", "the key has already expired; create a new one")
        beyond = sorted(old.scopes - caller.scopes)
        if beyond:
            raise Problem("forbidden", f"your own key does not allow {', '.join(beyond)}")
        key = make_key()
        await add_key(
            connection,
            key,
            organisation=old.organisation,
            name=old.name,
            scopes=old.scopes,
            expires_at=_after_days(now, request.expires_in_days),
            created_by=caller.author,
        )
        ends_at = now + timedelta(hours=request.overlap_hours)
        await revoke_key(connection, old.key_id, ends_at, caller.author)
        return _told(key, await read_keys(connection, caller.organisation), now)

    return await _kept(http, rotate)


@router.delete(
    "/{id}",
    status_code=204,
    operation_id="deleteApiKey",
    summary="Revoke a key immediately and permanently",
    responses=KEYED_PROBLEMS,
    openapi_extra=NEEDS_KEY | {"parameters": [_id_parameter()]},
)
async def revoke(http: HttpRequest) -> Response:
    """Revoke a key of the organisation, even the caller's own; this cannot be undone."""
    plain_query(http.query_params, {})
    caller = caller_with(http, _SCOPE)

    async def end(connection: AsyncConnection) -> Response:
        record = await _one(connection, http.path_params["id"], caller.organisation)
        await revoke_key(connection, record.key_id, await time_of(connection), caller.author)
        return Response(status_code=204, headers=_NOT_KEPT)

    return await _kept(http, end)


async def _kept(
    http: HttpRequest, act: Callable[[AsyncConnection], Awaitable[Response]]
) -> Response:
    """Act in a transaction, and know of it in this process before the answer is sent."""
    store = shared(http).store
    try:
        async with store.transaction() as connection:
            response = await act(connection)
    except (DatabaseUnavailable, DBAPIError, TimeoutError):
        detail = "keys are stored in the database, which cannot be reached"
        raise Problem("unavailable", detail, headers={"Retry-After": RETRY_AFTER_S}) from None
    if http.method != "GET":
        await store.refresh()
    return response


async def _one(connection: AsyncConnection, key_id: str, organisation: str) -> KeyRecord:
    for record in await read_keys(connection, organisation):
        if record.key_id == key_id:
            return record
    raise Problem("not-found", "your organisation has no such key")


def _after_days(now: datetime, days: float | None) -> datetime | None:
    return None if days is None else now + timedelta(days=days)


def _holds(record: KeyRecord, now: datetime) -> bool:
    return record.ends_at is None or record.ends_at > now


def _told(key: NewKey, records: list[KeyRecord], now: datetime) -> Response:
    (record,) = (record for record in records if record.key_id == key.key_id)
    return _json(_shown(record, now) | {"key": key.text}, 201)


def _shown(record: KeyRecord, now: datetime) -> dict[str, Any]:
    return {
        "id": record.key_id,
        "name": record.name,
        "organisation": record.organisation,
        "scopes": sorted(record.scopes),
        "created_at": record.created_at.isoformat(),
        "created_by": record.created_by,
        "expires_at": record.expires_at and record.expires_at.isoformat(),
        "revoked_at": record.revoked_at and record.revoked_at.isoformat(),
        "holds": _holds(record, now),
    }


def _json(answer: dict[str, Any], status: int = 200) -> Response:
    return Response(orjson.dumps(answer), status, media_type="application/json", headers=_NOT_KEPT)
