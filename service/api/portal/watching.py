"""Pages whose search is watched: its progress as server-sent events, and then the page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import orjson
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, Response, StreamingResponse

from service.api.http.problems import Problem
from service.api.http.worker_threads import beside
from service.api.portal.learning import problem_page
from service.core.errors import HeadroomError
from service.estimation.progress import watched_by

_log = logging.getLogger("headroom.access")
_EVENTS = "text/event-stream"
#: Seconds between looks at how far a search is, and after which a silent connection shows life.
_LOOK_EVERY_S = 0.1
_QUIET_S = 15.0


class _LeftError(HeadroomError):
    """Nobody waits for a search any more."""


@dataclass(slots=True)
class _Watch:
    """How far a search is [-], and whether anybody still waits for it."""

    done_ratio: float = 0.0
    left: bool = False

    def told(self, done_ratio: float) -> None:
        """Note the share that is done, or end the search."""
        if self.left:
            raise _LeftError
        # A second search, for what the first did not find, does not set the bar back.
        self.done_ratio = max(self.done_ratio, done_ratio)


def wants_events(http: HttpRequest) -> bool:
    """Whether the page asks for events, as scripts do; browsers that open a link do not."""
    return http.headers.get("accept", "").partition(";")[0].strip() == _EVENTS


def watched(
    http: HttpRequest, show: Callable[[], str], refused: Callable[[Problem], Response]
) -> Response:
    """The progress of a search as events, the last of which has the page.

    ``progress`` events have ``done_ratio``, and ``finished`` the ``status`` and ``html`` of the
    page, also where the search fails. One that nobody waits for any more ends.
    """
    watch = _Watch()

    def shown() -> str:
        with watched_by(watch.told):
            return show()

    async def page() -> Response:
        try:
            return HTMLResponse(await beside(http, shown))
        except Problem as problem:
            return refused(problem)
        except _LeftError:
            raise
        except Exception:
            # The stream has begun, so that no other layer could tell whoever watches.
            _log.exception("a search failed", extra={"request_id": http.scope["request_id"]})
            return problem_page(http, Problem("internal-error", "the fault has been logged"))

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(page(), watch), media_type=_EVENTS, headers=headers)


async def _events(page: Awaitable[Response], watch: _Watch) -> AsyncIterator[bytes]:
    searching = asyncio.ensure_future(page)
    told_ratio, quiet_s = -1.0, 0.0
    try:
        while not (await asyncio.wait({searching}, timeout=_LOOK_EVERY_S))[0]:
            quiet_s += _LOOK_EVERY_S
            if watch.done_ratio != told_ratio:
                told_ratio, quiet_s = watch.done_ratio, 0.0
                yield _event("progress", {"done_ratio": round(told_ratio, 3)})
            elif quiet_s > _QUIET_S:
                quiet_s = 0.0
                yield KEEPALIVE_COMMENT
        found = searching.result()
        html = bytes(found.body).decode()
        yield _event("finished", {"status": found.status_code, "html": html})
    finally:
        watch.left = True
        searching.add_done_callback(_ignored)


def _ignored(searching: asyncio.Future[Response]) -> None:
    """Take note of how a search ended that nobody waits for."""
    with suppress(asyncio.CancelledError):
        searching.exception()


def _event(name: str, data: dict[str, object]) -> bytes:
    return format_sse_event(data_str=orjson.dumps(data).decode(), event=name)
