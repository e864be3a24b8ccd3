"""Charts as images, drawn in processes beside the service: drawing holds the process that it is in.

A worker is started when it is first needed, kept while charts are asked for, and ended where a
chart takes too long.
"""

from __future__ import annotations

from collections.abc import Callable

from anyio import BrokenWorkerProcess, CapacityLimiter, fail_after, to_process
from starlette.requests import Request as HttpRequest

from service.api.http.needs import need
from service.api.http.problems import Problem
from service.api.http.state import shared

_LIMITERS: dict[int, CapacityLimiter] = {}
_RETRY_AFTER_S = "2"


async def beside_service(http: HttpRequest, draw: Callable[[], bytes], what: str) -> bytes:
    """What a function draws, in one of the processes for that.

    Raises
    ------
    Problem
        If that takes longer than the settings allow, waiting for others included (503), or what
        draws is not installed (501).
    """
    need("images")
    settings = shared(http).settings
    limiter = _LIMITERS.setdefault(id(http.app), CapacityLimiter(settings.chart_processes))
    try:
        with fail_after(settings.chart_timeout_s):
            try:
                return await to_process.run_sync(draw, cancellable=True, limiter=limiter)
            except BrokenWorkerProcess:
                # It may have been ended while it had nothing to do: another one takes its place.
                return await to_process.run_sync(draw, cancellable=True, limiter=limiter)
    except TimeoutError:
        detail = f"{what} was not drawn within {settings.chart_timeout_s:g} s"
    except BrokenWorkerProcess:
        detail = "the process that draws charts ended"
    raise Problem("unavailable", detail, headers={"Retry-After": _RETRY_AFTER_S})
