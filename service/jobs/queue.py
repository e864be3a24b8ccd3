"""The queue that hands chunks to workers: procrastinate's, in the same Postgres.

A chunk is put into the queue by the transaction that keeps its sweep, through the function that
the library itself calls: a sweep without jobs, or jobs without a sweep, cannot come about.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

from procrastinate import App, JobContext, PsycopgConnector, RetryStrategy
from procrastinate.exceptions import ConnectorException
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from service import ENGINE_VERSION
from service.catalog.database import postgres_dsn

#: Workers take chunks of sweeps of their own engine only: a sweep is answered by one.
QUEUE = f"sweeps {ENGINE_VERSION}"
TASK = "evaluate_sweep_chunk"

#: Tries of a chunk, those that ended with the death of their worker included.
MOST_ATTEMPTS = 5
_FIRST_PAUSE_S = 2

#: Evaluates one chunk; told whether it is the last try.
Evaluate = Callable[[UUID, int, bool], Awaitable[None]]
#: Gives a sweep up, and says why.
GiveUp = Callable[[UUID, str], Awaitable[None]]

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


def queue_app(url: str, evaluate: Evaluate, timeout_s: float) -> App:
    """The queue as a worker sees it, with what is done with its jobs."""
    connector = PsycopgConnector(
        conninfo=postgres_dsn(url),
        kwargs={"application_name": "headroom worker", "connect_timeout": max(int(timeout_s), 2)},
        min_size=1,
        max_size=4,
        timeout=timeout_s,
    )
    app = App(connector=connector)

    @app.task(
        name=TASK,
        queue=QUEUE,
        pass_context=True,
        retry=RetryStrategy(max_attempts=MOST_ATTEMPTS, exponential_wait=_FIRST_PAUSE_S),
    )
    async def evaluate_sweep_chunk(context: JobContext, sweep_id: str, chunk: int) -> None:
        await evaluate(UUID(sweep_id), chunk, context.job.attempts + 1 >= MOST_ATTEMPTS)

    return app


async def revive(app: App, give_up: GiveUp, silent_s: float) -> None:
    """Put jobs of workers that have been silent for so long back into the queue.

    A job that took its worker with it every time is given up, or it would take all of them.
    """
    stalled = await app.job_manager.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=silent_s)
    for job in stalled:
        if job.id is None:
            continue
        if job.attempts + 1 >= MOST_ATTEMPTS:
            chunk = job.task_kwargs["chunk"]
            problem = f"chunk {chunk} ended its worker {MOST_ATTEMPTS} times"
            await give_up(UUID(str(job.task_kwargs["sweep_id"])), problem)
        try:
            # Work on a sweep that was given up ends at once.
            await app.job_manager.retry_job(job)
        except ConnectorException:
            # Another worker has done so in the meantime.
            continue
