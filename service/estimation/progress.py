"""Who is told how far a search is, within a block of the program that waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from service.core.search.progress import Told, nobody

_TOLD: ContextVar[Told] = ContextVar("told", default=nobody)


@contextmanager
def watched_by(told: Told) -> Iterator[None]:
    """Tells the share of each search that is done, within its block and nowhere else.

    What ``told`` raises ends the search.
    """
    token = _TOLD.set(told)
    try:
        yield
    finally:
        _TOLD.reset(token)


def watcher() -> Told:
    """Whom searches tell how far they are."""
    return _TOLD.get()
