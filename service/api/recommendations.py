"""Operations that recommend what to run on, where, and how, with the reasons.

They take long enough that they are computed beside the event loop, a few at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.bodies import read_request
from service.api.http.contract import EXTRA_PROBLEMS, LISTING_POST_PROBLEMS, Operations, body_of
from service.api.http.deprecation import deprecation_headers
from service.api.http.needs import need
from service.api.http.negotiation import preferred
from service.api.http.state import shared, snapshot_for
from service.api.http.worker_threads import beside
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.renamed import renamed_in
from service.estimation.use_cases import USE_CASES, UseCase
from service.reports.document import Document
from service.reports.recommendation import recommendation_document
from service.reports.rendering import as_html, as_pdf
from service.reports.training_recommendation import training_recommendation_document

router = Operations(prefix="/v1", tags=["decisions"])

_REPORTS: dict[str, Any] = {
    "text/html": {"schema": {"type": "string"}},
    "application/pdf": {"schema": {"type": "string", "format": "binary"}},
}
_FORMS = ("application/json", "text/html", "application/pdf")
#: A page brings its own style, and nothing else.
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'"
}
_PDF_HEADERS = {"Content-Disposition": 'inline; filename="recommendation.pdf"'}


def _add(use_case: UseCase, document: Callable[[Any, Any, CatalogSnapshot], Document]) -> None:
    async def create(http: HttpRequest) -> Response:
        form = _form(http)
        limit_bytes = shared(http).settings.body_limit_bytes
        request: Any = await read_request(http, use_case.request, limit_bytes)
        snapshot = await snapshot_for(http, request)

        def compute() -> Response:
            if form == "application/json":
                response = _json(use_case.respond(request, snapshot))
            else:
                answer = use_case.compute(request, snapshot)
                response = _shown(form, document(request, answer, snapshot))
            response.headers.update(deprecation_headers(renamed_in(request, snapshot)))
            return response

        return await beside(http, compute)

    router.add_api_route(
        use_case.path,
        create,
        methods=["POST"],
        operation_id=f"create{use_case.name}",
        summary=use_case.summary,
        description=use_case.description,
        responses={
            200: {"model": use_case.answer, "content": _REPORTS},
            **LISTING_POST_PROBLEMS,
            **EXTRA_PROBLEMS,
        },
        openapi_extra=body_of(use_case.request),
    )


_add(USE_CASES["recommendations"], recommendation_document)
_add(USE_CASES["recommendations/training"], training_recommendation_document)


def _form(http: HttpRequest) -> str:
    """The form that a client wants, if it can be made here."""
    form = preferred(http.headers.get("accept", ""), _FORMS, "recommendations")
    if form == "application/pdf":
        need("pdf")
    return form


def _json(answer: Mapping[str, Any]) -> Response:
    return Response(orjson.dumps(answer), media_type="application/json")


def _shown(form: str, document: Document) -> Response:
    """A recommendation as a document for people."""
    if form == "text/html":
        return Response(as_html(document), media_type=form, headers=_PAGE_HEADERS)
    return Response(as_pdf(document), media_type=form, headers=_PDF_HEADERS)
