"""Operations on users' measurements: report, list, sum up, take away as tables."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service import ENGINE_VERSION
from service.api.http.bodies import read_request
from service.api.http.contract import (
    ITEM_PROBLEMS,
    KEPT_POST_PROBLEMS,
    LIST_PROBLEMS,
    Operations,
    body_of,
    path_parameter,
    query_parameters,
)
from service.api.http.idempotency import idempotency_key, key_parameter
from service.api.http.problems import Problem, invalid
from service.api.http.queries import plain_query, whole_number
from service.api.http.state import shared, snapshot_for
from service.api.http.tables import as_csv, wants_csv
from service.catalog.database.store import DatabaseUnavailable
from service.estimation.measurements.answers import Measurement, MeasurementPage, MeasurementSummary
from service.estimation.measurements.compared import compared_measurement
from service.estimation.measurements.requests import MeasurementRequest
from service.estimation.measurements.tables import TABLES, measurement_rows
from service.estimation.rejection import FieldError, Rejected
from service.measurements import repository

router = Operations(prefix="/v1", tags=["measurements"])

_MOST_ITEMS = 200
_USUAL_ITEMS = 50
#: Rows of a table that is taken away; more are had page by page.
_MOST_ROWS = 5_000
_RETRY_AFTER_S = "5"
_NOT_KEPT = {"Cache-Control": "no-store"}

_FILTERS: dict[str, dict[str, Any]] = {
    "model": {
        "type": "string",
        "maxLength": 200,
        "description": "Only reports of this model: its catalog id.",
    },
    "accelerator": {
        "type": "string",
        "maxLength": 200,
        "description": "Only reports of this accelerator: its catalog id.",
    },
    "kind": {
        "type": "string",
        "enum": ["inference", "training"],
        "description": "Only reports of inference, or of training.",
    },
    "metric": {
        "type": "string",
        "maxLength": 100,
        "description": "Only reports with this figure, e.g. tpot_s.",
    },
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": _MOST_ITEMS,
        "default": _USUAL_ITEMS,
        "description": "Largest number of reports per page.",
    },
    "cursor": {
        "type": "string",
        "maxLength": 30,
        "description": "next_cursor of the previous page.",
    },
}


class Table(Response):
    """A CSV table."""

    media_type = "text/csv"


@router.post(
    "/measurements",
    status_code=201,
    operation_id="createMeasurement",
    summary="Report measured figures, which are compared with the estimate and stored",
    responses={
        200: {"model": Measurement, "description": "Stored before, under the same Idempotency-Key"},
        201: {"model": Measurement},
        **KEPT_POST_PROBLEMS,
    },
    openapi_extra=body_of(MeasurementRequest)
    | {"parameters": [key_parameter("The same key stores the same report only once.")]},
)
async def create_measurement(http: HttpRequest) -> Response:
    """Compare a report with the estimate of the same deployment, and store both.

    All who may ask this service see reports, and no estimate changes by one.
    """
    key = idempotency_key(http)
    limit_bytes = shared(http).settings.body_limit_bytes
    request: MeasurementRequest = await read_request(http, MeasurementRequest, limit_bytes)
    snapshot = await snapshot_for(http, request, with_own=False)
    try:
        compared = compared_measurement(request, snapshot)
    except Rejected as rejected:
        where = "/inference/deployment" if request.inference is not None else "/training/deployment"
        raise invalid(
            [FieldError(f"{where}{error.pointer}", error.detail) for error in rejected.errors]
        ) from None
    told = request.inference or request.training
    assert told is not None  # noqa: S101 - validated to be one of the two
    report = repository.Report(
        kind=compared["kind"],
        model=compared["model"],
        accelerator=compared["accelerator"],
        family=compared["family"],
        catalog_revision=snapshot.revision,
        engine_version=ENGINE_VERSION,
        measured_on=request.measured_on,
        tool=_storable(request.tool),
        notes=_storable(request.notes),
        request=told.deployment.model_dump(mode="json", exclude_defaults=True),
        deployment=compared["deployment"],
        figures=compared["figures"],
    )
    try:
        async with shared(http).store.transaction() as connection:
            id_, new = await repository.add(connection, report, key)
            kept = await repository.one(connection, id_)
    except repository.KeyReused:
        raise Problem(
            "conflict", "this Idempotency-Key was used for another report; use a new one"
        ) from None
    except DatabaseUnavailable as error:
        raise _unavailable(error) from None
    assert kept is not None  # noqa: S101 - it has just been added
    headers = {"Location": f"/v1/measurements/{id_}", **_NOT_KEPT}
    answer = _shown(kept) | {"warnings": compared["warnings"]}
    return Response(
        orjson.dumps(answer), 201 if new else 200, headers=headers, media_type="application/json"
    )


@router.get(
    "/measurements",
    operation_id="listMeasurements",
    summary="List reported measurements with their errors, newest first",
    responses={
        200: {"model": MeasurementPage, "content": {"text/csv": {"schema": {"type": "string"}}}},
        **LIST_PROBLEMS,
    },
    openapi_extra={"parameters": query_parameters(_FILTERS)},
)
async def list_measurements(http: HttpRequest) -> Response:
    """One page of reports as JSON, or as CSV with a line per figure if Accept asks for it."""
    given = plain_query(http.query_params, _FILTERS)
    limit = whole_number(given, "limit", 1, _MOST_ITEMS) or _USUAL_ITEMS
    table = wants_csv(http.headers.get("accept", ""))
    wanted = repository.Filter(
        model=_storable(given.get("model")),
        accelerator=_storable(given.get("accelerator")),
        kind=given.get("kind"),
        metric=_storable(given.get("metric")),
        before=whole_number(given, "cursor", 1, 2**62),
    )
    found = await _read(http, lambda connection: repository.page(connection, wanted, limit + 1))
    items, more = found[:limit], len(found) > limit
    if table:
        return Response(as_csv(_lines(items)), media_type="text/csv", headers=_NOT_KEPT)
    body = {
        "items": [_shown(row) for row in items],
        "next_cursor": str(items[-1]["id"]) if more else None,
    }
    return Response(orjson.dumps(body), media_type="application/json", headers=_NOT_KEPT)


@router.get(
    "/measurements/summary",
    operation_id="getMeasurementSummary",
    summary="Errors of estimates by model, accelerator and metric, over all reports",
    responses={200: {"model": MeasurementSummary}, **LIST_PROBLEMS},
)
async def get_summary(http: HttpRequest) -> Response:
    """Count, mean and median error of each metric, and how often it was inside the interval."""
    plain_query(http.query_params, {})
    items = await _read(http, repository.summary)
    return Response(
        orjson.dumps({"items": items}), media_type="application/json", headers=_NOT_KEPT
    )


@router.get(
    "/measurements/tables/{table}",
    operation_id="getMeasurementTable",
    summary="Reports as a table for `headroom validate --data`",
    response_class=Table,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}, **ITEM_PROBLEMS},
    openapi_extra={
        "parameters": [
            path_parameter(
                "table",
                "Table of inference reports: memory figures or speed figures.",
                {"type": "string", "enum": list(TABLES)},
            )
        ]
    },
)
async def get_table(http: HttpRequest) -> Response:
    """Reports of inference as rows of one measured number each.

    The newest 5,000 reports, without those of models that are not in the catalog.
    """
    plain_query(http.query_params, {})
    table: str = http.path_params["table"]
    if table not in TABLES:
        raise Problem("not-found", f"no such table; choose from {', '.join(TABLES)}")
    wanted = repository.Filter(kind="inference")
    found = await _read(http, lambda connection: repository.page(connection, wanted, _MOST_ROWS))
    return Table(as_csv(measurement_rows(table, found)), headers=_NOT_KEPT)


@router.get(
    "/measurements/{id}",
    operation_id="getMeasurement",
    summary="One reported measurement",
    responses={200: {"model": Measurement}, **ITEM_PROBLEMS},
    openapi_extra={
        "parameters": [
            path_parameter("id", "Number of the report.", {"type": "integer", "minimum": 1})
        ]
    },
)
async def get_measurement(http: HttpRequest) -> Response:
    """One report with its figures and the estimate at the time it was made."""
    plain_query(http.query_params, {})
    text: str = http.path_params["id"]
    id_ = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    kept = await _read(http, lambda connection: repository.one(connection, id_)) if id_ else None
    if kept is None:
        raise Problem("not-found", "no such measurement")
    return Response(orjson.dumps(_shown(kept)), media_type="application/json", headers=_NOT_KEPT)


async def _read(http: HttpRequest, read: Any) -> Any:
    try:
        async with shared(http).store.transaction() as connection:
            return await read(connection)
    except DatabaseUnavailable as error:
        raise _unavailable(error) from None


def _unavailable(error: Exception) -> Problem:
    return Problem(
        "unavailable",
        f"measurements are stored in the database, which cannot be reached: {error}",
        headers={"Retry-After": _RETRY_AFTER_S},
    )


def _storable(text: str | None) -> str | None:
    """Text without what Postgres cannot hold."""
    if text is None:
        return None
    return text.replace("\0", "").encode("utf-8", "replace").decode()


_HIDDEN = ("idempotency_key", "request_hash")


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in row.items() if name not in _HIDDEN}
    shown["created_at"] = row["created_at"].isoformat()
    shown["measured_on"] = row["measured_on"].isoformat() if row["measured_on"] else None
    return shown


def _lines(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line for each figure."""
    told = ("id", "kind", "model", "accelerator", "family", "catalog_revision", "engine_version")
    return [
        {name: row[name] for name in told}
        | {"measured_on": row["measured_on"].isoformat() if row["measured_on"] else ""}
        | {"tool": row["tool"] or "", "notes": row["notes"] or ""}
        | figure
        for row in items
        for figure in row["figures"]
    ]
