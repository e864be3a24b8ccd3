"""Operations on users' measurements: report, list, sum up, take away as a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service import ENGINE_VERSION
from service.access.keys import Caller
from service.api.http.bodies import read_request
from service.api.http.contract import (
    ITEM_PROBLEMS,
    KEPT_REPORT_PROBLEMS,
    KEYED_PROBLEMS,
    LIST_PROBLEMS,
    Operations,
    body_of,
    path_parameter,
    query_parameters,
)
from service.api.http.idempotency import idempotency_key, key_parameter
from service.api.http.problems import Problem, invalid
from service.api.http.queries import plain_query, whole_number
from service.api.http.state import caller, organisation_of, shared, snapshot_for
from service.api.http.tables import as_csv, wants_csv
from service.catalog.database.store import DatabaseUnavailable
from service.estimation.answers import warning_entries
from service.estimation.measurements.answers import (
    Measurement,
    MeasurementPage,
    MeasurementSummary,
    measured_figure,
)
from service.estimation.measurements.compared import ComparedDocument, compared
from service.estimation.measurements.requests import MeasurementRequest
from service.estimation.rejection import FieldError, Rejected
from service.estimation.remarks import told
from service.measurements import repository
from service.settings import Settings

router = Operations(prefix="/v1", tags=["measurements"])

_MOST_ITEMS = 200
_USUAL_ITEMS = 50
#: Reports in a file that is taken away; more are had page by page.
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
        "enum": ["inference", "training", "impacts"],
        "description": "Only reports of inference, of training, or of impacts.",
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


#: What the service itself calls who reported to it, in files that are taken away.
_SOURCE = "reported"


class JsonLines(Response):
    """JSON values, one a line."""

    media_type = "application/jsonl"


@router.post(
    "/measurements",
    status_code=201,
    operation_id="createMeasurement",
    summary="Report measured figures, which are compared with the estimate and stored",
    responses={
        200: {"model": Measurement, "description": "Stored before, under the same Idempotency-Key"},
        201: {"model": Measurement},
        **KEPT_REPORT_PROBLEMS,
    },
    openapi_extra=body_of(MeasurementRequest)
    | {"parameters": [key_parameter("The same key stores the same report only once.")]},
)
async def create_measurement(http: HttpRequest) -> Response:
    """Compare a report with the published estimate of the same deployment, and store both.

    A report with an API key is seen by its organisation alone, and corrects what it is answered
    from then on. One without is seen by all who may ask this service.
    """
    known = caller(http)
    key = report_key(http, known)
    limit_bytes = shared(http).settings.body_limit_bytes
    document: MeasurementRequest = await read_request(http, MeasurementRequest, limit_bytes)
    snapshot = await snapshot_for(http, document.request)
    try:
        found = compared(document, snapshot.with_reports(None))
    except Rejected as rejected:
        raise invalid(
            [replace(error, pointer=f"/request{error.pointer}") for error in rejected.errors]
        ) from None
    if found.is_empty:
        raise invalid(
            [FieldError(f"/measured/{name}", reason) for name, reason in found.refused.items()]
        )
    [(id_, new)] = await keep(http, known, [(report_of(found, snapshot.revision), key)])
    kept = await _read(
        http, lambda connection: repository.one(connection, id_, organisation_of(known))
    )
    if kept is None:
        raise Problem("gone", f"report {id_} was withdrawn; send it under a new Idempotency-Key")
    headers = {"Location": f"/v1/measurements/{id_}", **_NOT_KEPT}
    answer = _shown(kept) | {
        "refused": [{"metric": name, "reason": why} for name, why in found.refused.items()],
        "warnings": warning_entries(found.computed.warnings),
    }
    answer = told(answer, Measurement, document, snapshot)
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
        organisation=organisation_of(caller(http)),
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
    whose = organisation_of(caller(http))
    items = await _read(http, lambda connection: repository.summary(connection, whose))
    return Response(
        orjson.dumps({"items": items}), media_type="application/json", headers=_NOT_KEPT
    )


@router.get(
    "/measurements/documents",
    operation_id="exportMeasurements",
    summary="Reports as a file for `headroom validate --data`, one JSON document a line",
    response_class=JsonLines,
    responses={
        200: {"content": {"application/jsonl": {"schema": {"type": "string"}}}},
        **LIST_PROBLEMS,
    },
)
async def export_measurements(http: HttpRequest) -> Response:
    """The newest 5,000 reports in the form that POST /v1/measurements takes."""
    plain_query(http.query_params, {})
    wanted = repository.Filter(organisation=organisation_of(caller(http)))
    found = await _read(http, lambda connection: repository.page(connection, wanted, _MOST_ROWS))
    lines = [orjson.dumps(_document(row)) + b"\n" for row in found]
    return JsonLines(b"".join(lines), headers=_NOT_KEPT)


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
    kept = await _read(http, lambda connection: _asked_for(http, connection))
    return Response(orjson.dumps(_shown(kept)), media_type="application/json", headers=_NOT_KEPT)


@router.delete(
    "/measurements/{id}",
    status_code=204,
    operation_id="withdrawMeasurement",
    summary="Withdraw a report of your organisation",
    responses=KEYED_PROBLEMS,
    openapi_extra={
        "parameters": [
            path_parameter("id", "Number of the report.", {"type": "integer", "minimum": 1})
        ]
    },
)
async def withdraw_measurement(http: HttpRequest) -> Response:
    """Show a report to nobody from now on, and let it correct nothing.

    Estimates of an older calibration_revision that used it cannot be repeated any more (410).
    """
    plain_query(http.query_params, {})
    known = caller(http)
    try:
        async with shared(http).store.transaction() as connection:
            kept = await _asked_for(http, connection)
            if known is None or kept["organisation"] != known.organisation:
                raise Problem("forbidden", "a report is withdrawn with a key of who reported it")
            await repository.withdraw(connection, kept["id"], _reporter(known))
    except DatabaseUnavailable as error:
        raise _unavailable(error) from None
    await shared(http).store.refresh()
    return Response(status_code=204)


async def _asked_for(http: HttpRequest, connection: AsyncConnection) -> dict[str, Any]:
    """The report of the path.

    Raises
    ------
    Problem
        If there is none that the caller sees (404).
    """
    text: str = http.path_params["id"]
    id_ = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    kept = await repository.one(connection, id_, organisation_of(caller(http))) if id_ else None
    if kept is None:
        raise Problem("not-found", "no such measurement")
    return kept


def _reporter(known: Caller | None) -> repository.Reporter:
    if known is None:
        return repository.Reporter()
    return repository.Reporter(known.organisation, known.author)


def _quota(settings: Settings) -> repository.Quota:
    return repository.Quota(settings.measurement_limit_reports, settings.measurement_limit_bytes)


def report_key(http: HttpRequest, known: Caller | None) -> str | None:
    """The idempotency key of a request, among those of its caller's organisation.

    Raises
    ------
    Problem
        If it is no decent key (422).
    """
    key = idempotency_key(http)
    if key is None or known is None:
        return key
    return f"{known.organisation}/{key}"  # what others call their reports is their affair


async def keep(
    http: HttpRequest,
    known: Caller | None,
    reports: Iterable[tuple[repository.Report, str | None]],
) -> list[tuple[int, bool]]:
    """Store a caller's reports, each under its idempotency key: all of them or none.

    Returns
    -------
    list of (int, bool)
        Their numbers, and whether they are new.

    Raises
    ------
    Problem
        If a key stands for another report (409), the caller's room is used up (403), or the
        database cannot be reached (503).
    """
    reporter, quota = _reporter(known), _quota(shared(http).settings)
    try:
        async with shared(http).store.transaction() as connection:
            kept = [
                await repository.add(connection, report, reporter, quota, key)
                for report, key in reports
            ]
    except repository.KeyReused:
        raise Problem(
            "conflict", "this Idempotency-Key was used for another report; use a new one"
        ) from None
    except repository.NoRoom as full:
        raise Problem("quota-reached", str(full)) from None
    except DatabaseUnavailable as error:
        raise _unavailable(error) from None
    await shared(http).store.refresh()
    return kept


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


def _without_nul(given: Any) -> Any:
    """Plain data without what Postgres cannot hold in its texts."""
    if isinstance(given, dict):
        return {_storable(name): _without_nul(value) for name, value in given.items()}
    if isinstance(given, list):
        return [_without_nul(value) for value in given]
    return _storable(given) if isinstance(given, str) else given


def _storable(text: str | None) -> str | None:
    """Text without what Postgres cannot hold."""
    if text is None:
        return None
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def report_of(found: ComparedDocument, revision: int) -> repository.Report:
    """A compared document as it is kept."""
    computed = found.computed
    return repository.Report(
        kind=computed.kind,
        model=computed.model,
        accelerator=computed.accelerator,
        family=computed.family,
        catalog_revision=revision,
        engine_version=ENGINE_VERSION,
        document=_without_nul(found.document.model_dump(mode="json", exclude_defaults=True)),
        deployment=computed.deployment,
        out_of_memory_foreseen=found.foresaw,
        figures=[measured_figure(one) for one in found.figures],
    )


def _document(row: dict[str, Any]) -> dict[str, Any]:
    """A report as a document of a file, under its number."""
    reported: dict[str, Any] = row["document"]
    return {"source": _SOURCE} | reported | {"id": f"measurement-{row['id']}"}


_HIDDEN = ("idempotency_key", "request_hash", "kept_bytes")


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in row.items() if name not in _HIDDEN}
    shown["created_at"] = row["created_at"].isoformat()
    return shown


def _lines(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line for each figure."""
    told = ("id", "kind", "model", "accelerator", "family", "catalog_revision", "engine_version")
    return [
        {name: row[name] for name in told}
        | {name: row["document"].get(name, "") for name in ("measured_on", "tool", "notes")}
        | figure
        for row in items
        for figure in row["figures"]
    ]
