"""Reaching Postgres: addresses, engines and migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg  # type: ignore[import-untyped]
import orjson
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from service.settings import INSTALLATION, postgres_dsn

if TYPE_CHECKING:
    from alembic.config import Config

_MIGRATIONS = INSTALLATION / "migrations"

#: Key of the advisory lock that writers hold: the name "headroom" as a number.
WRITER_LOCK = int.from_bytes(b"headroom", "big")


async def connect(url: str, timeout_s: float) -> asyncpg.Connection:
    """A connection of its own, outside any pool: for listening."""
    connection: asyncpg.Connection = await asyncpg.connect(
        postgres_dsn(url),
        timeout=timeout_s,
        command_timeout=timeout_s,
        server_settings={"application_name": "headroom"},
    )
    return connection


def create_engine(url: str, timeout_s: float = 10.0) -> AsyncEngine:
    """An engine with a small pool. Nothing on the way of an estimate uses it.

    The driver reads the address itself, so that all parameters of Postgres' own tools work in it
    (``sslmode``, ``host`` for a socket's folder).
    """
    postgres_dsn(url)

    async def connection() -> asyncpg.Connection:
        return await connect(url, timeout_s)

    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connection,
        pool_size=2,
        max_overflow=4,
        pool_timeout=timeout_s,
        pool_pre_ping=True,
        json_serializer=_to_json,
        json_deserializer=orjson.loads,
    )


async def hold_writer_lock(connection: AsyncConnection) -> None:
    """Wait until no other transaction writes the catalog or the schema; held until commit."""
    await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": WRITER_LOCK})


async def migrate(engine: AsyncEngine, target: str = "head") -> None:
    """Bring the schema to a migration in one transaction, one process at a time.

    A database that a newer release has migrated is left as it is: migrations of this service add
    and never take away what the release before needs.
    """
    async with engine.begin() as connection:
        await hold_writer_lock(connection)
        await connection.run_sync(_migrate, target)


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration, running on a given connection."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    return config


def _migrate(connection: Connection, target: str) -> None:
    current = _migration_of(connection)
    known = known_migrations()
    if current == known[-1] and target == "head":
        return  # as nearly always, and alembic takes long to load
    if current is not None and current not in known:
        return
    from alembic import command

    config = alembic_config(connection)
    if target == "head" or current is None:
        command.upgrade(config, target)
    else:
        command.downgrade(config, target)


def known_migrations() -> list[str]:
    """The migrations of this release, the newest last: the names of their files begin with them."""
    return sorted(path.name.partition("_")[0] for path in (_MIGRATIONS / "versions").glob("*.py"))


def _migration_of(connection: Connection) -> str | None:
    """The migration that a database is at, as alembic notes it; None for an empty one."""
    if connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def _to_json(value: Any) -> str:
    return orjson.dumps(value).decode()
