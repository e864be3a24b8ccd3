from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from pathlib import Path

import psutil
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from service.catalog.database.importer import Change, apply_change
from service.catalog.database.revisions import RevisionUnknown
from service.catalog.database.store import CatalogStore, DatabaseUnavailable
from service.catalog.entries.documents import CatalogInvalid, canonical_bytes
from service.catalog.files import read_schemas
from service.settings import Settings
from tests.catalog.examples import Documents, accelerator, figure, small_catalog, write_catalog
from tests.conftest import execute

ONE = "acme-one-80gb"


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for something that happens by itself; a minute is far beyond what any of it takes."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - any condition, whoever brings it about
            await asyncio.sleep(0.02)


def settings_for(
    directory: Path, url: str | None, documents: Documents | None = None, **more: object
) -> Settings:
    return Settings(
        database_url=None if url is None else SecretStr(url),
        data_directory=directory / "data",
        catalog_directory=write_catalog(directory / "catalog", documents or small_catalog()),
        **more,  # type: ignore[arg-type]
    )


async def edit(store: CatalogStore, memory_bytes: float) -> int:
    schemas = read_schemas(store._settings.catalog_directory)
    changed = accelerator(memory_bytes=figure(memory_bytes))
    async with store.transaction() as connection:
        applied = await apply_change(
            connection, Change({("accelerators", ONE): changed}, "ada", "measured"), schemas
        )
    assert applied.revision is not None
    return applied.revision


@pytest.fixture
def empty_database(postgres_url: str) -> str:
    execute(postgres_url, "DROP SCHEMA public CASCADE")
    execute(postgres_url, "CREATE SCHEMA public")
    return postgres_url


@pytest.fixture
async def store(empty_database: str, tmp_path: Path) -> AsyncIterator[CatalogStore]:
    # No help from polling: what is taken over was announced.
    store = CatalogStore(settings_for(tmp_path, empty_database, catalog_poll_s=3600))
    await store.start()
    yield store
    await store.stop()


async def test_start_migrates_imports_and_serves(store: CatalogStore) -> None:
    status = store.status()
    assert status.source == "postgres"
    assert status.database_reachable
    assert status.problem is None
    assert status.confirmed_s_ago is not None
    assert status.revision == store.snapshot.revision > 0
    assert store.snapshot.find("models", "Tiny").value.total_parameters > 0


async def test_a_new_revision_is_taken_over_and_the_old_one_can_be_had(
    store: CatalogStore,
) -> None:
    before = store.snapshot
    revision = await edit(store, 96e9)
    await eventually(lambda: store.snapshot.revision == revision)
    assert store.snapshot.accelerators[ONE].value.memory_bytes == 96e9
    assert before.accelerators[ONE].value.memory_bytes == 80e9
    old = await store.snapshot_at(before.revision)
    assert old.content_hash == before.content_hash
    assert canonical_bytes(old.accelerators[ONE].document) == canonical_bytes(
        before.accelerators[ONE].document
    )
    assert await store.snapshot_at(revision) is store.snapshot
    assert await store.snapshot_at(before.revision) is old


@pytest.mark.parametrize("revision", [-1, 0, 4711, 10**30])
async def test_a_revision_that_never_was(store: CatalogStore, revision: int) -> None:
    with pytest.raises(RevisionUnknown):
        await store.snapshot_at(revision)


async def test_revisions_read_once_are_kept_but_not_without_end(store: CatalogStore) -> None:
    first = store.snapshot.revision
    revisions = [await edit(store, 80e9 + number) for number in range(1, 12)]
    await eventually(lambda: store.snapshot.revision == revisions[-1])
    oldest = await store.snapshot_at(first)
    for revision in revisions:
        assert (await store.snapshot_at(revision)).revision == revision
    again = await store.snapshot_at(first)
    assert again is not oldest
    assert again.content_hash == oldest.content_hash


async def test_replicas_that_start_together_agree(empty_database: str, tmp_path: Path) -> None:
    stores = [CatalogStore(settings_for(tmp_path, empty_database)) for _ in range(3)]
    await asyncio.gather(*(store.start() for store in stores))
    assert {store.snapshot.revision for store in stores} == {stores[0].snapshot.revision}
    revision = await edit(stores[0], 96e9)
    await eventually(lambda: all(store.snapshot.revision == revision for store in stores))
    await asyncio.gather(*(store.stop() for store in stores))


async def test_a_lost_connection_comes_back(store: CatalogStore) -> None:
    # Taken over means listened to: without a listener there would be no connection to lose.
    revision = await edit(store, 88e9)
    await eventually(lambda: store.snapshot.revision == revision)
    async with store.transaction() as connection:
        await connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    await eventually(lambda: not store.status().database_reachable)
    revision = await edit(store, 96e9)
    await eventually(lambda: store.snapshot.revision == revision)
    await eventually(lambda: store.status().database_reachable)


async def test_stopping_outlasts_a_library_that_takes_the_cancellation(
    empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CatalogStore(settings_for(tmp_path, empty_database))
    await store.start()
    taken = asyncio.Event()

    async def takes_one() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if taken.is_set():
                raise
            taken.set()
            await asyncio.sleep(3600)

    monkeypatch.setattr(store, "_refresh", takes_one)
    await asyncio.sleep(0.2)
    follower = store._follower
    async with asyncio.timeout(60):
        await store.stop()
    assert follower is not None
    assert follower.done()


@pytest.mark.parametrize(
    "statement", ["SELECT pg_terminate_backend(pg_backend_pid())", "SELECT pg_sleep(600)"]
)
async def test_a_transaction_that_loses_its_database_says_so(
    empty_database: str, tmp_path: Path, statement: str
) -> None:
    store = CatalogStore(settings_for(tmp_path, empty_database, database_timeout_s=1))
    await store.start()
    with pytest.raises(DatabaseUnavailable):
        async with store.transaction() as connection:
            await connection.execute(text(statement))
    await store.stop()


async def test_a_revision_that_cannot_be_read_leaves_the_snapshot(store: CatalogStore) -> None:
    before = store.snapshot
    async with store.transaction() as connection:
        await connection.execute(
            text(
                "WITH r AS (INSERT INTO catalog_revision (author, reason, content_hash, "
                "entry_count) VALUES ('newer', 'release', 'x', 1) RETURNING revision) "
                "INSERT INTO catalog_entry (revision, collection, entry_id, document, "
                "document_hash) SELECT revision, 'accelerators', 'from-the-future', "
                """'{"id": "from-the-future", "qubits": 9}', 'y' FROM r"""
            )
        )
    await eventually(lambda: store.status().problem is not None)
    assert store.snapshot is before
    assert store.status().database_reachable


async def test_an_unsound_package_is_left_out(empty_database: str, tmp_path: Path) -> None:
    sound = CatalogStore(settings_for(tmp_path / "sound", empty_database))
    await sound.start()
    documents = deepcopy(small_catalog())
    documents["accelerators"][ONE]["figures"]["memory_bytes"]["source"] = "hearsay"
    unsound = CatalogStore(settings_for(tmp_path / "unsound", empty_database, documents))
    await unsound.start()
    assert unsound.snapshot.revision == sound.snapshot.revision
    await unsound.stop()
    await sound.stop()


async def test_an_unsound_package_and_no_database_is_no_catalog(tmp_path: Path) -> None:
    documents = small_catalog()
    documents["sources"] = {}
    store = CatalogStore(settings_for(tmp_path, None, documents, embedded_database=False))
    with pytest.raises(CatalogInvalid, match="sheet"):
        await store.start()


@pytest.mark.parametrize("url", ["postgresql://nobody@127.0.0.1:1/none", "postgres://["])
async def test_without_a_database_the_package_is_served(tmp_path: Path, url: str) -> None:
    store = CatalogStore(settings_for(tmp_path, url))
    await store.start()
    status = store.status()
    assert (status.database_reachable, status.source, status.revision) == (
        False,
        "packaged files",
        0,
    )
    assert status.problem is not None
    assert store.snapshot.find("accelerators", "one").id == ONE
    with pytest.raises(DatabaseUnavailable):
        await store.snapshot_at(1)
    await store.stop()


async def test_embedded_database_starts_by_itself_and_again_when_killed(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, None)
    store = CatalogStore(settings)
    await store.start()
    assert store.status().source == "postgres"
    before = store.snapshot
    pid_file = settings.data_directory / "postgres" / "postmaster.pid"
    server = psutil.Process(int(pid_file.read_text().split()[0]))
    for process in (server, *server.children()):
        process.kill()
    await eventually(lambda: not store.status().database_reachable)
    assert store.snapshot is before
    await eventually(lambda: store.status().database_reachable)
    revision = await edit(store, 96e9)
    await eventually(lambda: store.snapshot.revision == revision)
    await store.stop()
    assert not pid_file.exists()

    again = CatalogStore(settings)
    await again.start()
    assert again.snapshot.revision == revision
    await again.stop()


def test_a_store_serves_nothing_before_it_starts(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="started"):
        _ = CatalogStore(settings_for(tmp_path, None)).snapshot
