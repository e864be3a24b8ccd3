"""The queue that hands chunks to workers: procrastinate's, in the same Postgres.

A chunk is put into the queue by the transaction that keeps its sweep, through the function that
the library itself calls: a sweep without jobs, or jobs without a sweep, cannot come about.
"""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from service import ENGINE_VERSION

#: Workers take chunks of sweeps of their own engine only: a sweep is answered by one.
QUEUE = f"sweeps {ENGINE_VERSION}"
TASK = "evaluate_sweep_chunk"

# Later chunks have lower priority, so that a short sweep does not wait for a long one to end.
_ENQUEUE = text(
    "SELECT procrastinate_defer_jobs_v1(array_agg("
    "ROW(:queue, :task, -chunk, NULL, NULL, "
    "jsonb_build_object('sweep_id', CAST(:id AS text), 'chunk', chunk), NULL)"
    "::procrastinate_job_to_defer_v1 ORDER BY chunk)) "
    "FROM generate_series(0, CAST(:chunks AS integer) - 1) AS chunk"
)
_WITHDRAW = text(
    "SELECT procrastinate_cancel_job_v1(id, false, true) FROM procrastinate_jobs "
    "WHERE status = 'todo' AND task_name = :task AND args ->> 'sweep_id' = :id"
)


async def enqueue(connection: AsyncConnection, sweep_id: UUID, chunks: int) -> None:
    """Put all chunks of a sweep into the queue when the transaction commits."""
    await connection.execute(
        _ENQUEUE, {"queue": QUEUE, "task": TASK, "id": str(sweep_id), "chunks": chunks}
    )


async def withdraw(connection: AsyncConnection, sweep_id: UUID) -> None:
    """Take the chunks of a sweep that nobody works on out of the queue."""
    await connection.execute(_WITHDRAW, {"task": TASK, "id": str(sweep_id)})
