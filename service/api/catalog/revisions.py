"""The catalog's history: who changed what, when and why, and the difference of two revisions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Any, Literal

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.caching import confirmed_or, entity_tag
from service.api.http.contract import (
    ITEM_PROBLEMS,
    LIST_PROBLEMS,
    Operations,
    path_parameter,
    query_parameters,
)
from service.api.http.problems import Problem
from service.api.http.queries import plain_query, whole_number
from service.api.http.state import RETRY_AFTER_S, caller, current_snapshot, shared
from service.catalog.database.revisions import (
    Revision,
    RevisionUnknown,
    list_revisions,
    read_revision,
)
from service.catalog.database.store import DatabaseUnavailable
from service.catalog.differences import EntryChange, differences
from service.catalog.entries.documents import CatalogInvalid
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.answers import Answer

router = Operations(prefix="/v1/catalog", tags=["catalog"])

_MOST_ITEMS = 200
_USUAL_ITEMS = 50
#: Entries of a difference that are listed; the counts are of all.
_MOST_CHANGES = 1_000
_MOST_FIELDS = 100
_PAGING: dict[str, dict[str, Any]] = {
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": _MOST_ITEMS,
        "default": _USUAL_ITEMS,
        "description": "Largest number of revisions per page.",
    },
    "cursor": {
        "type": "string",
        "maxLength": 30,
        "description": "next_cursor of the previous page.",
    },
}


class CatalogRevision(Answer):
    """One change of the catalog."""

    revision: int
    """Its number, counted from 1."""
    created_at: str
    author: str
    reason: str
    """Why, as its author put it."""
    content_hash: str
    """SHA-256 of the whole catalog after this revision."""
    from_package: bool
    """Whether it is the catalog that came with the release, unchanged."""
    entry_count: int
    """Entries of the whole catalog after it."""
    own: bool
    """Whether it changed your organisation's own entries; if so, count and hash are of these."""


class CatalogRevisionPage(Answer):
    """Changes of the catalog, the newest first."""

    items: list[CatalogRevision]
    next_cursor: str | None
    """Null on the last page."""


class ChangedField(Answer):
    """A part of an entry, before and after."""

    pointer: str
    """JSON pointer into the entry."""
    before: Any
    """What stood there; null if there was nothing."""
    after: Any
    """What stands there; null if there is nothing."""
    missing: Literal["before", "after"] | None
    """Absent where there was no such part."""


class ChangedEntry(Answer):
    """An entry that came, went or changed."""

    collection: str
    id: str
    change: Literal["added", "removed", "changed"]
    """What became of it."""
    fields: list[ChangedField]
    more_fields: int
    """Number of changed parts that are not listed."""


class CatalogDifference(Answer):
    """What changed from one revision to another."""

    older: int
    """The revision that is compared with."""
    newer: int
    """The revision that is compared."""
    added: int
    removed: int
    changed: int
    items: list[ChangedEntry]
    more_items: int
    """Number of changed entries that are not listed."""


@router.get(
    "/revisions",
    operation_id="listCatalogRevisions",
    summary="Revisions of the catalog, newest first",
    responses={200: {"model": CatalogRevisionPage}, **LIST_PROBLEMS},
    openapi_extra={"parameters": query_parameters(_PAGING)},
)
async def list_(http: HttpRequest) -> Response:
    """One page of revisions of the shared catalog.

    With an API key, also those of its organisation's own entries.
    """
    given = plain_query(http.query_params, _PAGING)
    limit = whole_number(given, "limit", 1, _MOST_ITEMS) or _USUAL_ITEMS
    before = whole_number(given, "cursor", 1, 2**62)
    store = shared(http).store
    try:
        async with store.transaction() as connection:
            found = await list_revisions(connection, before, limit + 1, _organisation(http))
    except DatabaseUnavailable as error:
        raise _unavailable(error) from None
    items, more = found[:limit], len(found) > limit
    body = {
        "items": [_shown(revision) for revision in items],
        "next_cursor": str(items[-1].revision) if more else None,
    }
    return Response(
        orjson.dumps(body), media_type="application/json", headers={"Cache-Control": "no-store"}
    )


def _number(name: str, which: str) -> dict[str, Any]:
    return path_parameter(name, which, {"type": "integer", "minimum": 1})


@router.get(
    "/revisions/{older}...{newer}",
    operation_id="getCatalogDifference",
    summary="What changed from one revision of the catalog to another",
    responses={200: {"model": CatalogDifference}, **ITEM_PROBLEMS},
    openapi_extra={
        "parameters": [
            _number("older", "Revision to start from."),
            _number("newer", "Revision to compare with; may be the older one."),
        ]
    },
)
async def difference(http: HttpRequest) -> Response:
    """Counts of entries that differ, and the first thousand with their changed fields."""
    plain_query(http.query_params, {})
    numbers = [_revision(http.path_params[name]) for name in ("older", "newer")]
    older, newer = [await _snapshot(http, number) for number in numbers]
    tag = entity_tag(newer, "difference", older.content_hash, newer.content_hash)
    body = await asyncio.to_thread(_difference, older, newer)
    return confirmed_or(http, tag, lambda: Response(body, media_type="application/json"))


@router.get(
    "/revisions/{revision}",
    operation_id="getCatalogRevision",
    summary="One change of the catalog: who made it, when and why",
    responses={200: {"model": CatalogRevision}, **ITEM_PROBLEMS},
    openapi_extra={"parameters": [_number("revision", "Number of the revision.")]},
)
async def item(http: HttpRequest) -> Response:
    """One revision, with the number of entries of the catalog after it and their hash."""
    plain_query(http.query_params, {})
    number = _revision(http.path_params["revision"])
    store = shared(http).store
    try:
        async with store.transaction() as connection:
            found = await read_revision(connection, number, _organisation(http))
    except RevisionUnknown:
        raise _unknown(number, (await current_snapshot(http)).revision) from None
    except DatabaseUnavailable as error:
        raise _unavailable(error) from None
    body = orjson.dumps(_shown(found))
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})


async def _snapshot(http: HttpRequest, number: int) -> CatalogSnapshot:
    store = shared(http).store
    try:
        return await store.snapshot_at(number, _organisation(http))
    except RevisionUnknown:
        raise _unknown(number, (await current_snapshot(http)).revision) from None
    except CatalogInvalid:
        raise Problem("not-found", f"this release cannot read revision {number}") from None
    except DatabaseUnavailable as error:
        raise _unavailable(error) from None


def _organisation(http: HttpRequest) -> str | None:
    known = caller(http)
    return None if known is None else known.organisation


def _revision(text: str) -> int:
    """The number of a revision; 0, which there never is, for what is no number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _unknown(number: int, newest: int) -> Problem:
    return Problem("not-found", f"no revision {number}; the newest is {newest}")


def _unavailable(error: Exception) -> Problem:
    return Problem(
        "unavailable",
        f"the catalog's history is in the database, which cannot be reached: {error}",
        headers={"Retry-After": RETRY_AFTER_S},
    )


def _shown(revision: Revision) -> dict[str, Any]:
    return {
        "revision": revision.revision,
        "created_at": revision.created_at.isoformat(),
        "author": revision.author,
        "reason": revision.reason,
        "content_hash": revision.content_hash,
        "from_package": revision.package_hash is not None,
        "entry_count": revision.entry_count,
        "own": revision.organisation is not None,
    }


def changes_answer(changes: Iterable[EntryChange]) -> dict[str, Any]:
    """Counts of what differs, and the first of it."""
    counts = {"added": 0, "removed": 0, "changed": 0}
    listed: list[dict[str, Any]] = []
    for change in changes:
        counts[change.change] += 1
        if len(listed) < _MOST_CHANGES:
            listed.append(_entry(change))
    return {**counts, "items": listed, "more_items": sum(counts.values()) - len(listed)}


def _difference(older: CatalogSnapshot, newer: CatalogSnapshot) -> bytes:
    body = {
        "older": older.revision,
        "newer": newer.revision,
        **changes_answer(differences(older.documents(), newer.documents())),
    }
    return orjson.dumps(body)


def _entry(change: EntryChange) -> dict[str, Any]:
    return {
        "collection": change.collection,
        "id": change.entry_id,
        "change": change.change,
        "fields": [
            {
                "pointer": field.pointer,
                "before": field.before,
                "after": field.after,
                "missing": field.missing,
            }
            for field in islice(change.fields, _MOST_FIELDS)
        ],
        "more_fields": max(len(change.fields) - _MOST_FIELDS, 0),
    }
