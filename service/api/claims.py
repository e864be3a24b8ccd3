"""Reading the claims: circulating figures beside what they come to when computed."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import orjson
from anyio import to_thread
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.caching import confirmed_or, entity_tag
from service.api.http.contract import (
    GET_PROBLEMS,
    ITEM_PROBLEMS,
    Operations,
    path_parameter,
    query_parameters,
)
from service.api.http.problems import not_found
from service.api.http.queries import plain_query
from service.api.http.state import current_snapshot
from service.catalog.entries.references import UnknownReference
from service.catalog.entries.texts import packaged_texts
from service.estimation.claims import (
    DOCUMENTS,
    FILTERS,
    ClaimEntry,
    ClaimPage,
    claim_answer,
    claims_answer,
)

router = Operations(prefix="/v1", tags=["claims"])

_MEANINGS = {
    "verdict": "Only claims with this verdict; ClaimEntry explains each.",
    "document": "Only claims of this document: "
    + "; ".join(f"{id_} {title}" for id_, title in DOCUMENTS.items())
    + ".",
}
_KNOWN: dict[str, dict[str, Any]] = {
    name: {"type": "string", "enum": list(values), "description": _MEANINGS[name]}
    for name, values in FILTERS.items()
}


@router.get(
    "/claims",
    operation_id="listClaims",
    summary="Widespread claims about figures, recomputed, with a verdict",
    responses={200: {"model": ClaimPage}, **GET_PROBLEMS},
    openapi_extra={"parameters": query_parameters(_KNOWN)},
)
async def list_claims(http: HttpRequest) -> Response:
    """All claims, or those with a verdict or of a document, recomputed from the catalog."""
    wanted = plain_query(http.query_params, _KNOWN)
    snapshot = await current_snapshot(http)
    await to_thread.run_sync(packaged_texts)  # reads files the first time
    tag = entity_tag(snapshot, http.url.path, urlencode(wanted))
    return confirmed_or(http, tag, lambda: _json(claims_answer(snapshot, wanted)))


@router.get(
    "/claims/{id}",
    operation_id="getClaim",
    summary="One claim",
    responses={200: {"model": ClaimEntry}, **ITEM_PROBLEMS},
    openapi_extra={"parameters": [path_parameter("id", "Id of the claim.")]},
)
async def get_claim(http: HttpRequest) -> Response:
    """One claim by id, with the recomputed figure."""
    plain_query(http.query_params, {})
    snapshot = await current_snapshot(http)
    await to_thread.run_sync(packaged_texts)  # reads files the first time
    try:
        answer = claim_answer(snapshot, http.path_params["id"])
    except UnknownReference as unknown:
        raise not_found("claim", "/v1/claims", unknown) from None
    tag = entity_tag(snapshot, http.url.path)
    return confirmed_or(http, tag, lambda: _json(answer))


def _json(answer: object) -> Response:
    return Response(orjson.dumps(answer), media_type="application/json")
