"""Bounds within which a parser has to end, whatever it reads."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

#: Memory beyond what the process has before; the largest input is far below a megabyte.
MOST_BYTES = 1_000_000_000
#: After this long a parser hangs: sound inputs take milliseconds.
_HANGS_S = 300


class Hangs(AssertionError):
    """A parser did not come back."""


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Let the process have so much more memory, where the system can hold it to that."""
    if sys.platform != "linux":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.Process().memory_info().vms + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def coming_back() -> Iterator[None]:
    """Turn what hangs into a failure that shows the input."""

    def hangs(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(_HANGS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
