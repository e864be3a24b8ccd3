"""The pages, what they load, and what can be downloaded from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, Response

from service.api.charts import drawn
from service.api.http.caching import confirmed_or_awaited, entity_tag
from service.api.http.hub_models import with_hub_models
from service.api.http.needs import need
from service.api.http.problems import PROBLEM_TYPES, Problem
from service.api.http.queries import filled, query_request
from service.api.http.rates import charge_search
from service.api.http.state import shared, snapshot_for
from service.api.http.tables import as_csv
from service.api.http.worker_threads import beside
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.references import CatalogRequest
from service.estimation.rejection import FieldError
from service.portal import advice, comparison, rendering, training_view, views
from service.portal.advice import Recommender
from service.portal.charts import PictureRequest, TrainingPictureRequest, chart_request
from service.portal.comparison import ComparePageRequest
from service.portal.questions import PageRequest
from service.portal.training_questions import TrainingPageRequest
from service.reports.rendering import as_pdf

router = APIRouter(tags=["page"], include_in_schema=False)

#: The page runs and loads only what the service brings itself.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors "
)
_LONG = "public, max-age=31536000, immutable"
_SHORT = "public, max-age=3600"

Rows = list[dict[str, Any]]


@router.get("/")
async def page(http: HttpRequest) -> Response:
    """A form, and what a deployment needs and costs."""
    return await _shown(http, PageRequest, views.page, views.refused_page)


@router.get("/training")
async def training(http: HttpRequest) -> Response:
    """A form, and what a training run needs and costs."""
    show, refuse = training_view.training_page, training_view.refused_training_page
    return await _shown(http, TrainingPageRequest, show, refuse)


@router.get("/compare")
async def compare(http: HttpRequest) -> Response:
    """Deployments side by side."""
    show, refuse = comparison.compare_page, comparison.refused_compare_page
    return await _shown(http, ComparePageRequest, show, refuse)


@router.get("/embed")
async def embedded(http: HttpRequest) -> Response:
    """The same in short, for frames of other sites."""
    ancestors = " ".join(shared(http).settings.embed_origins) or "'none'"

    def refuse(_: Any, errors: Iterable[FieldError], __: CatalogSnapshot) -> str:
        return views.refused_embedded(errors)

    return await _shown(http, PageRequest, views.embedded, refuse, ancestors)


@router.get("/estimate.csv")
async def figures(http: HttpRequest) -> Response:
    """Every figure that the page shows, for spreadsheets."""
    return await _table(http, PageRequest, views.figures_table, "estimate.csv")


@router.get("/training.csv")
async def training_figures(http: HttpRequest) -> Response:
    """Every figure of the training run, for spreadsheets."""
    return await _table(http, TrainingPageRequest, training_view.training_table, "training.csv")


@router.get("/compare.csv")
async def compared_figures(http: HttpRequest) -> Response:
    """Every figure of the deployments side by side, for spreadsheets."""
    return await _table(http, ComparePageRequest, comparison.compare_table, "compare.csv")


@router.get("/recommendation.csv")
async def choices(http: HttpRequest) -> Response:
    """The choices of the recommendation, for spreadsheets."""
    rows = partial(advice.choices_table, by=views.DEPLOYMENTS)
    return await _table(http, PageRequest, rows, "recommendation.csv")


@router.get("/recommendation.pdf")
async def report(http: HttpRequest) -> Response:
    """The recommendation as a report to take to a meeting."""
    return await _report(http, PageRequest, views.DEPLOYMENTS, "recommendation.pdf")


@router.get("/training-recommendation.csv")
async def training_choices(http: HttpRequest) -> Response:
    """The recommended runs, for spreadsheets."""
    rows = partial(advice.choices_table, by=training_view.RUNS)
    return await _table(http, TrainingPageRequest, rows, "training-recommendation.csv")


@router.get("/training-recommendation.pdf")
async def training_report(http: HttpRequest) -> Response:
    """The recommended runs as a report to take to a meeting."""
    return await _report(
        http, TrainingPageRequest, training_view.RUNS, "training-recommendation.pdf"
    )


@router.get("/pictures/{kind}")
async def picture(http: HttpRequest, kind: str) -> Response:
    """A chart of a deployment whose model no link to the API can name."""
    return await _picture(http, kind, PictureRequest)


@router.get("/training/pictures/{kind}")
async def training_picture(http: HttpRequest, kind: str) -> Response:
    """A chart of a training run whose model no link to the API can name."""
    return await _picture(http, kind, TrainingPictureRequest)


@router.get("/portal/{name}")
async def asset(http: HttpRequest, name: str) -> Response:
    """A file that the page loads."""
    if name not in rendering.ASSETS:
        raise Problem("not-found", "no such file")
    # The page names its files by their content; other sites name the component by its name alone.
    headers = {"Cache-Control": _LONG if "v" in http.query_params else _SHORT}
    return Response(rendering.asset(name), media_type=rendering.ASSETS[name], headers=headers)


async def _asked(http: HttpRequest, model: type[Any]) -> tuple[Any, CatalogSnapshot]:
    asked = query_request(filled(http.query_params), model)
    return await with_hub_models(asked, shared(http).hub), await snapshot_for(
        http, CatalogRequest()
    )


async def _table(
    http: HttpRequest, model: type[Any], rows: Callable[[Any, CatalogSnapshot], Rows], name: str
) -> Response:
    """Rows as a file to download."""
    request, snapshot = await _asked(http, model)
    found = await beside(http, lambda: rows(request, snapshot))
    return Response(as_csv(found), media_type="text/csv", headers=_named(name))


async def _report(http: HttpRequest, model: type[Any], by: Recommender, name: str) -> Response:
    """A recommendation as a file to download."""
    need("pdf")
    request, snapshot = await _asked(http, model)
    content = await beside(http, lambda: as_pdf(advice.report(request, snapshot, by)))
    return Response(content, media_type="application/pdf", headers=_named(name))


async def _picture(http: HttpRequest, kind: str, model: type[Any]) -> Response:
    request, snapshot = await _asked(http, model)
    wanted = chart_request(kind, request)
    if wanted is None:
        raise Problem("not-found", "no such picture")
    tag = entity_tag(snapshot, http.url.path, request.model_dump_json())
    return await confirmed_or_awaited(http, tag, lambda: drawn(http, *wanted, snapshot))


def _named(name: str) -> dict[str, str]:
    return {"Cache-Control": "no-store", "Content-Disposition": f'attachment; filename="{name}"'}


async def _shown(
    http: HttpRequest,
    model: type[Any],
    show: Callable[[Any, CatalogSnapshot], str],
    refuse: Callable[[Any, Iterable[FieldError], CatalogSnapshot], str],
    ancestors: str = "'none'",
) -> Response:
    """A page about what the query describes, or about what is wrong with it."""
    snapshot = await snapshot_for(http, CatalogRequest())
    headers = {"Content-Security-Policy": _POLICY + ancestors}

    async def make() -> Response:
        text = await beside(http, lambda: show(request, snapshot))
        return HTMLResponse(text, headers=headers)

    try:
        request, _ = await _asked(http, model)
        if getattr(request, "recommend", False):
            charge_search(http)
        tag = entity_tag(snapshot, http.url.path, request.model_dump_json())
        return await confirmed_or_awaited(http, tag, make)
    except Problem as problem:
        given = dict(filled(http.query_params))
        # Without a field, it is the Hub that does not answer.
        errors = problem.errors or (FieldError("/hub" if "hub" in given else "", problem.detail),)
        text = refuse(given, errors, snapshot)
        status = PROBLEM_TYPES[problem.slug].status
        kept = headers | problem.headers | {"Cache-Control": "no-store"}
        return HTMLResponse(text, status, kept)
