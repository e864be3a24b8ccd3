"""Results of sweeps: pages of JSON, or the whole as CSV or Parquet, chunk after chunk."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator
from importlib import import_module
from itertools import accumulate
from types import ModuleType
from typing import Any

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse

from service.api.http.contract import (
    EXTRA_PROBLEMS,
    KEPT_RESULT_PROBLEMS,
    Operations,
    query_parameters,
)
from service.api.http.needs import need
from service.api.http.negotiation import preferred
from service.api.http.problems import Problem, invalid
from service.api.http.queries import plain_query, whole_number
from service.api.sweeps.access import ID_PARAMETER, found, in_transaction, results_path
from service.estimation.rejection import FieldError
from service.estimation.sweeps.answers import SweepRowPage, TrainingSweepRowPage
from service.jobs import repository
from service.jobs.tables import UNFINISHED

router = Operations(prefix="/v1", tags=["sweeps"])

PARQUET = "application/vnd.apache.parquet"
_FORMS = ("application/json", "text/csv", PARQUET)
_MOST_ITEMS = 1_000
_USUAL_ITEMS = 100
#: Results do not change once they are there; whose they are is only known to whoever has the id.
_KEPT = {"Cache-Control": "private, max-age=3600", "Vary": "Authorization, Accept"}

_PAGES: dict[str, dict[str, Any]] = {
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": _MOST_ITEMS,
        "default": _USUAL_ITEMS,
        "description": "Largest number of rows per page of JSON; not allowed for tables, which "
        "are complete (422).",
    },
    "cursor": {
        "type": "string",
        "maxLength": 20,
        "description": "next_cursor of the previous page; not allowed for tables (422).",
    },
}


@router.get(
    "/sweeps/{id}/results",
    operation_id="getSweepResults",
    summary="Rows of a sweep that has succeeded, in a fixed order",
    responses={
        200: {
            "model": SweepRowPage,
            "content": {
                "text/csv": {"schema": {"type": "string"}},
                PARQUET: {"schema": {"type": "string", "format": "binary"}},
            },
        },
        **KEPT_RESULT_PROBLEMS,
        **EXTRA_PROBLEMS,
    },
    openapi_extra={"parameters": [ID_PARAMETER, *query_parameters(_PAGES)]},
)
async def get_results(http: HttpRequest) -> Response:
    """Rows as pages of JSON, or all rows as CSV or Parquet if Accept asks for it.

    Refused (409) until the sweep has succeeded.
    """
    return await _results(http)


@router.get(
    "/sweeps/training/{id}/results",
    operation_id="getTrainingSweepResults",
    summary="Rows of a sweep of training that has succeeded, in a fixed order",
    responses={
        200: {
            "model": TrainingSweepRowPage,
            "content": {
                "text/csv": {"schema": {"type": "string"}},
                PARQUET: {"schema": {"type": "string", "format": "binary"}},
            },
        },
        **KEPT_RESULT_PROBLEMS,
        **EXTRA_PROBLEMS,
    },
    openapi_extra={"parameters": [ID_PARAMETER, *query_parameters(_PAGES)]},
)
async def get_training_results(http: HttpRequest) -> Response:
    """Rows as pages of JSON, or all rows as CSV or Parquet if Accept asks for it.

    Refused (409) until the sweep has succeeded.
    """
    return await _results(http)


async def _results(http: HttpRequest) -> Response:
    """The rows of a sweep of either kind, at the address that the sweep names."""
    given = plain_query(http.query_params, _PAGES)
    limit = whole_number(given, "limit", 1, _MOST_ITEMS) or _USUAL_ITEMS
    first = whole_number(given, "cursor", 0, 2**62) or 0
    form = preferred(http.headers.get("accept", ""), _FORMS, "results")
    if form != "application/json" and given:
        raise invalid(
            [FieldError(f"/{name}", "only JSON has pages; tables are complete") for name in given]
        )
    kept = await found(http, http.path_params["id"])
    address = results_path(kept)
    if not http.url.path.endswith(address):
        raise Problem("not-found", f"the rows of this sweep are at {address}")
    _check_there(kept)
    need("sweeps")
    if form == "application/json":
        body = await _page(http, kept, first, limit)
        return Response(orjson.dumps(body), media_type=form, headers=_KEPT)
    name = f"sweep-{kept['id']}.{'csv' if form == 'text/csv' else 'parquet'}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', **_KEPT}
    chunks = _contents(http, kept)
    pieces = _csv(chunks) if form == "text/csv" else (await _tables()).as_parquet(chunks)
    return StreamingResponse(pieces, media_type=form, headers=headers)


async def _tables() -> ModuleType:
    """What reads results, loaded when some are first asked for: it takes 50 MB of memory."""
    return await asyncio.to_thread(import_module, "service.jobs.content")


def _check_there(kept: dict[str, Any]) -> None:
    status = kept["status"]
    if status == "expired":
        raise Problem("gone", "the results have expired and were deleted")
    if status in UNFINISHED:
        done = f"{kept['chunks_done']} of {kept['chunk_count']} chunks are done"
        raise Problem("conflict", f"the sweep is {status}: {done}; wait, or follow its events")
    if status != "succeeded":
        why = f": {kept['problem']}" if kept["problem"] else ""
        raise Problem("conflict", f"the sweep was {status}, so there are no results{why}")


async def _page(http: HttpRequest, kept: dict[str, Any], first: int, limit: int) -> dict[str, Any]:
    counts = await in_transaction(
        http, lambda connection: repository.chunk_rows(connection, kept["id"])
    )
    ends = list(accumulate(counts))
    items: list[dict[str, Any]] = []
    while len(items) < limit and first + len(items) < kept["rows"]:
        at = first + len(items)
        chunk = bisect_right(ends, at)
        start = ends[chunk] - counts[chunk]
        content = await _content(http, kept, chunk)
        shown = (await _tables()).shown
        items += await asyncio.to_thread(shown, content, at - start, limit - len(items))
    following = first + len(items)
    return {
        "id": str(kept["id"]),
        "catalog_revision": kept["catalog_revision"],
        "engine_version": kept["engine_version"],
        "rows": kept["rows"],
        "items": items,
        "next_cursor": str(following) if following < kept["rows"] else None,
    }


async def _content(http: HttpRequest, kept: dict[str, Any], chunk: int) -> bytes:
    content = await in_transaction(
        http, lambda connection: repository.content(connection, kept["id"], chunk)
    )
    if content is None:
        raise Problem("gone", "the results were deleted while they were being read")
    return content


async def _contents(http: HttpRequest, kept: dict[str, Any]) -> AsyncIterator[bytes]:
    for chunk in range(kept["chunk_count"]):
        yield await _content(http, kept, chunk)


async def _csv(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    header, as_csv = True, (await _tables()).as_csv
    async for content in chunks:
        yield await asyncio.to_thread(as_csv, content, header)
        header = False
