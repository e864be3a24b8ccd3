"""Reports: the footprint of `/v1/impacts` as standards and laws ask for it, as JSON or as CSV."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from fastapi import Path
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.bodies import read_request
from service.api.http.caching import confirmed_or, entity_tag
from service.api.http.contract import (
    REPORT_GET_PROBLEMS,
    REPORT_POST_PROBLEMS,
    Operations,
    as_link,
    body_of,
    query_of,
)
from service.api.http.hub_models import with_hub_models
from service.api.http.problems import invalid, none_of
from service.api.http.queries import linked_request
from service.api.http.state import shared, snapshot_for
from service.api.http.tables import TABLE, as_csv, wants_csv
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.rejection import Rejected
from service.estimation.reports.answers import ReportAnswer
from service.estimation.reports.lines import flat_lines
from service.estimation.reports.reports import report_answer
from service.estimation.reports.requests import ReportRequest
from service.estimation.reports.tables import KINDS

router = Operations(prefix="/v1", tags=["reports"])

Kind = Annotated[
    str,
    Path(
        description="Standard or law of the report: "
        + "; ".join(f"{id_}: {kind.standard}" for id_, kind in KINDS.items())
        + ".",
        json_schema_extra={"enum": list(KINDS)},
    ),
]
_DESCRIPTION = (
    "The footprint of /v1/impacts in the form of the standard or law, as JSON, or as CSV if "
    "Accept asks for it. Lines that need metered or organisational facts (disclosure) are null "
    "without them."
)
_SHAPES: dict[int | str, dict[str, Any]] = {200: {"model": ReportAnswer, "content": TABLE}}


@router.post(
    "/reports/{kind}",
    operation_id="createReport",
    summary="A footprint in the form that a standard or a law requires",
    description=_DESCRIPTION,
    responses=_SHAPES | REPORT_POST_PROBLEMS,
    openapi_extra=body_of(ReportRequest),
)
async def create_report(http: HttpRequest, kind: Kind) -> Response:
    """Report on what a body describes."""
    table = _wanted(http, kind)
    limit_bytes = shared(http).settings.body_limit_bytes
    request: Any = await read_request(http, ReportRequest, limit_bytes)
    return _respond(kind, request, await snapshot_for(http, request), table)


@router.get(
    "/reports/{kind}",
    operation_id="getReport",
    summary="A footprint in the form that a standard or a law requires, by query parameters",
    description=as_link(_DESCRIPTION),
    responses=_SHAPES | REPORT_GET_PROBLEMS,
    openapi_extra=query_of(ReportRequest),
)
async def get_report(http: HttpRequest, kind: Kind) -> Response:
    """Report on what query parameters describe."""
    table = _wanted(http, kind)
    asked: Any = await linked_request(http, ReportRequest)
    request = await with_hub_models(asked, shared(http).hub)
    snapshot = await snapshot_for(http, request)
    form = "csv" if table else "json"
    tag = entity_tag(snapshot, http.url.path, form, request.model_dump_json())
    return confirmed_or(http, tag, lambda: _respond(kind, request, snapshot, table), "Accept")


def _wanted(http: HttpRequest, kind: str) -> bool:
    """Whether a table is wanted, of a kind of report that there is."""
    if kind not in KINDS:
        raise none_of("report", "/v1/reports", kind, KINDS)
    return wants_csv(http.headers.get("accept", ""))


def _respond(kind: str, request: ReportRequest, snapshot: CatalogSnapshot, table: bool) -> Response:
    try:
        report = report_answer(kind, request, snapshot)
    except Rejected as rejected:
        raise invalid(rejected.errors) from None
    if table:
        return Response(as_csv(flat_lines(report)), media_type="text/csv")
    return Response(orjson.dumps(report), media_type="application/json")
