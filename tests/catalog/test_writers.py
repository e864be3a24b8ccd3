"""Writers in processes of their own: several at once, and one that is killed in the middle."""

from __future__ import annotations

import subprocess
import sys
from asyncio import to_thread

from sqlalchemy import text

from service.catalog.database.connection import create_engine, migrate
from service.catalog.database.importer import import_package
from service.catalog.database.revisions import load_snapshot, newest_revision
from service.settings import INSTALLATION
from tests.catalog.examples import small_catalog

#: Adds entries one by one; two of them also fight over one, each change based on what it saw.
WRITER = """
import asyncio, sys
from service.catalog.database.connection import create_engine
from service.catalog.entries.documents import document_hash
from service.catalog.files import read_schemas
from service.catalog.database.importer import Change, EntryConflict, apply_change
from service.catalog.database.revisions import load_snapshot
from service.settings import INSTALLATION
from tests.catalog.examples import accelerator

async def main(url, name, count):
    schemas = read_schemas(INSTALLATION / "hardware_catalog")
    engine = create_engine(url)
    refused = 0
    for number in range(count):
        entry_id = f"{name}-{number}"
        document = accelerator(entry_id) | {"aliases": []}
        async with engine.begin() as connection:
            await apply_change(
                connection, Change({("accelerators", entry_id): document}, name, "one"), schemas
            )
        while True:
            async with engine.connect() as connection:
                seen = (await load_snapshot(connection)).accelerators["acme-one-80gb"].document
            counted = seen | {"release_year": seen["release_year"] + 1}
            place = ("accelerators", "acme-one-80gb")
            based_on = {place: document_hash(seen)}
            change = Change({place: counted}, name, "count", expected_hashes=based_on)
            try:
                async with engine.begin() as connection:
                    await apply_change(connection, change, schemas)
            except EntryConflict:
                refused += 1
                continue
            break
    await engine.dispose()

print("ready", flush=True)
asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def writer(url: str, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, url, name, str(count)],
        cwd=INSTALLATION,
        stdout=subprocess.PIPE,
        text=True,
    )


async def prepared(url: str) -> None:
    engine = create_engine(url)
    await migrate(engine)
    async with engine.begin() as connection:
        await import_package(connection, small_catalog(), "test")
    await engine.dispose()


async def test_two_processes_that_write_lose_nothing(postgres_url: str) -> None:
    await prepared(postgres_url)
    engine = create_engine(postgres_url)
    async with engine.connect() as connection:
        before = await load_snapshot(connection)
    writers = [writer(postgres_url, name, 6) for name in ("ada", "bob")]
    for process in writers:
        await to_thread(process.communicate, timeout=600)
        assert process.returncode == 0
    async with engine.connect() as connection:
        after = await load_snapshot(connection)
        newest = await newest_revision(connection)
    await engine.dispose()
    wanted = {f"{name}-{number}" for name in ("ada", "bob") for number in range(6)}
    assert wanted <= set(after.accelerators)
    years = [
        snapshot.accelerators["acme-one-80gb"].document["release_year"]
        for snapshot in (before, after)
    ]
    assert years[1] == years[0] + 12
    assert newest is not None
    assert newest.revision == before.revision + 24
    assert newest.content_hash == after.content_hash


async def test_a_writer_killed_in_the_middle_leaves_the_old_revision(postgres_url: str) -> None:
    await prepared(postgres_url)
    engine = create_engine(postgres_url)
    async with engine.connect() as connection:
        before = await newest_revision(connection)
    assert before is not None
    # Held up between adding the revision and adding its entries.
    async with engine.begin() as blocking:
        await blocking.execute(text("LOCK TABLE catalog_entry IN EXCLUSIVE MODE"))
        process = writer(postgres_url, "eve", 1)
        waiting = text(
            "SELECT count(*) FROM pg_locks WHERE NOT granted "
            "AND relation = 'catalog_entry'::regclass"
        )
        async with engine.connect() as watching:
            while not await watching.scalar(waiting):
                assert process.poll() is None
                await watching.rollback()
        process.kill()
        await to_thread(process.communicate)
    async with engine.connect() as connection:
        after = await newest_revision(connection)
        snapshot = await load_snapshot(connection)
    assert after == before
    assert "eve-0" not in snapshot.accelerators
    # Nothing that it held stands in the way of the next.
    again = writer(postgres_url, "eve", 1)
    await to_thread(again.communicate, timeout=600)
    assert again.returncode == 0
    async with engine.connect() as connection:
        assert "eve-0" in (await load_snapshot(connection)).accelerators
    await engine.dispose()
