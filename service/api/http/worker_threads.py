"""Long computations beside the event loop, a few at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request as HttpRequest

from service.api.http.problems import invalid
from service.estimation.rejection import Rejected

Computed = TypeVar("Computed")

#: Long computations at once in a process; more would only slow each other down.
_AT_ONCE = 2
_LIMITERS: dict[int, CapacityLimiter] = {}


async def beside(http: HttpRequest, compute: Callable[[], Computed]) -> Computed:
    """Compute in a thread, so that short requests are answered meanwhile.

    Raises
    ------
    Problem
        If the use case rejects the request (422).
    """
    limiter = _LIMITERS.setdefault(id(http.app), CapacityLimiter(_AT_ONCE))
    try:
        return await to_thread.run_sync(compute, limiter=limiter)
    except Rejected as rejected:
        raise invalid(rejected.errors) from None
