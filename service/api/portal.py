"""The page at the root, what it loads, the view for frames, and the badge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fastapi import APIRouter
from starlette.datastructures import QueryParams
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, Response

from service.api.beside import beside
from service.api.caching import confirmed_or, confirmed_or_awaited, entity_tag
from service.api.contract import GET_PROBLEMS, query_of
from service.api.hub_models import with_hub_models
from service.api.problems import Problem, invalid
from service.api.queries import query_request
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
    headers = {"Content-Disposition": 'attachment; filename="estimate.csv"'}
    return Response(as_csv(rows), media_type="text/csv", headers=headers)


@router.get("/portal/{name}", include_in_schema=False)
async def asset(name: str) -> Response:
    """A file that the page loads."""
    if name not in views.ASSETS:
        raise Problem("not-found", "no such file")
    headers = {"Cache-Control": _LONG}
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
