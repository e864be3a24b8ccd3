"""A worker: takes chunks from the queue, evaluates them, keeps what they came to, once each."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from typing import Any
from uuid import UUID

from procrastinate import App

from service.background import ended
from service.catalog.database.store import CatalogStore, DatabaseUnavailable
from service.estimation.sweeps.kinds import (
    AnyStudy,
    asked_sweep,
    evaluated_chunk,
    resolved_sweep,
)
from service.jobs import repository
from service.jobs.consumer import queue_app, revive
from service.jobs.queue import QUEUE, withdraw
from service.jobs.repository import DoneChunk
from service.settings import Settings

_log = logging.getLogger(__name__)

#: Heartbeats that a worker may miss before its jobs are taken over.
_MISSED_BEATS = 3
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_LAST_CHUNK_S = 20.0
#: A worker that has not ended by then has missed that it was told to.
LONGEST_END_S = _LAST_CHUNK_S + 10.0
_EXPIRY_EVERY_S = 3600.0
_KEPT_STUDIES = 4


class SweepWorker:
    """Works until it is cancelled, and comes back when the database does."""

    def __init__(self, store: CatalogStore, settings: Settings) -> None:
        self._store, self._settings = store, settings
        # A worker meets the chunks of a few sweeps in turn.
        self._studies: OrderedDict[UUID, AnyStudy] = OrderedDict()

    async def run(self) -> None:
        """Work; when cancelled, end the chunk at hand first if that takes no more than a while."""
        pause_s = _FIRST_PAUSE_S
        while True:
            began_s = time.monotonic()
            try:
                await self._work()
                problem = "the queue's listener ended"
            except Exception as error:
                problem = f"{type(error).__name__}: {error}".split("\n")[0][:300]
            _log.warning("The queue of sweeps cannot be reached: %s", problem)
            lasted = time.monotonic() - began_s > _LONGEST_PAUSE_S
            pause_s = _FIRST_PAUSE_S if lasted else min(2 * pause_s, _LONGEST_PAUSE_S)
            # Workers that lost the database together do not come back together.
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311

    async def _work(self) -> None:
        """Work while the database is there."""
        beat_s = self._settings.worker_heartbeat_s
        app = queue_app(self._store.database_url, self._evaluate, self._settings.database_timeout_s)
        async with app.open_async():
            minding = asyncio.create_task(self._mind(app, beat_s), name="sweep minder")
            try:
                await app.run_worker_async(
                    queues=[QUEUE],
                    name="sweeps",
                    concurrency=1,
                    install_signal_handlers=False,
                    update_heartbeat_interval=beat_s,
                    stalled_worker_timeout=_MISSED_BEATS * beat_s,
                    shutdown_graceful_timeout=_LAST_CHUNK_S,
                    delete_jobs="successful",
                )
            finally:
                await ended(minding)

    async def _mind(self, app: App, beat_s: float) -> None:
        """Take over what dead workers left, and drop results that have been kept long enough."""
        looked_at_s = -_EXPIRY_EVERY_S
        while True:
            try:
                await revive(app, self._give_up, _MISSED_BEATS * beat_s)
                if time.monotonic() - looked_at_s >= _EXPIRY_EVERY_S:
                    async with self._store.transaction() as connection:
                        await repository.expire(connection, self._settings.sweep_keep_days)
                    looked_at_s = time.monotonic()
            except Exception as error:
                # It is looked for again, whatever was wrong this time.
                _log.warning("Chunks of dead workers cannot be recovered: %s", error)
            await asyncio.sleep(beat_s)

    async def _evaluate(self, sweep_id: UUID, chunk: int, last_try: bool) -> None:
        """Evaluate one chunk and keep what it came to, unless that has been done."""
        async with self._store.transaction() as connection:
            asked = await repository.begin(connection, sweep_id)
            if asked is None or await repository.is_done(connection, sweep_id, chunk):
                return
        try:
            study = await self._study(sweep_id, asked)
            done = await asyncio.to_thread(_done, study, chunk)
        except DatabaseUnavailable:
            raise
        except Exception as error:
            if last_try:
                _log.exception("Chunk %d of sweep %s cannot be evaluated", chunk, sweep_id)
                await self._give_up(sweep_id, f"chunk {chunk} failed: {type(error).__name__}")
            raise
        async with self._store.transaction() as connection:
            await repository.finish_chunk(
                connection, sweep_id, done, self._settings.sweep_limit_rows
            )

    async def _study(self, sweep_id: UUID, asked: dict[str, Any]) -> AnyStudy:
        found = self._studies.get(sweep_id)
        if found is None:
            snapshot = await self._store.snapshot_at(
                asked["catalog_revision"], asked["organisation"]
            )
            found = await asyncio.to_thread(resolved_sweep, asked_sweep(asked["request"]), snapshot)
            self._studies[sweep_id] = found
            while len(self._studies) > _KEPT_STUDIES:
                self._studies.popitem(last=False)
        self._studies.move_to_end(sweep_id)
        return found

    async def _give_up(self, sweep_id: UUID, problem: str) -> None:
        async with self._store.transaction() as connection:
            await repository.fail(connection, sweep_id, problem)
            await withdraw(connection, sweep_id)


def _done(study: AnyStudy, chunk: int) -> DoneChunk:
    # Parquet takes 30 MB, which a process that waits for its first sweep need not hold.
    from service.jobs.content import packed

    began_s = time.perf_counter()
    rows = evaluated_chunk(study, chunk)
    content = packed(rows)
    return DoneChunk(
        chunk=chunk,
        duration_s=time.perf_counter() - began_s,
        configurations=study.chunks[chunk].configurations,
        rows=len(rows),
        excluded=rows.excluded,
        content=content,
    )
