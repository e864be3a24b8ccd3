"""Bringing files into the catalog: all of a file or nothing, and a dry run to see the effect."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from pydantic import ConfigDict, Field, JsonValue
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.catalog.revisions import ChangedEntry, changes_answer
from service.api.catalog.writing import REASON, reason_of, schemas_of, write, writer
from service.api.http.bodies import content_kind, read_body
from service.api.http.contract import (
    KEYED_POST_PROBLEMS,
    NEEDS_KEY,
    Operations,
    body_of,
    query_parameters,
)
from service.api.http.problems import Problem, invalid
from service.api.http.queries import plain_query, whole_number
from service.api.http.state import current_snapshot, shared
from service.catalog.database.importer import Change
from service.catalog.entries.documents import COLLECTIONS, CatalogInvalid
from service.catalog.exchange.reading import FileInvalid, Form, read_catalog_file
from service.catalog.exchange.writing import catalog_file
from service.estimation.answers import Answer
from service.estimation.references import Request
from service.estimation.rejection import FieldError

router = Operations(prefix="/v1/catalog", tags=["catalog"])

#: A file is put right in an editor, with all of its errors at hand.
_MOST_ERRORS = 10_000
_FORMS: dict[str, Form] = {
    "application/json": "json",
    "application/yaml": "yaml",
    "application/x-yaml": "yaml",
    "text/yaml": "yaml",
    "text/csv": "csv",
}
_YES_NO = {"type": "string", "enum": ["true", "false"], "default": "false"}
_QUERY: dict[str, dict[str, Any]] = {
    "reason": REASON,
    "collection": {
        "type": "string",
        "enum": list(COLLECTIONS),
        "description": "Collection of the entries of a list or a table.",
    },
    "own": _YES_NO | {"description": "Whether to import them as your organisation's own entries."},
    "dry_run": _YES_NO | {"description": "Only report what would change."},
    "expected_revision": {
        "type": "integer",
        "minimum": 0,
        "description": "Refuse (409) if the catalog has changed since this revision.",
    },
}
_SOURCE = {
    "id": "own/quote-2026-11",
    "title": "Quote 4711",
    "publisher": "Acme",
    "year": 2026,
    "url": "https://example.org/4711",
    "licence": "confidential",
    "retrieved": "2026-11-20",
    "kind": "primary",
}
_FILE: Any = {"sources": [_SOURCE], "remove": {"sources": ["own/quote-2025-02"]}}


class CatalogImport(Answer):
    """What a file changed, or would change."""

    dry_run: bool
    revision: int | None
    """The new revision; null after a dry run and if nothing changed."""
    catalog_revision: int
    """The newest revision."""
    added: int
    removed: int
    changed: int
    items: list[ChangedEntry]
    more_items: int
    """Number of changed entries that are not listed."""


class CatalogFileContent(Request):
    """Entries by collection, as they stand in the catalog; and ids of those to be removed."""

    model_config = ConfigDict(json_schema_extra={"examples": [_FILE]})

    accelerators: list[dict[str, JsonValue]] = Field([])
    """Chips, cards and modules."""
    platforms: list[dict[str, JsonValue]] = Field([])
    """Machines that hold accelerators."""
    models: list[dict[str, JsonValue]] = Field([])
    """Models with their config.json."""
    regions: list[dict[str, JsonValue]] = Field([])
    """Regions with factors by year."""
    memory_tiers: list[dict[str, JsonValue]] = Field(
        [], alias="memory-tiers", description="Memory tiers beyond the accelerator's own memory."
    )
    interconnects: list[dict[str, JsonValue]] = Field([])
    """Links between machines."""
    instances: list[dict[str, JsonValue]] = Field([])
    """Machines that cloud providers rent out, with prices."""
    engines: list[dict[str, JsonValue]] = Field([])
    """Inference engines and training frameworks."""
    rules: list[dict[str, JsonValue]] = Field([])
    """Requirements for sites, by place."""
    sources: list[dict[str, JsonValue]] = Field([])
    """Documents that figures of other entries cite."""
    calibrations: list[dict[str, JsonValue]] = Field([])
    """Fitted efficiencies and documented defaults."""
    remove: dict[str, list[str]] = Field({})
    """Ids of entries to remove, by collection."""


def _body() -> dict[str, Any]:
    """JSON as it is declared, and the same as YAML or as a table."""
    declared = body_of(CatalogFileContent)
    lines = catalog_file({"sources": {"": _SOURCE}}, "yaml", ["sources"], {})
    table = ",".join(_SOURCE) + "\n" + ",".join(map(str, _SOURCE.values())) + "\n"
    for kind, example in (("application/yaml", lines), ("text/csv", table)):
        declared["requestBody"]["content"][kind] = {
            "schema": {"type": "string"},
            "examples": {"example-1": {"value": example}},
        }
    return declared


@router.post(
    "/imports",
    operation_id="createCatalogImport",
    summary="Import a file of entries, all of it or nothing",
    responses={200: {"model": CatalogImport}, **KEYED_POST_PROBLEMS},
    openapi_extra=NEEDS_KEY | _body() | {"parameters": query_parameters(_QUERY, required="reason")},
)
async def create_import(http: HttpRequest) -> Response:
    """Read the file, check the catalog with it, and store it if everything is valid.

    One new revision, or every error with its line. The key needs the scope catalog:write, or
    own:write with own.
    """
    given = plain_query(http.query_params, _QUERY)
    own, dry_run = given.get("own") == "true", given.get("dry_run") == "true"
    caller = writer(http, own=own)
    reason = reason_of(given.get("reason"))
    expected = whole_number(given, "expected_revision", 0, 2**53)
    kind = content_kind(http)
    if kind not in _FORMS:
        known = ", ".join(_FORMS)
        raise Problem(
            "unsupported-media-type",
            f"the type of a file must be one of {known}, not {kind[:100]!r}",
        )
    content = await read_body(http, shared(http).settings.import_limit_bytes)
    try:
        file = await asyncio.to_thread(
            read_catalog_file, content, _FORMS[kind], given.get("collection"), schemas_of(http)
        )
    except FileInvalid as bad:
        raise _refused(bad) from None
    change = Change(
        file.entries,
        caller.author,
        reason,
        organisation=caller.organisation if own else None,
        key_id=caller.key_id,
        expected_revision=expected,
    )
    try:
        applied = await write(http, change, dry_run=dry_run)
    except CatalogInvalid as unsound:
        raise _refused(file.located(unsound.errors)) from None
    answer = {
        "dry_run": dry_run,
        "revision": applied.revision,
        "catalog_revision": (await current_snapshot(http)).revision,
        **changes_answer(applied.differences),
    }
    return Response(
        orjson.dumps(answer), media_type="application/json", headers={"Cache-Control": "no-store"}
    )


def _refused(bad: FileInvalid) -> Problem:
    """Every error with its line and column; nothing has been changed."""
    return invalid(
        (
            FieldError(error.pointer, error.detail, *(error.position or (None, None)))
            for error in bad.errors
        ),
        most=_MOST_ERRORS,
    )
