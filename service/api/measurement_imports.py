"""Files that benchmarks, trainers and meters write, as reports: all of a file or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.bodies import read_request
from service.api.http.contract import KEPT_REPORT_PROBLEMS, Operations, body_of
from service.api.http.hub_models import with_hub_models
from service.api.http.idempotency import key_parameter
from service.api.http.problems import Problem, invalid
from service.api.http.state import caller, current_snapshot, shared
from service.api.measurements import keep, report_key, report_of
from service.estimation.measurements.imports.answers import MeasurementImport
from service.estimation.measurements.imports.imported import (
    import_answer,
    understood_file,
    with_estimates,
)
from service.estimation.measurements.imports.reading import FileFault, FileRefused
from service.estimation.measurements.imports.requests import MeasurementImportRequest
from service.estimation.rejection import FieldError

router = Operations(prefix="/v1", tags=["measurements"])

_MOST_ERRORS = 1_000


@router.post(
    "/measurements/imports",
    status_code=201,
    operation_id="importMeasurements",
    summary="Import what a benchmark, a trainer or a meter wrote, with a dry run",
    responses={
        200: {"model": MeasurementImport, "description": "A dry run: nothing was stored"},
        201: {"model": MeasurementImport},
        **KEPT_REPORT_PROBLEMS,
    },
    openapi_extra=body_of(MeasurementImportRequest)
    | {"parameters": [key_parameter("The same key stores the same file only once.")]},
)
async def import_measurements(http: HttpRequest) -> Response:
    """Read a file, complete it by what you say of the deployment, and store a report for each run.

    A dry run answers what was understood, what is missing, and each figure beside its estimate.
    """
    known = caller(http)
    key = report_key(http, known)
    limit_bytes = shared(http).settings.import_limit_bytes
    asked: MeasurementImportRequest = await read_request(
        http, MeasurementImportRequest, limit_bytes
    )
    snapshot = (await current_snapshot(http)).with_reports(None)
    try:
        file = await asyncio.to_thread(
            understood_file,
            asked.data(),
            asked.deployment,
            snapshot,
            name=asked.name,
            format_id=asked.format,
        )
    except FileRefused as refused:
        raise _refused(_in_request(fault, asked) for fault in refused.faults) from None
    documents = [
        None if document is None else await with_hub_models(document, shared(http).hub)
        for document in file.documents
    ]
    file = await asyncio.to_thread(with_estimates, file, documents, snapshot)
    stored: list[int] = []
    if not asked.dry_run:
        if file.faults:
            raise _refused(file.faults)
        reports = (
            (report_of(run.found, snapshot.revision), None if key is None else f"{key}/{index}")
            for index, run in enumerate(file.runs)
            if run.found is not None
        )
        stored = [id_ for id_, _ in await keep(http, known, reports)]
    answer = import_answer(file, dry_run=asked.dry_run, stored=stored)
    return Response(
        orjson.dumps(answer),
        200 if asked.dry_run else 201,
        headers={"Cache-Control": "no-store"},
        media_type="application/json",
    )


def _in_request(fault: FileFault, asked: MeasurementImportRequest) -> FileFault:
    """A fault of the file as one of the field that brought it; its detail tells the place."""
    if fault.pointer.startswith(("/deployment", "/format")):
        return fault
    field = "/content" if asked.content_base64 is None else "/content_base64"
    place = f"{fault.pointer}: " if fault.pointer else ""
    return replace(fault, pointer=field, detail=place + fault.detail)


def _refused(faults: Iterable[FileFault]) -> Problem:
    """Every fault with its place; nothing has been stored."""
    return invalid(
        (
            FieldError(fault.pointer, fault.detail, *(fault.position or (None, None)))
            for fault in faults
        ),
        most=_MOST_ERRORS,
    )
