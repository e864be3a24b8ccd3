"""Tasks that run beside everything else, until they are told to end."""

from __future__ import annotations

import asyncio
from typing import Any

#: A task that has not ended within this is cancelled again.
_AGAIN_S = 1.0


async def ended(task: asyncio.Task[Any], again_s: float = _AGAIN_S) -> None:
    """Cancel a task until it has ended; what it raised stays with it.

    A library on the way may take a cancellation for itself: before Python 3.12
    ``asyncio.wait_for`` drops one that meets the result it waits for. A loop then goes on for ever.

    Parameters
    ----------
    task
        What is to end.
    again_s
        How long it may take after each cancellation [s].
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=again_s)
