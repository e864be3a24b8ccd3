"""Runs migrations on a connection that the service hands over, or on ``DATABASE_URL``."""

from __future__ import annotations

import asyncio

from alembic import context
from sqlalchemy import Connection

from service.catalog.database.connection import create_engine
from service.jobs.tables import sweep
from service.settings import Settings


def ours(name: str | None, kind: str, _: object) -> bool:
    """Whether a thing in the database is described by the tables; the queue's are not."""
    return kind != "table" or not (name or "").startswith("procrastinate_")


def run(connection: Connection) -> None:
    """Run what the command asks for in one transaction: a failure leaves nothing half done."""
    context.configure(
        connection=connection,
        target_metadata=sweep.metadata,
        compare_server_default=True,
        include_name=ours,
    )
    with context.begin_transaction():
        context.run_migrations()


async def run_on_configured_database() -> None:
    """Connect to ``DATABASE_URL`` and run there: how the alembic command gets its connection."""
    url = Settings().database_url
    if url is None:
        raise SystemExit("DATABASE_URL is not set")
    engine = create_engine(url.get_secret_value())
    async with engine.begin() as connection:
        await connection.run_sync(run)
    await engine.dispose()


given = context.config.attributes.get("connection")
if given is None:
    asyncio.run(run_on_configured_database())
else:
    run(given)
