"""Changing one entry of the catalog: each change is a new revision with its author and reason."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.access.keys import Caller
from service.api.catalog.entries import ENTRIES, NAMES
from service.api.catalog.writing import (
    REASON,
    REVISION_HEADER,
    hash_based_on,
    reason_of,
    write,
    writer,
)
from service.api.http.bodies import read_json
from service.api.http.caching import entry_tag
from service.api.http.contract import (
    NEEDS_KEY,
    WRITE_PROBLEMS,
    Operations,
    path_parameter,
    query_parameters,
)
from service.api.http.problems import Problem, invalid
from service.api.http.queries import plain_query
from service.api.http.state import current_snapshot, shared
from service.catalog.database.importer import Change
from service.catalog.database.own import is_own
from service.catalog.entries.documents import CatalogInvalid, DocumentInvalid, canonical
from service.estimation.catalog.listing import whole_entry_answer
from service.estimation.rejection import FieldError

router = Operations(prefix="/v1", tags=["catalog"])

_QUERY = {"reason": REASON}
_NOT_KEPT = {"Cache-Control": "no-store"}

_BASED_ON = "Send If-Match with the ETag of the entry as you read it"
_ALLOWED = "The key needs the scope catalog:write, or own:write for ids that begin with own/."

#: Parts of an entry as it is read that are not of the entry itself.
_ADDED = ("sources", "derived", "second_opinions", "no_second_opinion")


def _parameters(*, creates: bool) -> list[dict[str, Any]]:
    text = {"type": "string", "minLength": 1, "maxLength": 200}
    found = [
        path_parameter("id", "Id of the entry; own/… for one of your organisation's own."),
        *query_parameters(_QUERY, required="reason"),
        {
            "name": "If-Match",
            "in": "header",
            "required": False,
            "schema": text,
            "description": "ETag of the entry as you read it.",
        },
    ]
    if creates:
        found.append(
            {
                "name": "If-None-Match",
                "in": "header",
                "required": False,
                "schema": {"type": "string", "enum": ["*"]},
                "description": "* to create a new entry.",
            }
        )
    return found


def _add(collection: str) -> None:
    async def put(http: HttpRequest) -> Response:
        entry_id: str = http.path_params["id"]
        given = plain_query(http.query_params, _QUERY)
        caller = writer(http, own=is_own(entry_id))
        reason = reason_of(given.get("reason"))
        based_on = hash_based_on(http)
        document = _document(
            await read_json(http, shared(http).settings.body_limit_bytes), entry_id
        )
        place = (collection, entry_id)
        applied = await _applied(http, _change(caller, place, document, reason, based_on))
        snapshot = await current_snapshot(http)
        entry = snapshot.collection(collection).get(entry_id)
        if entry is None:  # it has been removed again meanwhile
            raise Problem("conflict", "somebody else removed the entry right afterwards")
        body = orjson.dumps(whole_entry_answer(snapshot, collection, entry))
        headers = {"ETag": entry_tag(entry.document, body), **_NOT_KEPT, **applied}
        created = based_on is None
        if created:
            headers["Location"] = f"/v1/{collection}/{entry_id}"
        return Response(
            body, 201 if created else 200, headers=headers, media_type="application/json"
        )

    async def delete(http: HttpRequest) -> Response:
        entry_id: str = http.path_params["id"]
        given = plain_query(http.query_params, _QUERY)
        caller = writer(http, own=is_own(entry_id))
        reason = reason_of(given.get("reason"))
        based_on = hash_based_on(http)
        if based_on is None:
            raise invalid([FieldError("", "an entry to be removed cannot be new")])
        if entry_id not in (await current_snapshot(http)).collection(collection):
            raise Problem("not-found", f"no such entry among the {collection}")
        place = (collection, entry_id)
        applied = await _applied(http, _change(caller, place, None, reason, based_on))
        return Response(status_code=204, headers={**_NOT_KEPT, **applied})

    name = NAMES[collection]
    schema = {
        "type": "object",
        "description": "The entry as GET returns it; its schema is at "
        f"/v1/catalog/schemas/{collection}.",
    }
    router.add_api_route(
        f"/{collection}/{{id:path}}",
        put,
        methods=["PUT"],
        operation_id=f"put{name}",
        summary=f"Add or change one of the catalog's {collection}",
        description="Store the entry in a new revision, if the whole catalog is valid with it. "
        f"{_BASED_ON}, or If-None-Match: * for a new entry. {_ALLOWED}",
        responses={
            200: {"model": ENTRIES[collection]},
            201: {"model": ENTRIES[collection]},
            **WRITE_PROBLEMS,
        },
        openapi_extra=NEEDS_KEY
        | {
            "parameters": _parameters(creates=True),
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        },
    )
    router.add_api_route(
        f"/{collection}/{{id:path}}",
        delete,
        methods=["DELETE"],
        operation_id=f"delete{name}",
        summary=f"Remove one of the catalog's {collection} (earlier revisions keep it)",
        description="Remove the entry in a new revision, unless other entries need it (409). "
        f"{_BASED_ON}. {_ALLOWED}",
        status_code=204,
        responses=WRITE_PROBLEMS,
        openapi_extra=NEEDS_KEY | {"parameters": _parameters(creates=False)},
    )


for _collection in NAMES:
    _add(_collection)


def _document(given: Any, entry_id: str) -> dict[str, Any]:
    """The entry that a body holds; what reading adds to one may be sent back with it."""
    if not isinstance(given, dict):
        raise invalid([FieldError("", "must be an object: the entry")])
    document = {name: part for name, part in given.items() if name not in _ADDED}
    document.setdefault("id", entry_id)
    try:
        found: dict[str, Any] = canonical(document)
    except DocumentInvalid as error:
        raise invalid([FieldError(error.pointer, error.detail)]) from None
    return found


def _change(
    caller: Caller,
    place: tuple[str, str],
    document: dict[str, Any] | None,
    reason: str,
    based_on: str | None,
) -> Change:
    """The change of one entry that a caller wants, None for its removal."""
    return Change(
        {place: document},
        caller.author,
        reason,
        organisation=caller.organisation if is_own(place[1]) else None,
        key_id=caller.key_id,
        expected_hashes={place: based_on},
    )


async def _applied(http: HttpRequest, change: Change) -> dict[str, str]:
    """Make the change; the headers that tell of it."""
    ((place, document),) = change.entries.items()
    try:
        applied = await write(http, change)
    except CatalogInvalid as unsound:
        if document is None:
            others = "; ".join(str(error) for error in unsound.errors[:5])
            raise Problem("conflict", f"other entries need it: {others}") from None
        raise invalid(
            FieldError(error.pointer, error.detail)
            if (error.collection, error.entry_id) == place
            else FieldError("", f"this would break another entry: {error}")
            for error in unsound.errors
        ) from None
    return {} if applied.revision is None else {REVISION_HEADER: str(applied.revision)}
