"""Reads and writes sweeps in Postgres, on a connection that the caller hands over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import bindparam, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.core.errors import Conflict
from service.jobs.tables import UNFINISHED, sweep, sweep_chunk


class KeyReused(Conflict):
    """An idempotency key that already stands for another sweep."""


@dataclass(frozen=True, slots=True)
class NewSweep:
    """A sweep to be kept; ``request`` is its JSON."""

    request: bytes
    catalog_revision: int
    engine_version: str
    configurations: int
    chunks: int
    organisation: str | None = None


@dataclass(frozen=True, slots=True)
class DoneChunk:
    """What a chunk came to; ``content`` is a Parquet file of its rows."""

    chunk: int
    duration_s: float
    configurations: int
    rows: int
    excluded: Mapping[str, int]
    content: bytes


async def add(
    connection: AsyncConnection, new: NewSweep, idempotency_key: str | None
) -> tuple[UUID, bool]:
    """Keep a sweep.

    Returns
    -------
    UUID, bool
        Its id, and whether it is new: a sweep under a key that it was kept under before is not.

    Raises
    ------
    KeyReused
        If the key stands for another sweep.
    """
    digest = sha256(new.request).hexdigest()
    # Waits for a concurrent sweep of the same key to commit or fail, and then yields to it.
    added = await connection.scalar(
        insert(sweep)
        .values(
            id=uuid4(),
            catalog_revision=new.catalog_revision,
            engine_version=new.engine_version,
            request=new.request,
            configuration_count=new.configurations,
            chunk_count=new.chunks,
            idempotency_key=idempotency_key,
            request_hash=digest,
            organisation=new.organisation,
        )
        .on_conflict_do_nothing(index_elements=["idempotency_key"])
        .returning(sweep.c.id)
    )
    if added is not None:
        return added, True
    kept = (
        await connection.execute(
            select(sweep.c.id, sweep.c.request_hash).where(
                sweep.c.idempotency_key == idempotency_key
            )
        )
    ).one()
    if kept.request_hash != digest:
        raise KeyReused(idempotency_key)
    return kept.id, False


async def unfinished(connection: AsyncConnection, organisation: str | None) -> int:
    """Sweeps of an organisation, or of all who have no key, that are waited for."""
    theirs = sweep.c.organisation.is_not_distinct_from(organisation)
    counted = select(func.count()).where(theirs, sweep.c.status.in_(UNFINISHED))
    return await connection.scalar(counted) or 0


async def one(connection: AsyncConnection, id_: UUID) -> dict[str, Any] | None:
    """A sweep with its progress, or None if there is none of that id."""
    found = (await connection.execute(select(sweep).where(sweep.c.id == id_))).mappings().first()
    if found is None:
        return None
    done = (
        await connection.execute(
            select(
                func.count().label("chunks_done"),
                func.coalesce(func.sum(sweep_chunk.c.configuration_count), 0).label("done"),
                func.coalesce(func.sum(sweep_chunk.c.row_count), 0).label("rows"),
            ).where(sweep_chunk.c.sweep_id == id_)
        )
    ).one()
    return dict(found) | {
        "chunks_done": done.chunks_done,
        "configurations_done": int(done.done),
        "rows": int(done.rows),
    }


_EXCLUDED = text(
    "SELECT reason, sum(configurations::bigint)::bigint AS configurations "
    "FROM sweep_chunk, jsonb_each_text(excluded) AS one (reason, configurations) "
    "WHERE sweep_id = :id GROUP BY reason ORDER BY configurations DESC, reason"
).bindparams(bindparam("id", type_=sweep.c.id.type))


async def excluded(connection: AsyncConnection, id_: UUID) -> list[dict[str, Any]]:
    """Configurations that each reason excluded so far, most first."""
    found = await connection.execute(_EXCLUDED, {"id": id_})
    return [dict(row) for row in found.mappings()]


async def begin(connection: AsyncConnection, id_: UUID) -> dict[str, Any] | None:
    """What a worker needs of a sweep that is to be worked on; None if it is not, any more."""
    await connection.execute(
        update(sweep)
        .where(sweep.c.id == id_, sweep.c.status == "queued")
        .values(status="running", started_at=func.now())
    )
    found = (
        (
            await connection.execute(
                select(
                    sweep.c.request, sweep.c.catalog_revision, sweep.c.status, sweep.c.organisation
                ).where(sweep.c.id == id_)
            )
        )
        .mappings()
        .first()
    )
    return None if found is None or found["status"] not in UNFINISHED else dict(found)


async def is_done(connection: AsyncConnection, id_: UUID, chunk: int) -> bool:
    """Whether some worker has finished a chunk."""
    return bool(
        await connection.scalar(
            select(
                select(sweep_chunk.c.chunk)
                .where(sweep_chunk.c.sweep_id == id_, sweep_chunk.c.chunk == chunk)
                .exists()
            )
        )
    )


async def finish_chunk(
    connection: AsyncConnection, id_: UUID, done: DoneChunk, most_rows: int
) -> None:
    """Keep what a chunk came to, unless it is kept already, and finish the sweep with its last one.

    A sweep that was stopped meanwhile keeps nothing more; one that grows past ``most_rows`` fails.
    """
    # Workers that end their chunks together finish the sweep one after the other.
    status = await connection.scalar(
        select(sweep.c.status).where(sweep.c.id == id_).with_for_update()
    )
    if status not in UNFINISHED:
        return
    await connection.execute(
        insert(sweep_chunk)
        .values(
            sweep_id=id_,
            chunk=done.chunk,
            duration_s=done.duration_s,
            configuration_count=done.configurations,
            row_count=done.rows,
            excluded=dict(done.excluded),
            content=done.content,
        )
        .on_conflict_do_nothing()
    )
    found = await one(connection, id_)
    assert found is not None  # noqa: S101 - it has just been locked
    if found["rows"] > most_rows:
        await fail(
            connection,
            id_,
            f"{found['rows']} rows with {found['chunk_count'] - found['chunks_done']} chunks to "
            f"go; this server stores at most {most_rows} rows per sweep. Set tighter limits",
        )
    elif found["chunks_done"] == found["chunk_count"]:
        await _end(connection, id_, "succeeded")


async def fail(connection: AsyncConnection, id_: UUID, problem: str) -> None:
    """Give a sweep up; what it came to so far is dropped."""
    if await _end(connection, id_, "failed", problem):
        await _drop(connection, id_)


async def cancel(connection: AsyncConnection, id_: UUID) -> None:
    """Stop a sweep that is not finished; what it came to so far is dropped."""
    if await _end(connection, id_, "cancelled"):
        await _drop(connection, id_)


async def remove(connection: AsyncConnection, id_: UUID) -> None:
    """Stop a sweep if it is not finished, and drop its results; that it was there is kept."""
    await connection.execute(
        update(sweep)
        .where(sweep.c.id == id_)
        .values(
            status="deleted",
            request=b"{}",
            finished_at=func.coalesce(sweep.c.finished_at, func.now()),
        )
    )
    await _drop(connection, id_)


async def expire(connection: AsyncConnection, days: float) -> int:
    """Drop the results of sweeps that finished so many days ago; how many these were."""
    found = await connection.execute(
        update(sweep)
        .where(
            sweep.c.status == "succeeded", sweep.c.finished_at < func.now() - timedelta(days=days)
        )
        .values(status="expired")
        .returning(sweep.c.id)
    )
    ids = list(found.scalars())
    for id_ in ids:
        await _drop(connection, id_)
    return len(ids)


async def chunk_rows(connection: AsyncConnection, id_: UUID) -> list[int]:
    """Rows of each chunk, in order."""
    found = await connection.execute(
        select(sweep_chunk.c.row_count)
        .where(sweep_chunk.c.sweep_id == id_)
        .order_by(sweep_chunk.c.chunk)
    )
    return [int(count) for count in found.scalars()]


async def content(connection: AsyncConnection, id_: UUID, chunk: int) -> bytes | None:
    """The rows of a chunk as Parquet; None if they have been dropped."""
    found: bytes | None = await connection.scalar(
        select(sweep_chunk.c.content).where(
            sweep_chunk.c.sweep_id == id_, sweep_chunk.c.chunk == chunk
        )
    )
    return found


async def _end(
    connection: AsyncConnection, id_: UUID, status: str, problem: str | None = None
) -> bool:
    ended = await connection.execute(
        update(sweep)
        .where(sweep.c.id == id_, sweep.c.status.in_(UNFINISHED))
        .values(status=status, problem=problem, finished_at=func.now())
    )
    return ended.rowcount == 1


async def _drop(connection: AsyncConnection, id_: UUID) -> None:
    await connection.execute(delete(sweep_chunk).where(sweep_chunk.c.sweep_id == id_))
