"""Searching the whole catalog."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.caching import confirmed_or, entity_tag
from service.api.http.contract import GET_PROBLEMS, Operations, query_parameters
from service.api.http.problems import invalid
from service.api.http.queries import plain_query, whole_number
from service.api.http.state import current_snapshot
from service.catalog.search import SEARCHED, Hit, search
from service.estimation.answers import Answer
from service.estimation.rejection import FieldError

router = Operations(prefix="/v1/catalog", tags=["catalog"])

_USUAL_ITEMS = 10
_MOST_ITEMS = 100
_KNOWN: dict[str, dict[str, Any]] = {
    "q": {
        "type": "string",
        "minLength": 1,
        "maxLength": 200,
        "description": "Search text: parts of an id, name or alias, or what surrounds an entry "
        "(the city and country of a region, the cloud of an instance); small spelling mistakes "
        "are tolerated.",
    },
    "collection": {
        "type": "string",
        "enum": list(SEARCHED),
        "description": "Only entries of this collection.",
    },
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": _MOST_ITEMS,
        "default": _USUAL_ITEMS,
        "description": "Largest number of results.",
    },
}


class SearchHit(Answer):
    """An entry that was found."""

    collection: str
    id: str
    name: str
    matched: str
    """The id, name or alias that matched."""
    score: float
    """100 for an exact match; below 80 it is only similar."""
    url: str


class SearchAnswer(Answer):
    """Entries of all collections, the nearest first."""

    items: list[SearchHit]
    catalog_revision: int


@router.get(
    "/search",
    operation_id="searchCatalog",
    summary="Search the catalog",
    responses={200: {"model": SearchAnswer}, **GET_PROBLEMS},
    openapi_extra={"parameters": query_parameters(_KNOWN, required="q")},
)
async def search_catalog(http: HttpRequest) -> Response:
    """Search ids, names and aliases of all collections, or of one, best matches first."""
    given = plain_query(http.query_params, _KNOWN)
    text = given.get("q", "").strip()
    if not 0 < len(text) <= _KNOWN["q"]["maxLength"]:
        raise invalid([FieldError("/q", "must have 1 to 200 characters")])
    limit = whole_number(given, "limit", 1, _MOST_ITEMS) or _USUAL_ITEMS
    snapshot = await current_snapshot(http)
    wanted = [given["collection"]] if "collection" in given else SEARCHED

    def results() -> Response:
        hits = search(snapshot, text, wanted, limit)
        body = {"items": [_shown(hit) for hit in hits], "catalog_revision": snapshot.revision}
        return Response(orjson.dumps(body), media_type="application/json")

    return confirmed_or(http, entity_tag(snapshot, "search", urlencode(given)), results)


def _shown(hit: Hit) -> dict[str, Any]:
    shown = asdict(hit)
    shown["id"] = shown.pop("entry_id")
    return shown | {"url": f"/v1/{hit.collection}/{hit.entry_id}"}
