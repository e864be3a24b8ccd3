"""What all writes to the catalog share: what they are based on, and how they end."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError
from starlette.requests import Request as HttpRequest

from service.access.keys import Caller
from service.api.http.caching import hash_in_tag
from service.api.http.problems import Problem, invalid
from service.api.http.state import RETRY_AFTER_S, caller_with, shared
from service.catalog.database.importer import (
    Applied,
    Change,
    EntryConflict,
    RevisionConflict,
    apply_change,
)
from service.catalog.database.store import DatabaseUnavailable
from service.catalog.entries.checks import Schemas
from service.catalog.entries.documents import DocumentInvalid, canonical
from service.catalog.files import read_schemas
from service.estimation.rejection import FieldError

SHARED_SCOPE = "catalog:write"
OWN_SCOPE = "own:write"

#: The header that names the revision that a write made; left out where it changed nothing.
REVISION_HEADER = "X-Catalog-Revision"

_LONGEST_REASON = 500
REASON: dict[str, Any] = {
    "type": "string",
    "minLength": 3,
    "maxLength": _LONGEST_REASON,
    "description": "Reason, for the audit trail.",
}


@lru_cache(maxsize=4)
def schemas(directory: Path) -> Schemas:
    """The schemas of the packaged catalog, which hold for every write."""
    return read_schemas(directory)


def schemas_of(http: HttpRequest) -> Schemas:
    """The schemas that the application holds writes to."""
    return schemas(shared(http).settings.catalog_directory)


def writer(http: HttpRequest, *, own: bool) -> Caller:
    """Who writes, to the shared catalog or to their organisation's own entries.

    Raises
    ------
    Problem
        If their key does not allow it (401, 403).
    """
    return caller_with(http, OWN_SCOPE if own else SHARED_SCOPE)


def reason_of(given: str | None) -> str:
    """Why something is changed.

    Raises
    ------
    Problem
        If it is missing or cannot be kept (422).
    """
    text = (given or "").strip()
    fault = None
    if not 3 <= len(text) <= _LONGEST_REASON:
        fault = f"give a reason of 3 to {_LONGEST_REASON} characters"
    else:
        try:
            canonical(text)
        except DocumentInvalid as error:
            fault = error.detail
    if fault is not None:
        raise invalid([FieldError("/reason", fault)])
    return text


def hash_based_on(http: HttpRequest) -> str | None:
    """Hash of the document that a write is based on, None for one that is to be new.

    Raises
    ------
    Problem
        If the request does not say (428), or says both (422).
    """
    match, none_match = http.headers.get("if-match"), http.headers.get("if-none-match")
    if match is not None and none_match is not None:
        raise invalid([FieldError("", "send either If-Match or If-None-Match")])
    if match is not None:
        return hash_in_tag(match)
    if none_match is None:
        detail = "send If-Match with the entry's ETag, or If-None-Match: * for a new one"
        raise Problem("precondition-required", detail)
    if none_match.strip() != "*":
        raise invalid([FieldError("", "If-None-Match can only be * here")])
    return None


async def write(http: HttpRequest, change: Change, *, dry_run: bool = False) -> Applied:
    """Make a change, and take it over in this process before the answer is sent.

    Raises
    ------
    CatalogInvalid
        If the catalog would not be sound with it.
    Problem
        If it is based on something else than there is (409, 412) or the database is away (503).
    """
    store = shared(http).store
    try:
        async with store.transaction() as connection:
            applied = await apply_change(connection, change, schemas_of(http), dry_run=dry_run)
    except RevisionConflict as conflict:
        raise Problem("conflict", f"{conflict}; check what has changed since") from None
    except EntryConflict as conflict:
        held = "it does not exist" if conflict.held is None else "it has changed since"
        where = f"{conflict.collection} {conflict.entry_id}"
        raise Problem("precondition-failed", f"{where}: {held}") from None
    except (DatabaseUnavailable, DBAPIError, TimeoutError) as error:
        raise Problem(
            "unavailable",
            "the database, to which the catalog is written, cannot be reached"
            if isinstance(error, DatabaseUnavailable)
            else "the database did not store the change in time",
            headers={"Retry-After": RETRY_AFTER_S},
        ) from None
    if applied.revision is not None:
        await store.refresh()
    return applied
