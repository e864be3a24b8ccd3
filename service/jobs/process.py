"""The life of a worker process: its catalog, its work, and how it ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

from service.catalog.store import CatalogStore, DatabaseUnavailable
from service.jobs.worker import SweepWorker
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
        raise DatabaseUnavailable("sweeps are kept in a database, and there is none")
    store = CatalogStore(settings)
    await store.start()
    try:
        working = asyncio.create_task(SweepWorker(store, settings).run(), name="sweep worker")
        loop = asyncio.get_running_loop()
        for told in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(told, working.cancel)
        announce()
        with suppress(asyncio.CancelledError):
            await working
    finally:
        await store.stop()
