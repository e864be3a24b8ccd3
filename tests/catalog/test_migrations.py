from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from procrastinate.schema import SchemaManager
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from service.catalog.database import connection as database
from service.catalog.database.connection import alembic_config, create_engine, migrate
from service.catalog.database.importer import Change, apply_change, import_package
from service.catalog.database.revisions import load_snapshot, newest_revision
from service.catalog.files import read_schemas
from service.jobs.tables import sweep
from service.settings import INSTALLATION, postgres_dsn
from tests.catalog.examples import small_catalog


@pytest.fixture
async def engine(postgres_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_engine(postgres_url)
    yield engine
    await engine.dispose()


def known_migrations() -> list[Script]:
    return list(ScriptDirectory.from_config(alembic_config()).walk_revisions())


async def tables(engine: AsyncEngine) -> set[str]:
    async with engine.connect() as connection:
        return set(await connection.run_sync(lambda sync: inspect(sync).get_table_names()))


async def functions(engine: AsyncEngine) -> set[str]:
    async with engine.connect() as connection:
        rows = await connection.execute(
            text("SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace")
        )
        return set(rows.scalars())


async def test_up_down_up(engine: AsyncEngine) -> None:
    await migrate(engine)
    every = {
        *("catalog_revision", "catalog_entry", "own_entry", "api_key", "api_key_revocation"),
        *("measurement", "measured_figure"),
    }
    every |= {"sweep", "sweep_chunk", "procrastinate_jobs", "procrastinate_workers"}
    assert every <= await tables(engine)

    await migrate(engine, "0001")
    assert await tables(engine) == {"alembic_version", "catalog_revision", "catalog_entry"}
    await migrate(engine, "base")
    assert await tables(engine) == {"alembic_version"}
    assert await functions(engine) == set()

    await migrate(engine)
    assert every <= await tables(engine)
    await migrate(engine)


def test_files_of_migrations_are_named_after_them() -> None:
    assert database.known_migrations() == [one.revision for one in reversed(known_migrations())]


async def test_down_and_up_keep_the_shared_catalog(engine: AsyncEngine) -> None:
    await migrate(engine)
    schemas = read_schemas(INSTALLATION / "hardware_catalog")
    own = {("sources", "own/sheet"): small_catalog()["sources"]["sheet"] | {"id": "own/sheet"}}
    async with engine.begin() as connection:
        await import_package(connection, small_catalog(), "test")
        change = Change(own, "ada", "ours", organisation="acme", key_id="k")
        await apply_change(connection, change, schemas)
        before = await load_snapshot(connection)
        newest = await newest_revision(connection, "acme")
    assert newest is not None
    assert newest.revision > before.revision
    await migrate(engine, "0002")
    await migrate(engine)
    async with engine.connect() as connection:
        after = await load_snapshot(connection)
        assert "own/sheet" not in (await load_snapshot(connection, None, "acme")).sources
    assert after.content_hash == before.content_hash
    assert after.documents() == before.documents()


async def test_migrations_make_what_the_tables_say(engine: AsyncEngine) -> None:
    await migrate(engine)

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "compare_server_default": True,
                "include_name": lambda name, kind, _: (
                    kind != "table" or not name.startswith("procrastinate_")
                ),
            },
        )
        return list(compare_metadata(context, sweep.metadata))

    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []


def test_the_queue_has_the_tables_that_its_library_expects() -> None:
    made = (INSTALLATION / "migrations" / "procrastinate_3.10.sql").read_text()
    assert made == SchemaManager.get_schema(), "a release of procrastinate needs a migration"


async def test_types_of_the_queue_go_with_it(engine: AsyncEngine) -> None:
    await migrate(engine, "base")
    async with engine.connect() as connection:
        left = await connection.execute(
            text("SELECT typname FROM pg_type WHERE typname LIKE 'procrastinate%'")
        )
        assert list(left.scalars()) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE catalog_revision SET author = 'somebody else'",
        "DELETE FROM catalog_revision",
        "UPDATE catalog_entry SET document = '{}'",
        "DELETE FROM catalog_entry",
        "TRUNCATE catalog_entry",
        "UPDATE measurement SET author = 'other'",
        "DELETE FROM measurement",
        "UPDATE measured_figure SET measured = 1",
        "DELETE FROM measured_figure",
        "UPDATE own_entry SET organisation = 'another'",
        "UPDATE api_key SET scopes = '{catalog:write}'",
        "DELETE FROM api_key_revocation",
    ],
)
async def test_nothing_is_ever_overwritten(engine: AsyncEngine, statement: str) -> None:
    await migrate(engine)
    with pytest.raises(IntegrityError, match="append-only"):
        async with engine.begin() as connection:
            await connection.execute(text(statement))


async def test_a_database_of_a_newer_release_is_left_alone(engine: AsyncEngine) -> None:
    await migrate(engine)
    async with engine.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    await migrate(engine)
    async with engine.begin() as connection:
        version = await connection.scalar(text("SELECT version_num FROM alembic_version"))
        assert version == "9999"
        newest = max(revision.revision for revision in known_migrations())
        await connection.execute(
            text("UPDATE alembic_version SET version_num = :newest"), {"newest": newest}
        )


@pytest.mark.parametrize(
    ("url", "dsn"),
    [
        ("postgres://u:p@h:5/d", "postgresql://u:p@h:5/d"),
        ("postgresql://u@h/d?sslmode=require", "postgresql://u@h/d?sslmode=require"),
        ("postgresql+asyncpg://u@/d?host=/run/x", "postgresql://u@/d?host=/run/x"),
    ],
)
def test_addresses(url: str, dsn: str) -> None:
    assert postgres_dsn(url) == dsn


def test_other_databases_are_refused() -> None:
    with pytest.raises(ValueError, match="postgres"):
        postgres_dsn("mysql://u@h/d")
