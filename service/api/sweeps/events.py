"""Progress of sweeps as server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import orjson
from anyio import CapacityLimiter
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from service.api.http.contract import KEPT_ITEM_PROBLEMS, Operations, one_of
from service.api.http.problems import Problem
from service.api.http.queries import plain_query
from service.api.http.state import RETRY_AFTER_S, shared
from service.api.sweeps.access import ID_PARAMETER, NOT_KEPT, answered, found
from service.estimation.sweeps.answers import SweepInterruption, SweepNews
from service.jobs.tables import UNFINISHED

router = Operations(prefix="/v1", tags=["sweeps"])

#: Seconds between looks at the progress of a sweep that somebody watches, between signs of life
#: on a connection with no news, and after which a watcher has to connect anew.
_LOOK_EVERY_S = 1.0
_QUIET_S = 15.0
_LONGEST_WATCH_S = 3600.0
_RETRY_MS = 5000
#: The listener is closed before the streams end, so that whoever comes back meets another process.
_AT_ONCE_MS = 500
_STOPPING: SweepInterruption = {
    "event": "reconnect",
    "detail": "this process is stopping; reconnect to continue",
}


class Events(StreamingResponse):
    """A stream of server-sent events, one of as many as the process keeps."""

    media_type = "text/event-stream"

    def __init__(
        self, content: AsyncIterator[bytes], watchers: CapacityLimiter, status_code: int = 200
    ) -> None:
        super().__init__(content, status_code, headers=NOT_KEPT)
        self._watchers = watchers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        async with self._watchers:
            await super().__call__(scope, receive, send)


@router.get(
    "/sweeps/{id}/events",
    operation_id="watchSweep",
    summary="Progress of a sweep as server-sent events: `progress`, and `finished` at the end; "
    "`reconnect` when the service is about to stop",
    response_class=Events,
    responses={
        200: {
            "description": "Each event's data is JSON that names the event, too",
            "content": {"text/event-stream": one_of(SweepNews, SweepInterruption)},
        },
        **KEPT_ITEM_PROBLEMS,
    },
    openapi_extra={"parameters": [ID_PARAMETER]},
)
async def watch_sweep(http: HttpRequest) -> Response:
    """Stream the progress of a sweep until it is finished.

    The data of progress and finished is the sweep without its request; after reconnect, connect
    anew, as browsers do by themselves. A stream ends after an hour at the latest: connect again to
    go on watching.
    """
    plain_query(http.query_params, {})
    kept = await found(http, http.path_params["id"])
    watchers = shared(http).watchers
    if watchers.available_tokens < 1:
        detail = "this process already streams as many sweeps as it can"
        raise Problem("unavailable", detail, headers={"Retry-After": RETRY_AFTER_S})
    return Events(_events(http, kept), watchers)


async def _events(http: HttpRequest, kept: dict[str, Any]) -> AsyncIterator[bytes]:
    draining = shared(http).draining
    began_s = told_s = time.monotonic()
    told: bytes | None = None
    while time.monotonic() - began_s < _LONGEST_WATCH_S:
        ended = kept["status"] not in UNFINISHED
        shown = await answered(http, kept)
        del shown["request"]
        event = "finished" if ended else "progress"
        news = orjson.dumps({"event": event, **shown})
        if news != told:
            yield format_sse_event(data_str=news.decode(), event=event, retry=_RETRY_MS)
            told, told_s = news, time.monotonic()
        elif time.monotonic() - told_s > _QUIET_S:
            yield KEEPALIVE_COMMENT
            told_s = time.monotonic()
        if ended:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_EVERY_S):
                await draining.wait()
            stopping = orjson.dumps(_STOPPING).decode()
            yield format_sse_event(data_str=stopping, event="reconnect", retry=_AT_ONCE_MS)
            return
        try:
            kept = await found(http, str(kept["id"]))
        except Problem:
            # Deleted, or the database is away: whoever connects anew is told which.
            return
