"""The queue as a worker sees it: takes jobs, tries them again, takes over those of dead workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

from procrastinate import App, JobContext, PsycopgConnector, RetryStrategy
from procrastinate.exceptions import ConnectorException

from service.jobs.queue import QUEUE, TASK
from service.settings import postgres_dsn

#: Tries of a chunk, those that ended with the death of their worker included.
MOST_ATTEMPTS = 5
_FIRST_PAUSE_S = 2

#: Evaluates one chunk; told whether it is the last try.
Evaluate = Callable[[UUID, int, bool], Awaitable[None]]
#: Gives a sweep up, and says why.
GiveUp = Callable[[UUID, str], Awaitable[None]]


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
