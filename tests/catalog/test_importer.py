from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.catalog.database import create_engine, migrate
from service.catalog.documents import CatalogInvalid, canonical_bytes
from service.catalog.files import read_schemas
from service.catalog.importer import RevisionConflict, apply_changes, import_package
from service.catalog.revisions import (
    RevisionUnknown,
    documents_at,
    load_snapshot,
    newest_revision,
    read_revision,
)
from service.catalog.snapshot import snapshot_from_documents
from service.catalog.tables import catalog_entry, catalog_revision
from service.settings import INSTALLATION
from tests.catalog.examples import Documents, accelerator, figure, small_catalog

SCHEMAS = read_schemas(INSTALLATION / "hardware_catalog")
ONE = ("accelerators", "acme-one-80gb")


@pytest.fixture
async def engine(postgres_url: str) -> AsyncIterator[AsyncEngine]:
    """An engine on an empty catalog: each test starts from none."""
    engine = create_engine(postgres_url)
    await migrate(engine, "base") if await _is_migrated(engine) else None
    await migrate(engine)
    yield engine
    await engine.dispose()


async def _is_migrated(engine: AsyncEngine) -> bool:
    async with engine.connect() as connection:
        return await connection.run_sync(
            lambda sync: engine.dialect.has_table(sync, "catalog_revision")
        )


async def bring(engine: AsyncEngine, documents: Documents) -> int | None:
    async with engine.begin() as connection:
        return await import_package(connection, documents, "test")


async def count(connection: AsyncConnection) -> int:
    return await connection.scalar(select(func.count()).select_from(catalog_revision)) or 0


async def test_importing_twice_makes_one_revision(engine: AsyncEngine) -> None:
    revision = await bring(engine, small_catalog())
    assert revision is not None
    assert await bring(engine, small_catalog()) is None
    async with engine.connect() as connection:
        assert await count(connection) == 1
        newest = await newest_revision(connection)
        assert newest == await read_revision(connection, revision)
        assert newest is not None
        assert newest.entry_count == 11
        snapshot = await load_snapshot(connection)
    assert snapshot.revision == revision
    assert snapshot.content_hash == newest.content_hash
    assert snapshot.content_hash == snapshot_from_documents(small_catalog(), 0).content_hash


async def test_replicas_that_start_together_import_once(engine: AsyncEngine) -> None:
    revisions = await asyncio.gather(*(bring(engine, small_catalog()) for _ in range(4)))
    assert sum(revision is not None for revision in revisions) == 1
    async with engine.connect() as connection:
        assert await count(connection) == 1


async def test_a_changed_document_makes_a_revision_and_the_old_one_stays(
    engine: AsyncEngine,
) -> None:
    before = small_catalog()
    first = await bring(engine, before)
    after = deepcopy(before)
    after["accelerators"]["acme-one-80gb"]["figures"]["idle_power_w"] = figure(70.5)
    after["accelerators"]["acme-two"] = accelerator("acme-two") | {"aliases": []}
    del after["models"]["acme/tiny"]
    second = await bring(engine, after)
    assert first is not None
    assert second is not None
    async with engine.connect() as connection:
        changed = await connection.scalars(
            select(catalog_entry.c.entry_id).where(catalog_entry.c.revision == second)
        )
        assert sorted(changed) == ["acme-one-80gb", "acme-two", "acme/tiny"]
        old, new = await load_snapshot(connection, first), await load_snapshot(connection, second)
        assert (await newest_revision(connection)).entry_count == 11  # type: ignore[union-attr]
    for snapshot, documents in ((old, before), (new, after)):
        for collection, entries in documents.items():
            held = snapshot.collection(collection)
            assert {
                entry_id: canonical_bytes(entry.document) for entry_id, entry in held.items()
            } == {entry_id: canonical_bytes(document) for entry_id, document in entries.items()}
    assert old.find("accelerators", "one").value.idle_power is None
    idle = new.find("accelerators", "one").value.idle_power
    assert idle is not None
    assert idle.value == 70.5


async def test_an_older_replica_that_restarts_sets_nothing_back(engine: AsyncEngine) -> None:
    older, newer = small_catalog(), small_catalog()
    newer["accelerators"]["acme-one-80gb"]["figures"]["memory_bytes"] = figure(96e9)
    await bring(engine, older)
    await bring(engine, newer)
    assert await bring(engine, older) is None
    async with engine.connect() as connection:
        snapshot = await load_snapshot(connection)
    assert snapshot.accelerators["acme-one-80gb"].value.memory_bytes == 96e9


async def test_a_persons_edit_outlives_the_next_package(engine: AsyncEngine) -> None:
    packaged = small_catalog()
    first = await bring(engine, packaged)
    edited = accelerator(memory_bytes=figure(79e9))
    async with engine.begin() as connection:
        second = await apply_changes(
            connection,
            {ONE: edited, ("regions", "aws/eu-north-1"): None},
            SCHEMAS,
            author="ada",
            reason="measured",
            expected_revision=first,
        )
    assert second is not None
    newer = deepcopy(packaged)
    newer["accelerators"]["acme-one-80gb"]["figures"]["memory_bytes"] = figure(96e9)
    newer["regions"]["country/SE"]["figures"]["ewif_l_per_kwh"] = figure(3.0)
    await bring(engine, newer)
    async with engine.connect() as connection:
        snapshot = await load_snapshot(connection)
        revision = await read_revision(connection, second)
    assert (revision.author, revision.reason) == ("ada", "measured")
    assert snapshot.accelerators["acme-one-80gb"].value.memory_bytes == 79e9
    assert "aws/eu-north-1" not in snapshot.regions
    assert snapshot.regions["country/SE"].value.ewif_l_per_kwh.value == 3.0  # type: ignore[union-attr]


async def test_an_unsound_change_changes_nothing(engine: AsyncEngine) -> None:
    first = await bring(engine, small_catalog())
    unsound = accelerator(memory_bytes=figure(80e9, source="hearsay"), idle_power_w=figure(701))
    with pytest.raises(CatalogInvalid) as caught:
        async with engine.begin() as connection:
            await apply_changes(connection, {ONE: unsound}, SCHEMAS, author="eve", reason="because")
    assert {error.pointer for error in caught.value.errors} == {
        "/figures/memory_bytes/source",
        "/figures/idle_power_w",
    }
    async with engine.connect() as connection:
        newest = await newest_revision(connection)
    assert newest is not None
    assert newest.revision == first


async def test_a_change_is_based_on_what_its_author_saw(engine: AsyncEngine) -> None:
    first = await bring(engine, small_catalog())
    assert first is not None
    async with engine.begin() as connection:
        again = await apply_changes(
            connection, {ONE: accelerator()}, SCHEMAS, author="ada", reason="no change"
        )
        assert again is None
        with pytest.raises(RevisionConflict):
            await apply_changes(
                connection,
                {ONE: accelerator(memory_bytes=figure(1e9))},
                SCHEMAS,
                author="ada",
                reason="late",
                expected_revision=first - 1,
            )


@pytest.mark.parametrize("revision", [-1, 0, 4711, 2**63, 10**40])
async def test_revisions_that_never_were(engine: AsyncEngine, revision: int) -> None:
    await bring(engine, small_catalog())
    async with engine.connect() as connection:
        with pytest.raises(RevisionUnknown):
            await load_snapshot(connection, revision)


async def test_an_empty_catalog_has_no_revision(engine: AsyncEngine) -> None:
    async with engine.connect() as connection:
        assert await newest_revision(connection) is None
        with pytest.raises(RevisionUnknown):
            await load_snapshot(connection)
        assert all(not entries for entries in (await documents_at(connection, 5)).values())
