"""Long computations beside the event loop, a few at a time."""

from __future__ import annotations

import ctypes
import sys
import time
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
#: Memory is handed back no more often than this [s].
_HELD_S = 1.0
#: What the C library calls the number of heaps that threads allocate from (M_ARENA_MAX).
_HEAPS = -8


class _Memory:
    """Memory that searches took from the system, handed back once they have ended.

    The C library keeps what was let go for whoever asks next: after a few searches some 40 MB that
    nobody uses. Of its heaps, of which each thread gets its own, one is enough for threads of
    which one runs at a time; more keep what others could use.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL(None) if sys.platform == "linux" else None
        set_option = getattr(library, "mallopt", None)  # as malloc_trim
        if set_option is not None:
            set_option(_HEAPS, 1)
        self._trim = getattr(library, "malloc_trim", None)  # glibc has it, musl has not
        self._last_s = 0.0

    def hand_back(self) -> None:
        """Hand back what is unused, if that was not done just now."""
        now_s = time.monotonic()
        if self._trim is not None and now_s - self._last_s > _HELD_S:
            self._last_s = now_s
            self._trim(0)


MEMORY = _Memory()


async def beside(http: HttpRequest, compute: Callable[[], Computed]) -> Computed:
    """Compute in a thread, so that short requests are answered meanwhile.

    Raises
    ------
    Problem
        If the use case rejects the request (422).
    """

    def computed() -> Computed:
        try:
            return compute()
        finally:
            MEMORY.hand_back()

    limiter = _LIMITERS.setdefault(id(http.app), CapacityLimiter(_AT_ONCE))
    try:
        return await to_thread.run_sync(computed, limiter=limiter)
    except Rejected as rejected:
        raise invalid(rejected.errors) from None
