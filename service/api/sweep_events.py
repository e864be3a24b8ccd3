"""Progress of sweeps as server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import orjson
from fastapi import APIRouter
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse

from service.api.contract import KEPT_ITEM_PROBLEMS
from service.api.problems import Problem
from service.api.queries import plain_query
from service.api.sweep_access import ID_PARAMETER, NOT_KEPT, answered, found
from service.jobs.tables import UNFINISHED

router = APIRouter(prefix="/v1", tags=["sweeps"])

#: Seconds between looks at the progress of a sweep that somebody watches, between signs of life
#: on a connection with no news, and after which a watcher has to connect anew.
_LOOK_EVERY_S = 1.0
_QUIET_S = 15.0
_LONGEST_WATCH_S = 3600.0
_RETRY_MS = 5000


class Events(StreamingResponse):
    """A stream of server-sent events."""

    media_type = "text/event-stream"


@router.get(
    "/sweeps/{id}/events",
    operation_id="watchSweep",
    summary="Progress of a sweep as server-sent events: `progress`, and at the end `finished`",
    response_class=Events,
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
        **KEPT_ITEM_PROBLEMS,
    },
    openapi_extra={"parameters": [ID_PARAMETER]},
)
async def watch_sweep(http: HttpRequest) -> Response:
    """Tell of a sweep's progress until it is finished."""
    plain_query(http.query_params, {})
    kept = await found(http, http.path_params["id"])
    return Events(_events(http, kept), headers=NOT_KEPT)


async def _events(http: HttpRequest, kept: dict[str, Any]) -> AsyncIterator[bytes]:
    began_s = told_s = time.monotonic()
    told: bytes | None = None
    while time.monotonic() - began_s < _LONGEST_WATCH_S:
        ended = kept["status"] not in UNFINISHED
        shown = await answered(http, kept)
        del shown["request"]
        news = orjson.dumps(shown)
        if news != told:
            event = "finished" if ended else "progress"
            yield format_sse_event(data_str=news.decode(), event=event, retry=_RETRY_MS)
            told, told_s = news, time.monotonic()
        elif time.monotonic() - told_s > _QUIET_S:
            yield KEEPALIVE_COMMENT
            told_s = time.monotonic()
        if ended:
            return
        await asyncio.sleep(_LOOK_EVERY_S)
        try:
            kept = await found(http, str(kept["id"]))
        except Problem:
            # Deleted, or the database is away: whoever connects anew is told which.
            return
