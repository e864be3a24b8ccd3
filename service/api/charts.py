"""Charts: what the other operations answer, as Vega-Lite, SVG or PNG, by body and by link."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import orjson
from cachetools import LRUCache
from starlette.datastructures import QueryParams
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.bodies import read_request
from service.api.http.caching import confirmed_or_awaited, entity_tag
from service.api.http.contract import (
    EXTRA_PROBLEMS,
    LIST_PROBLEMS,
    LISTING_POST_PROBLEMS,
    Operations,
    as_link,
    body_of,
    query_of,
)
from service.api.http.hub_models import with_hub_models
from service.api.http.negotiation import preferred
from service.api.http.problems import none_of
from service.api.http.queries import flat_fields, query_request
from service.api.http.state import shared, snapshot_for
from service.api.http.worker_threads import beside
from service.api.portal.images import beside_service
from service.catalog.snapshot import CatalogSnapshot
from service.charts.frame import style_of
from service.charts.rendering import rendered
from service.estimation.charts.answers import ChartAnswer, ChartFindings, VegaLiteChart
from service.estimation.charts.kind import ChartKind
from service.estimation.charts.kinds import CHART_KINDS
from service.estimation.inference.requests import InferenceRequest
from service.estimation.references import Request
from service.estimation.requests import DeploymentRequest

router = Operations(prefix="/v1", tags=["charts"])

Form = Literal["json", "vega-lite", "svg", "png"]
#: Media types by the form that a chart comes in, the one that is as welcome as others first.
MEDIA_TYPES: dict[Form, str] = {
    "json": "application/json",
    "svg": "image/svg+xml",
    "png": "image/png",
    "vega-lite": "application/vnd.vegalite.v5+json",
}
#: Images that were drawn last, 32 MB of them: pages and badges are opened many times.
_IMAGES: LRUCache[str, bytes] = LRUCache(maxsize=32_000_000, getsizeof=len)
#: An image that is opened by itself runs nothing and loads nothing.
_IMAGE_POLICY = "default-src 'none'; frame-ancestors 'none'"

_FORMS_TOLD = (
    "Links may name what a deployment has and the chart does not need, such as its region. "
    "Accept or style.format chooses JSON (figures, text and a Vega-Lite specification), only the "
    "specification, SVG or PNG."
)
_FORMS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": ChartAnswer,
        "content": {
            MEDIA_TYPES["vega-lite"]: {
                "schema": {"$ref": f"#/components/schemas/{VegaLiteChart.__name__}"}
            },
            MEDIA_TYPES["svg"]: {"schema": {"type": "string"}},
            MEDIA_TYPES["png"]: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@dataclass(frozen=True, slots=True)
class _Drawing:
    """A chart that is asked for: its kind, the question, the form, and the catalog."""

    kind: ChartKind
    request: Any
    form: Form
    snapshot: CatalogSnapshot
    titled: bool = True
    """Whether the picture carries its title; pages that say it themselves need none in it."""

    def chart(self) -> tuple[ChartFindings, dict[str, Any]]:
        """What is shown, and the specification that shows it."""
        shown = self.kind.findings(self.request, self.snapshot)
        asked = self.request.style
        style = style_of(asked.theme, asked.width_px, asked.height_px)
        specification = self.kind.draw(shown, style)
        if not self.titled:
            del specification["title"]
        return shown, specification


def _form(http: HttpRequest, request: Any) -> Form:
    asked: Form | None = request.style.format
    if asked is not None:
        return asked
    accepted = preferred(http.headers.get("accept", ""), tuple(MEDIA_TYPES.values()), "charts")
    return next(form for form, media_type in MEDIA_TYPES.items() if media_type == accepted)


async def _respond(http: HttpRequest, drawing: _Drawing) -> Response:
    form = drawing.form
    if form == "svg" or form == "png":
        content = await _image(http, drawing, form)
        headers = {"Content-Security-Policy": _IMAGE_POLICY}
        return Response(content, media_type=MEDIA_TYPES[form], headers=headers)
    shown, specification = await beside(http, drawing.chart)
    answer = {"kind": drawing.kind.id} | shown | {"vega_lite": specification}
    wanted = answer if form == "json" else specification
    return Response(orjson.dumps(wanted), media_type=MEDIA_TYPES[form])


async def _image(http: HttpRequest, drawing: _Drawing, form: Literal["svg", "png"]) -> bytes:
    """The chart as an image, drawn once for all who ask the same of the same catalog."""
    asked = drawing.request.model_dump_json()
    key = entity_tag(drawing.snapshot, drawing.kind.id, form, str(drawing.titled), asked)
    kept: bytes | None = _IMAGES.get(key)
    if kept is None:
        shown, specification = await beside(http, drawing.chart)
        written = orjson.dumps(specification).decode()
        style = drawing.request.style
        draw = partial(
            rendered,
            *(written, form, shown["title"], shown["description"]),
            *(style.width_px, style.pixel_ratio),
        )
        kept = await beside_service(http, draw, "the chart")
        _IMAGES[key] = kept
    return kept


async def drawn(
    http: HttpRequest,
    kind: ChartKind,
    request: Request,
    snapshot: CatalogSnapshot,
    *,
    titled: bool = True,
) -> Response:
    """A chart in the form that its request names, with its title or without."""
    return await _respond(http, _Drawing(kind, request, _form(http, request), snapshot, titled))


def _needed(query: QueryParams, kind: ChartKind) -> QueryParams:
    """The parameters that a kind of chart takes: links about a deployment may say more of it."""
    known = flat_fields(kind.request)
    beyond = flat_fields(InferenceRequest).keys() - known.keys()
    if not issubclass(kind.request, DeploymentRequest):
        return query
    return QueryParams([(name, text) for name, text in query.multi_items() if name not in beyond])


def _add(kind: ChartKind) -> None:
    async def post(http: HttpRequest) -> Response:
        limit_bytes = shared(http).settings.body_limit_bytes
        request: Any = await read_request(http, kind.request, limit_bytes)
        form = _form(http, request)
        snapshot = await snapshot_for(http, request)
        return await _respond(http, _Drawing(kind, request, form, snapshot))

    async def get(http: HttpRequest) -> Response:
        asked: Any = query_request(_needed(http.query_params, kind), kind.request)
        request = await with_hub_models(asked, shared(http).hub)
        form = _form(http, request)
        snapshot = await snapshot_for(http, request)
        drawing = _Drawing(kind, request, form, snapshot)
        tag = entity_tag(snapshot, http.url.path, form, request.model_dump_json())
        return await confirmed_or_awaited(http, tag, lambda: _respond(http, drawing), "Accept")

    description = f"{kind.description} {_FORMS_TOLD}"
    router.add_api_route(
        f"/charts/{kind.id}",
        post,
        methods=["POST"],
        operation_id=f"create{kind.name}",
        summary=kind.summary,
        description=description,
        responses=_FORMS | LISTING_POST_PROBLEMS | EXTRA_PROBLEMS,
        openapi_extra=body_of(kind.request),
    )
    router.add_api_route(
        f"/charts/{kind.id}",
        get,
        methods=["GET"],
        operation_id=f"get{kind.name}",
        summary=f"{kind.summary}, by query parameters",
        description=as_link(description),
        responses=_FORMS | LIST_PROBLEMS | EXTRA_PROBLEMS,
        openapi_extra=query_of(kind.request),
    )


for _kind in CHART_KINDS.values():
    _add(_kind)


@router.api_route("/charts/{kind}", methods=["GET", "POST"], include_in_schema=False)
async def no_chart(kind: str) -> Response:
    """An unknown kind of chart; the error lists the known ones."""
    raise none_of("chart", "/v1/charts", kind, CHART_KINDS)
