"""The page at the root, what it loads, the view for frames, and the badge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson
from fastapi import APIRouter
from starlette.datastructures import QueryParams
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, Response

from service.api.beside import beside
from service.api.caching import confirmed_or, confirmed_or_awaited, entity_tag
from service.api.contract import GET_PROBLEMS, ITEM_PROBLEMS, query_of
from service.api.deployment_responses import Answer
from service.api.hub_models import with_hub_models
from service.api.problems import Problem, invalid
from service.api.queries import plain_query, query_request, whole_number
from service.api.state import current_snapshot, shared, snapshot_for
from service.api.tables import as_csv
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.inference_requests import InferenceRequest
from service.estimation.rejection import FieldError, Rejected
from service.portal import views
from service.portal.questions import PageRequest

router = APIRouter(tags=["page"])

#: The page runs and loads only what the service brings itself.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors "
)
_LONG = "public, max-age=31536000, immutable"
_SHORT = "public, max-age=3600"
#: Parameters of oEmbed 1.0 (https://oembed.com), section 2.2.
_OEMBED: dict[str, dict[str, Any]] = {
    "url": {
        "type": "string",
        "minLength": 1,
        "maxLength": 2_000,
        "description": "Link to the page or its view for frames, whole or from the path on.",
    },
    "format": {"type": "string", "enum": ["json"], "description": "Only JSON is given out."},
    "maxwidth": {"type": "integer", "minimum": 100, "maximum": 10_000, "description": "[px]"},
    "maxheight": {"type": "integer", "minimum": 100, "maximum": 10_000, "description": "[px]"},
}
#: An image that is opened by itself runs nothing and loads nothing.
_IMAGE_POLICY = "default-src 'none'; frame-ancestors 'none'"


@router.get("/", include_in_schema=False)
async def page(http: HttpRequest) -> Response:
    """A form, and what a deployment needs and costs."""
    return await _shown(http, views.page, views.refused_page, "'none'")


@router.get("/embed", include_in_schema=False)
async def embedded(http: HttpRequest) -> Response:
    """The same in short, for frames of other sites."""
    ancestors = " ".join(shared(http).settings.embed_origins) or "'none'"
    return await _shown(
        http, views.embedded, lambda _, errors, __: views.refused_embedded(errors), ancestors
    )


@router.get("/estimate.csv", include_in_schema=False)
async def figures(http: HttpRequest) -> Response:
    """Every figure that the page shows, for spreadsheets."""
    asked = query_request(_filled(http.query_params), PageRequest)
    request = await with_hub_models(asked, shared(http).hub)
    snapshot = await current_snapshot(http)
    rows = await beside(http, lambda: views.figures_table(request, snapshot))
    headers = {
        "Cache-Control": "no-store",
        "Content-Disposition": 'attachment; filename="estimate.csv"',
    }
    return Response(as_csv(rows), media_type="text/csv", headers=headers)


@router.get("/portal/{name}", include_in_schema=False)
async def asset(http: HttpRequest, name: str) -> Response:
    """A file that the page loads."""
    if name not in views.ASSETS:
        raise Problem("not-found", "no such file")
    # The page names its files by their content; other sites name the component by its name alone.
    headers = {"Cache-Control": _LONG if "v" in http.query_params else _SHORT}
    return Response(views.asset(name), media_type=views.ASSETS[name], headers=headers)


@router.get(
    "/v1/badges/inference",
    operation_id="getInferenceBadge",
    summary="An inference deployment as a badge: fit, time of a token, emissions of 1,000",
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
    """The badge of what query parameters describe."""
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
    summary="How other sites show a link to the page (oEmbed 1.0)",
    responses={200: {"model": OEmbedAnswer}, **ITEM_PROBLEMS},
    openapi_extra={
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": name == "url",
                "schema": {key: value for key, value in schema.items() if key != "description"},
                "description": schema["description"],
            }
            for name, schema in _OEMBED.items()
        ]
    },
)
async def oembed(http: HttpRequest) -> Response:
    """The frame that a link to this service's page stands for."""
    given = plain_query(http.query_params, _OEMBED)
    if not given.get("url"):
        raise invalid([FieldError("/url", "give the link to be shown")])
    home = http.base_url
    try:
        asked = urlsplit(given["url"])
    except ValueError:
        raise invalid([FieldError("/url", "is no link")]) from None
    if asked.netloc and asked.netloc != home.netloc:
        raise Problem("not-found", "only links to this service are shown")
    if asked.path.rsplit("/", 1)[-1] not in ("", ".", "embed"):
        raise Problem("not-found", "only the page and its view for frames are shown")
    width = whole_number(given, "maxwidth", 100, 10_000) or 10_000
    height = whole_number(given, "maxheight", 100, 10_000) or 10_000
    request = query_request(_filled(QueryParams(asked.query)), PageRequest)
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


async def _shown(
    http: HttpRequest,
    show: Callable[[PageRequest, CatalogSnapshot], str],
    refuse: Callable[[Any, Iterable[FieldError], CatalogSnapshot], str],
    ancestors: str,
) -> Response:
    """A page about what the query describes, or about what is wrong with it."""
    snapshot = await current_snapshot(http)
    headers = {"Content-Security-Policy": _POLICY + ancestors}
    query = _filled(http.query_params)

    def refused(problem: Problem) -> Response:
        errors = problem.errors or (FieldError("", problem.detail),)
        text = refuse(dict(query), errors, snapshot)
        return HTMLResponse(text, 422, headers | {"Cache-Control": "no-store"})

    async def make() -> Response:
        text = await beside(http, lambda: show(request, snapshot))
        return HTMLResponse(text, headers=headers)

    try:
        request = await with_hub_models(query_request(query, PageRequest), shared(http).hub)
        tag = entity_tag(snapshot, http.url.path, request.model_dump_json())
        return await confirmed_or_awaited(http, tag, make)
    except Problem as problem:
        return refused(problem)


def _filled(query: QueryParams) -> QueryParams:
    """The parameters that hold something: a form sends those that were left empty as well."""
    return QueryParams([(name, text) for name, text in query.multi_items() if text])
