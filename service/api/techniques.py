"""Reading the techniques: the list, narrowed by what they apply to, and single ones."""

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
from service.api.http.state import shared
from service.catalog.entries.references import UnknownReference
from service.catalog.entries.texts import packaged_texts
from service.estimation.techniques import (
    FILTERS,
    TechniqueEntry,
    TechniquePage,
    named_technique_answer,
    techniques_answer,
)

router = Operations(prefix="/v1", tags=["techniques"])

_MEANINGS = {
    "applies_to": "Only techniques for training, or for inference.",
    "category": "Only techniques of this category.",
    "reach": "Only techniques of this reach: the same result on the same accelerators, almost the "
    "same result, more accelerators, or another recipe, workload or model.",
    "saves": "Only techniques that reduce this part of memory.",
}
_KNOWN: dict[str, dict[str, Any]] = {
    name: {"type": "string", "enum": list(values), "description": _MEANINGS[name]}
    for name, values in FILTERS.items()
}


@router.get(
    "/techniques",
    operation_id="listTechniques",
    summary="Techniques that save memory, with formula, saving, cost and when to use them",
    responses={200: {"model": TechniquePage}, **GET_PROBLEMS},
    openapi_extra={"parameters": query_parameters(_KNOWN)},
)
async def list_techniques(http: HttpRequest) -> Response:
    """All techniques, or those that match every parameter given.

    They come in the order in which they are usually tried.
    """
    wanted = plain_query(http.query_params, _KNOWN)
    await to_thread.run_sync(packaged_texts)  # reads files the first time
    return _answered(http, urlencode(wanted), techniques_answer(wanted))


@router.get(
    "/techniques/{id}",
    operation_id="getTechnique",
    summary="One technique",
    responses={200: {"model": TechniqueEntry}, **ITEM_PROBLEMS},
    openapi_extra={"parameters": [path_parameter("id", "Id or alias.")]},
)
async def get_technique(http: HttpRequest) -> Response:
    """One technique by id or alias: what it saves, what it costs, and when to use it."""
    plain_query(http.query_params, {})
    await to_thread.run_sync(packaged_texts)
    try:
        answer = named_technique_answer(http.path_params["id"])
    except UnknownReference as unknown:
        raise not_found("technique", "/v1/techniques", unknown) from None
    return _answered(http, answer["id"], answer)


def _answered(http: HttpRequest, what: str, answer: object) -> Response:
    tag = entity_tag(shared(http).store.snapshot, "techniques", what)
    return confirmed_or(
        http, tag, lambda: Response(orjson.dumps(answer), media_type="application/json")
    )
