"""What other sites show of an estimate: the badge, and the frame that links unfold to."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.caching import confirmed_or, entity_tag
from service.api.http.contract import (
    GET_PROBLEMS,
    ITEM_PROBLEMS,
    Operations,
    query_of,
    query_parameters,
)
from service.api.http.hub_models import with_hub_models
from service.api.http.problems import Problem, invalid
from service.api.http.queries import filled, plain_query, query_request, whole_number
from service.api.http.state import shared, snapshot_for
from service.estimation.answers import Answer
from service.estimation.inference.requests import InferenceRequest
from service.estimation.rejection import FieldError, Rejected
from service.portal import views
from service.portal.questions import PageRequest

router = Operations(tags=["page"])

_SHORT = "public, max-age=3600"
#: Parameters of oEmbed 1.0 (https://oembed.com), section 2.2.
_OEMBED: dict[str, dict[str, Any]] = {
    "url": {
        "type": "string",
        "minLength": 1,
        "maxLength": 2_000,
        "description": "Link to the page or its embedded view, complete or starting at the path.",
    },
    "format": {"type": "string", "enum": ["json"], "description": "Only json is supported."},
    "maxwidth": {
        "type": "integer",
        "minimum": 100,
        "maximum": 10_000,
        "description": "Largest width of the frame [px].",
    },
    "maxheight": {
        "type": "integer",
        "minimum": 100,
        "maximum": 10_000,
        "description": "Largest height of the frame [px].",
    },
}
#: An image that is opened by itself runs nothing and loads nothing.
_IMAGE_POLICY = "default-src 'none'; frame-ancestors 'none'"


@router.get(
    "/v1/badges/inference",
    operation_id="getInferenceBadge",
    summary="An inference deployment as a badge: fit, time per token, emissions per 1,000 tokens",
    responses={
        200: {
            "description": "SVG, 20 pixels high",
            "content": {"image/svg+xml": {"schema": {"type": "string"}}},
        },
        **GET_PROBLEMS,
    },
    response_class=Response,
    openapi_extra=query_of(InferenceRequest),
)
async def badge(http: HttpRequest) -> Response:
    """The badge of a deployment as SVG, with the query parameters of /v1/estimates/inference."""
    asked: Any = query_request(http.query_params, InferenceRequest)
    request = await with_hub_models(asked, shared(http).hub)
    snapshot = await snapshot_for(http, request)

    def make() -> Response:
        try:
            image = views.badge_image(request, snapshot)
        except Rejected as rejected:
            raise invalid(rejected.errors) from None
        headers = {"Content-Security-Policy": _IMAGE_POLICY}
        return Response(image, media_type="image/svg+xml", headers=headers)

    tag = entity_tag(snapshot, http.url.path, request.model_dump_json())
    return confirmed_or(http, tag, make)


class OEmbedAnswer(Answer):
    """A frame to place in a page of another site (oEmbed 1.0)."""

    type: Literal["rich"]
    version: Literal["1.0"]
    title: str
    provider_name: str
    provider_url: str
    html: str
    width: int
    height: int
    cache_age: int


@router.get(
    "/oembed",
    operation_id="getOEmbed",
    summary="Embedding of a link in other sites (oEmbed 1.0)",
    responses={200: {"model": OEmbedAnswer}, **ITEM_PROBLEMS},
    openapi_extra={"parameters": query_parameters(_OEMBED, required="url")},
)
async def oembed(http: HttpRequest) -> Response:
    """The frame for a link to this service's page, within the requested size.

    Links to other sites are refused (404).
    """
    given = plain_query(http.query_params, _OEMBED)
    if not given.get("url"):
        raise invalid([FieldError("/url", "give the link to embed")])
    home = http.base_url
    try:
        asked = urlsplit(given["url"])
    except ValueError:
        raise invalid([FieldError("/url", "is not a link")]) from None
    if asked.netloc and asked.netloc != home.netloc:
        raise Problem("not-found", "only links to this service can be embedded")
    if asked.path.rsplit("/", 1)[-1] not in ("", ".", "embed"):
        raise Problem("not-found", "only the page and its embedded view can be embedded")
    width = whole_number(given, "maxwidth", 100, 10_000) or 10_000
    height = whole_number(given, "maxheight", 100, 10_000) or 10_000
    request = query_request(filled(QueryParams(asked.query)), PageRequest)
    frame = views.framed(request, f"{home}embed?{request.link()}", width, height)
    answer = {
        "type": "rich",
        "version": "1.0",
        "title": frame.title,
        "provider_name": "Headroom",
        "provider_url": str(home),
        "html": frame.html,
        "width": frame.width,
        "height": frame.height,
        "cache_age": 3600,
    }
    headers = {"Cache-Control": _SHORT, "Vary": "Host"}
    return Response(orjson.dumps(answer), media_type="application/json", headers=headers)
