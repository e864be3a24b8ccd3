"""Operations that recommend what to run on, where, and how, with the reasons.

They take long enough that they are computed beside the event loop, a few at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.bodies import read_request
from service.api.http.contract import LISTING_POST_PROBLEMS, Operations, body_of
from service.api.http.negotiation import preferred
from service.api.http.state import shared, snapshot_for
from service.api.http.worker_threads import beside
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.recommendations.answers import RecommendationAnswer
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.recommendations.training.answers import TrainingRecommendationAnswer
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest
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
    "frame-ancestors 'none'",
}
_PDF_HEADERS = {"Content-Disposition": 'inline; filename="recommendation.pdf"'}


@router.post(
    "/recommendations",
    operation_id="createRecommendation",
    summary="What to buy or rent, where, and configured how, with the reasons",
    responses={
        200: {"model": RecommendationAnswer, "content": _REPORTS},
        **LISTING_POST_PROBLEMS,
    },
    openapi_extra=body_of(RecommendationRequest),
)
async def create_recommendation(http: HttpRequest) -> Response:
    """Search all combinations under hard limits and rank what is left.

    The best of each priority comes with its full estimate, its reasons and what nearly won. Accept
    chooses JSON, or HTML or PDF as a report for people.
    """
    form = preferred(http.headers.get("accept", ""), _FORMS, "recommendations")
    request, snapshot = await _asked(http, RecommendationRequest)

    def compute() -> Response:
        answer = recommendation_answer(request, snapshot)
        return _shown(form, answer, lambda: recommendation_document(request, answer))

    return await beside(http, compute)


@router.post(
    "/recommendations/training",
    operation_id="createTrainingRecommendation",
    summary="What to train on, where, and how, by deadline and budget, with the reasons",
    responses={
        200: {"model": TrainingRecommendationAnswer, "content": _REPORTS},
        **LISTING_POST_PROBLEMS,
    },
    openapi_extra=body_of(TrainingRecommendationRequest),
)
async def create_training_recommendation(http: HttpRequest) -> Response:
    """Search all runs under hard limits and rank what is left.

    The best of each priority comes with its full estimate, its reasons and what nearly won. Accept
    chooses JSON, or HTML or PDF as a report for people.
    """
    form = preferred(http.headers.get("accept", ""), _FORMS, "recommendations")
    request, snapshot = await _asked(http, TrainingRecommendationRequest)

    def compute() -> Response:
        answer = training_recommendation_answer(request, snapshot)
        return _shown(form, answer, lambda: training_recommendation_document(request, answer))

    return await beside(http, compute)


def _shown(form: str, answer: dict[str, Any], document: Callable[[], Document]) -> Response:
    """A recommendation in the form asked for."""
    if form == "application/json":
        return Response(orjson.dumps(answer), media_type=form)
    if form == "text/html":
        return Response(as_html(document()), media_type=form, headers=_PAGE_HEADERS)
    return Response(as_pdf(document()), media_type=form, headers=_PDF_HEADERS)


async def _asked(http: HttpRequest, model: type[Any]) -> tuple[Any, CatalogSnapshot]:
    request: Any = await read_request(http, model, shared(http).settings.body_limit_bytes)
    return request, await snapshot_for(http, request)
