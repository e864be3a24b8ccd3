"""The pages, what they load, and what can be downloaded from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import orjson
from fastapi import APIRouter
from starlette.datastructures import QueryParams
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, Response

from service.api.charts import drawn
from service.api.http.caching import confirmed_or_awaited, entity_tag
from service.api.http.compression import accepts_gzip
from service.api.http.hub_models import with_hub_models
from service.api.http.needs import need
from service.api.http.problems import PROBLEM_TYPES, Problem
from service.api.http.queries import filled, plain_query, query_request
from service.api.http.rates import charge_search
from service.api.http.state import shared, snapshot_for
from service.api.http.tables import as_csv
from service.api.http.worker_threads import beside
from service.api.portal.images import beside_service
from service.api.portal.watching import wants_events, watched
from service.catalog.snapshot import CatalogSnapshot
from service.charts.rendering import as_png
from service.estimation.formatting import shown_in
from service.estimation.references import CatalogRequest
from service.estimation.rejection import FieldError
from service.portal import (
    advice,
    comparison,
    pickers,
    place_map,
    plans,
    rendering,
    sharing,
    training_sharing,
    training_view,
    views,
)
from service.portal.advice import Recommender
from service.portal.charts import (
    PictureRequest,
    TrainingPictureRequest,
    chart_page,
    chart_request,
    chart_rows,
    shown_kinds,
)
from service.portal.comparison import ComparePageRequest
from service.portal.place_map import PlaceRequest, TrainingPlaceRequest
from service.portal.plan_questions import FleetPageRequest, SitePageRequest, TrafficPageRequest
from service.portal.questions import PageRequest
from service.portal.training_questions import TrainingPageRequest
from service.reports.document import Document
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
Shown = TypeVar("Shown")


@router.get("/")
async def page(http: HttpRequest) -> Response:
    """A form, and what a deployment needs and costs."""
    show = partial(views.page, home=str(http.base_url))
    return await _shown(http, PageRequest, show, views.refused_page)


@router.get("/training")
async def training(http: HttpRequest) -> Response:
    """A form, and what a training run needs and costs."""
    show = partial(training_view.training_page, home=str(http.base_url))
    return await _shown(http, TrainingPageRequest, show, training_view.refused_training_page)


@router.get("/compare")
async def compare(http: HttpRequest) -> Response:
    """Deployments side by side."""
    show, refuse = comparison.compare_page, comparison.refused_compare_page
    return await _shown(http, ComparePageRequest, show, refuse)


@router.get("/answer")
async def page_answer(http: HttpRequest) -> Response:
    """The answer of the page without its form, for changes of a question."""
    return await _shown(http, PageRequest, *_answers(views.page, views.refused_page))


@router.get("/training-answer")
async def training_answer(http: HttpRequest) -> Response:
    """Likewise of a training run."""
    show, refuse = training_view.training_page, training_view.refused_training_page
    return await _shown(http, TrainingPageRequest, *_answers(show, refuse))


@router.get("/compare-answer")
async def compare_answer(http: HttpRequest) -> Response:
    """Likewise of deployments side by side."""
    show, refuse = comparison.compare_page, comparison.refused_compare_page
    return await _shown(http, ComparePageRequest, *_answers(show, refuse))


def _add_plan(
    kind: str, model: type[Any], show: Callable[..., str], rows: Callable[..., Rows]
) -> None:
    """The page of a plan, its answer alone, and its table."""
    refuse = partial(plans.refused_plan_page, kind, model)

    async def page(http: HttpRequest) -> Response:
        return await _shown(http, model, show, refuse)

    async def answer(http: HttpRequest) -> Response:
        return await _shown(http, model, *_answers(show, refuse))

    async def spreadsheet_of(http: HttpRequest) -> Response:
        return await _table(http, model, rows, f"{kind}.csv")

    router.add_api_route(f"/{kind}", page)
    router.add_api_route(f"/{kind}-answer", answer)
    router.add_api_route(f"/{kind}.csv", spreadsheet_of)


_add_plan("fleet", FleetPageRequest, plans.fleet_page, plans.fleet_table)
_add_plan("traffic", TrafficPageRequest, plans.traffic_page, plans.traffic_table)
_add_plan("site", SitePageRequest, plans.site_page, plans.site_table)


@router.get("/places")
async def places(http: HttpRequest) -> Response:
    """A map to choose a place on, for the page."""
    return await _map(http, PlaceRequest, "", "places")


@router.get("/training-places")
async def training_places(http: HttpRequest) -> Response:
    """Likewise for a training run."""
    return await _map(http, TrainingPlaceRequest, "training", "training-places")


@router.get("/steps")
async def steps(http: HttpRequest) -> Response:
    """How everything on the page was computed."""
    return await _shown(http, PageRequest, views.steps_page, views.refused_page)


@router.get("/training-steps")
async def training_steps(http: HttpRequest) -> Response:
    """How everything about a training run was computed."""
    refuse = training_view.refused_training_page
    return await _shown(http, TrainingPageRequest, training_view.training_steps_page, refuse)


@router.get("/suggestions/{collection}")
async def suggested(http: HttpRequest, collection: str) -> Response:
    """Entries that somebody may mean who types into a field."""
    if collection not in pickers.COLLECTIONS:
        raise Problem("not-found", "no such list")
    given = plain_query(http.query_params, {"q": {"type": "string"}})
    snapshot = await snapshot_for(http, CatalogRequest())
    known: pickers.Collection = next(one for one in pickers.COLLECTIONS if one == collection)
    typed = given.get("q", "")[: pickers.MOST_TYPED]
    tag = entity_tag(snapshot, http.url.path, typed)

    async def make() -> Response:
        found = await beside(http, lambda: pickers.suggestions(known, typed, snapshot))
        return Response(orjson.dumps(pickers.as_rows(found)), media_type="application/json")

    return await confirmed_or_awaited(http, tag, make)


@router.get("/embed")
async def embedded(http: HttpRequest) -> Response:
    """The same in short, for frames of other sites."""
    ancestors = " ".join(shared(http).settings.embed_origins) or "'none'"
    return await _shown(http, PageRequest, views.embedded, views.refused_embedded, ancestors)


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


@router.get("/estimate.pdf")
async def estimate_pdf(http: HttpRequest) -> Response:
    """The estimate as a report to take to a meeting."""
    return await _estimate_report(http, PageRequest, sharing.estimate_report, "estimate.pdf")


@router.get("/training.pdf")
async def training_pdf(http: HttpRequest) -> Response:
    """Likewise of a training run."""
    document = training_sharing.training_report
    return await _estimate_report(http, TrainingPageRequest, document, "training.pdf")


@router.get("/share")
async def share(http: HttpRequest) -> Response:
    """What can be taken away of an estimate."""
    return await _share(http, PageRequest, sharing.share_page, "./")


@router.get("/training-share")
async def training_share(http: HttpRequest) -> Response:
    """Likewise of a training run."""
    show = training_sharing.training_share_page
    return await _share(http, TrainingPageRequest, show, "training")


@router.get("/preview.png")
async def preview(http: HttpRequest) -> Response:
    """What a shared link looks like elsewhere."""
    return await _preview(http, PageRequest, sharing.preview)


@router.get("/training-preview.png")
async def training_preview(http: HttpRequest) -> Response:
    """Likewise of a training run."""
    return await _preview(http, TrainingPageRequest, training_sharing.training_preview)


@router.get("/pictures/{kind}")
async def picture(http: HttpRequest, kind: str) -> Response:
    """A chart of a deployment whose model no link to the API can name."""
    return await _picture(http, kind, PictureRequest)


@router.get("/training/pictures/{kind}")
async def training_picture(http: HttpRequest, kind: str) -> Response:
    """A chart of a training run whose model no link to the API can name."""
    return await _picture(http, kind, TrainingPictureRequest)


@router.get("/charts/{kind}")
async def chart(http: HttpRequest, kind: str) -> Response:
    """A chart of a deployment, to look into, with its data."""
    return await _chart(http, kind, PictureRequest, "./", "../")


@router.get("/training/charts/{kind}")
async def training_chart(http: HttpRequest, kind: str) -> Response:
    """A chart of a training run, to look into, with its data."""
    return await _chart(http, kind, TrainingPictureRequest, "training", "../../")


@router.get("/portal/{name}")
async def asset(http: HttpRequest, name: str) -> Response:
    """A file that the page loads."""
    if name not in rendering.ASSETS:
        raise Problem("not-found", "no such file")
    # The page names its files by their content; other sites name the component by its name alone.
    headers = {"Cache-Control": _LONG if "v" in http.query_params else _SHORT}
    packed = rendering.packed_asset(name)
    if packed is not None and accepts_gzip(http.scope):
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return Response(packed, media_type=rendering.ASSETS[name], headers=headers)
    return Response(rendering.asset(name), media_type=rendering.ASSETS[name], headers=headers)


async def _map(http: HttpRequest, model: type[Any], page: str, address: str) -> Response:
    def show(request: Any, snapshot: CatalogSnapshot) -> str:
        return place_map.map_page(request, snapshot, page=page, address=address, view=request.view)

    return await _shown(http, model, show, partial(views.refused_reading, page=page or "./"))


def _answers(show: Callable[..., str], refuse: Callable[..., str]) -> tuple[Any, Any]:
    """What shows and refuses a page, as what gives its answer alone."""
    return partial(show, answer_only=True), partial(refuse, answer_only=True)


async def _asked(http: HttpRequest, model: type[Any]) -> tuple[Any, CatalogSnapshot]:
    snapshot = await snapshot_for(http, CatalogRequest())
    # Fields that suggest show names, which a form without scripts sends as they are.
    query = [
        (name, pickers.meant(name, text, snapshot))
        for name, text in filled(http.query_params).multi_items()
    ]
    asked = query_request(QueryParams(query), model)
    return await with_hub_models(asked, shared(http).hub), snapshot


def _in_units(
    show: Callable[[Any, CatalogSnapshot], Shown], request: Any, snapshot: CatalogSnapshot
) -> Shown:
    """What a page shows, with memory and money as its reader wants them."""
    with shown_in(request.units):
        return show(request, snapshot)


async def _table(
    http: HttpRequest, model: type[Any], rows: Callable[[Any, CatalogSnapshot], Rows], name: str
) -> Response:
    """Rows as a file to download."""
    request, snapshot = await _asked(http, model)
    return spreadsheet(await beside(http, lambda: rows(request, snapshot)), name)


async def _report(http: HttpRequest, model: type[Any], by: Recommender, name: str) -> Response:
    """A recommendation as a file to download."""
    need("pdf")
    request, snapshot = await _asked(http, model)
    content = await beside(http, lambda: as_pdf(advice.report(request, snapshot, by)))
    return Response(content, media_type="application/pdf", headers=_named(name))


async def _estimate_report(
    http: HttpRequest, model: type[Any], document: Callable[..., Document], name: str
) -> Response:
    """An estimate as a file to download."""
    need("pdf")
    request, snapshot = await _asked(http, model)
    content = await beside(http, lambda: as_pdf(_in_units(document, request, snapshot)))
    return Response(content, media_type="application/pdf", headers=_named(name))


async def _share(
    http: HttpRequest, model: type[Any], show: Callable[..., str], page: str
) -> Response:
    """The page of what can be taken away."""
    refuse = partial(views.refused_reading, page=page)
    shown = partial(show, home=str(http.base_url))
    # The preview of the frame is one.
    return await _shown(http, model, shown, refuse, frames="frame-src 'self'; ")


async def _preview(http: HttpRequest, model: type[Any], draw: Callable[..., str]) -> Response:
    """An estimate as a picture for those who share its link."""
    request, snapshot = await _asked(http, model)
    tag = entity_tag(snapshot, http.url.path, request.model_dump_json())

    async def make() -> Response:
        drawing = await beside(http, lambda: _in_units(draw, request, snapshot))
        content = await beside_service(http, partial(as_png, drawing), "the picture")
        return Response(content, media_type="image/png")

    return await confirmed_or_awaited(http, tag, make)


async def _picture(http: HttpRequest, kind: str, model: type[Any]) -> Response:
    request, snapshot = await _asked(http, model)
    wanted = chart_request(kind, request)
    if wanted is None:
        raise Problem("not-found", "no such picture")
    tag = entity_tag(snapshot, http.url.path, request.model_dump_json())
    if request.format == "csv":
        rows = await beside(http, lambda: chart_rows(wanted, snapshot))
        return spreadsheet(rows, f"{kind}.csv")
    return await confirmed_or_awaited(
        http, tag, lambda: drawn(http, *wanted, snapshot, titled=request.titled)
    )


async def _chart(http: HttpRequest, kind: str, model: type[Any], page: str, up: str) -> Response:
    """A chart's own page."""
    if kind not in shown_kinds(model):
        raise Problem("not-found", "no such chart")
    refuse = partial(views.refused_reading, page=page, up=up)
    return await _shown(http, model, partial(chart_page, kind), refuse)


def spreadsheet(rows: Rows, name: str) -> Response:
    """Rows as a file that spreadsheets open as they are meant: with their mark of UTF-8 before."""
    content = f"\ufeff{as_csv(rows)}".encode()
    return Response(content, media_type="text/csv; charset=utf-8", headers=_named(name))


def _named(name: str) -> dict[str, str]:
    return {"Cache-Control": "no-store", "Content-Disposition": f'attachment; filename="{name}"'}


async def _shown(
    http: HttpRequest,
    model: type[Any],
    show: Callable[[Any, CatalogSnapshot], str],
    refuse: Callable[[Any, Iterable[FieldError], CatalogSnapshot], str],
    ancestors: str = "'none'",
    frames: str = "",
) -> Response:
    """A page about what the query describes, or about what is wrong with it."""
    snapshot = await snapshot_for(http, CatalogRequest())
    headers = {"Content-Security-Policy": f"{frames}{_POLICY}{ancestors}"}

    async def make() -> Response:
        text = await beside(http, lambda: _in_units(show, request, snapshot))
        return HTMLResponse(text, headers=headers)

    def refused(problem: Problem) -> HTMLResponse:
        given = dict(filled(http.query_params))
        # Without a field, it is the Hub that does not answer.
        errors = problem.errors or (FieldError("/hub" if "hub" in given else "", problem.detail),)
        text = refuse(given, errors, snapshot)
        status = PROBLEM_TYPES[problem.slug].status
        kept = headers | problem.headers | {"Cache-Control": "no-store"}
        return HTMLResponse(text, status, kept)

    try:
        request, _ = await _asked(http, model)
        if getattr(request, "recommend", False):
            charge_search(http)
            if wants_events(http):
                return watched(http, lambda: _in_units(show, request, snapshot), refused)
        # Links for other machines name the host that they were asked of.
        tag = entity_tag(snapshot, http.url.path, str(http.base_url), request.model_dump_json())
        return await confirmed_or_awaited(http, tag, make, "Host, Accept")
    except Problem as problem:
        return refused(problem)
