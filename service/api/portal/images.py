"""Charts as images, drawn in processes beside the service: drawing holds the process that it is in.

A worker is started when it is first needed, kept while charts are asked for, and ended where a
chart takes too long.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from anyio import BrokenWorkerProcess, CapacityLimiter, fail_after, to_process
from starlette.requests import Request as HttpRequest

from service.api.http.needs import need
from service.api.http.problems import Problem
from service.api.http.state import shared
from service.charts.rendering import start

_LIMITERS: dict[int, CapacityLimiter] = {}
#: When a process of an application last drew something [s]. One that has nothing to do for five
#: minutes is ended, and whatever is drawn next waits for another one to start.
_DREW: dict[int, float] = {}
_KEPT_S = 240.0
#: How long one may take to start [s]: where everything is busy, longer than to draw.
_MOST_TO_START_S = 60.0
_RETRY_AFTER_S = "2"


async def beside_service(http: HttpRequest, draw: Callable[[], bytes], what: str) -> bytes:
    """What a function draws, in one of the processes for that.

    Raises
    ------
    Problem
        If that takes longer than the settings allow, waiting for others included but not until a
        process has started (503), or what draws is not installed (501).
    """
    need("images")
    settings, of = shared(http).settings, id(http.app)
    limiter = _LIMITERS.setdefault(of, CapacityLimiter(settings.chart_processes))
    detail = f"{what} was not drawn: what draws did not start within {_MOST_TO_START_S:g} s"
    try:
        if monotonic() - _DREW.get(of, -_KEPT_S) >= _KEPT_S:
            with fail_after(_MOST_TO_START_S):
                await to_process.run_sync(start, cancellable=True, limiter=limiter)
        _DREW[of] = monotonic()
        detail = f"{what} was not drawn within {settings.chart_timeout_s:g} s"
        with fail_after(settings.chart_timeout_s):
            try:
                return await to_process.run_sync(draw, cancellable=True, limiter=limiter)
            except BrokenWorkerProcess:
                # It may have been ended while it had nothing to do: another one takes its place.
                return await to_process.run_sync(draw, cancellable=True, limiter=limiter)
    except TimeoutError:
        # The process was ended.
        _DREW.pop(of, None)
    except BrokenWorkerProcess:
        detail = "the process that draws charts ended"
    raise Problem("unavailable", detail, headers={"Retry-After": _RETRY_AFTER_S})
