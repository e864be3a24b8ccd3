"""The life of a worker process: its catalog, its work, and how it ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

from service.background import ended
from service.catalog.database.store import CatalogStore, DatabaseUnavailable
from service.jobs.worker import LONGEST_END_S, SweepWorker
from service.settings import Settings


async def work(settings: Settings, announce: Callable[[], None]) -> None:
    """Evaluate chunks of sweeps until the process is told to end (SIGTERM, SIGINT).

    Parameters
    ----------
    settings
        How it is set up.
    announce
        Called once when work can begin.

    Raises
    ------
    DatabaseUnavailable
        If it is set up to have no database.
    """
    if settings.database_url is None and not settings.embedded_database:
        raise DatabaseUnavailable("sweeps need a database, and there is none")
    store = CatalogStore(settings)
    await store.start()
    try:
        working = asyncio.create_task(SweepWorker(store, settings).run(), name="sweep worker")
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(sign, told.set)
        announce()
        telling = asyncio.create_task(told.wait())
        await asyncio.wait({working, telling}, return_when=asyncio.FIRST_COMPLETED)
        await ended(telling)
        await ended(working, again_s=LONGEST_END_S)
        with suppress(asyncio.CancelledError):
            working.result()
    finally:
        await store.stop()
