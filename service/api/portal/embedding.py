"""What other sites show of an estimate: the badge, and the frame that links unfold to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

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
from service.api.http.queries import (
    filled,
    plain_query,
    query_request,
    whole_number,
)
from service.api.http.state import shared, snapshot_for
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.answers import Answer
from service.estimation.inference.requests import InferenceRequest
from service.estimation.rejection import FieldError, Rejected
from service.portal import sharing, views
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
    """The badge of a deployment as SVG, with the query parameters of /v1/estimates/inference.

    Whoever asks for an image gets one that says what is wrong, where something is.
    """
    try:
        request, snapshot = await _asked(http)

        def make() -> Response:
            return _image(sharing.badge_image(request, snapshot))

        tag = entity_tag(snapshot, http.url.path, request.model_dump_json())
        return confirmed_or(http, tag, _or_invalid(make), "Accept")
    except Problem as problem:
        # What shows images shows a broken one for anything but an image, and nobody knows why.
        if "image/" not in http.headers.get("accept", ""):
            raise
        reason = problem.errors[0].detail if problem.errors else problem.detail
        response = _image(sharing.refused_badge_image(reason))
        response.headers.update({"Cache-Control": "no-store", "Vary": "Accept"})
        return response


@router.get("/verdict.json", include_in_schema=False)
async def verdict(http: HttpRequest) -> Response:
    """The verdict on a deployment, its figures in words, and the estimate: for the component."""
    request, snapshot = await _asked(http)
    link = _page_query(http.query_params)

    def make() -> Response:
        told = sharing.told(request, snapshot) | {"link": link}
        return Response(orjson.dumps(told), media_type="application/json")

    tag = entity_tag(snapshot, http.url.path, link or "", request.model_dump_json())
    return confirmed_or(http, tag, _or_invalid(make))


def _page_query(asked: QueryParams) -> str | None:
    """The query of the page about the same deployment, if there is one: it takes fewer fields."""
    try:
        query_request(asked, PageRequest)
    except Problem:
        return None
    return urlencode(asked.multi_items())


async def _asked(http: HttpRequest) -> tuple[InferenceRequest, CatalogSnapshot]:
    """The deployment that a link of the API describes, and the catalog to answer it from."""
    asked: Any = query_request(http.query_params, InferenceRequest)
    request: Any = await with_hub_models(asked, shared(http).hub)
    return request, await snapshot_for(http, request)


def _or_invalid(make: Callable[[], Response]) -> Callable[[], Response]:
    """The same, which tells what the use case rejects as a problem."""

    def made() -> Response:
        try:
            return make()
        except Rejected as rejected:
            raise invalid(rejected.errors) from None

    return made


def _image(text: str) -> Response:
    headers = {"Content-Security-Policy": _IMAGE_POLICY}
    return Response(text, media_type="image/svg+xml", headers=headers)


class OEmbedAnswer(Answer):
    """A frame to place in a page of another site (oEmbed 1.0)."""

    type: Literal["rich"]
    """Kind of resource: markup to place in a page."""
    version: Literal["1.0"]
    """Version of oEmbed."""
    title: str
    """What the frame shows."""
    provider_name: str
    """Name of this service."""
    provider_url: str
    """Address of this service."""
    html: str
    """The frame as an element of HTML."""
    width: int
    """Width of the frame in pixels of CSS."""
    height: int
    """Height of the frame in pixels of CSS."""
    cache_age: int
    """Seconds for which it may be kept."""


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
