from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.catalog.database.connection import create_engine, migrate
from service.catalog.database.importer import (
    Change,
    EntryConflict,
    RevisionConflict,
    apply_change,
    import_package,
)
from service.catalog.database.revisions import (
    RevisionUnknown,
    documents_at,
    load_snapshot,
    newest_revision,
    read_revision,
)
from service.catalog.database.tables import catalog_entry, catalog_revision
from service.catalog.entries.documents import CatalogInvalid, canonical_bytes
from service.catalog.files import read_schemas
from service.catalog.snapshot import snapshot_from_documents
from service.settings import INSTALLATION
from tests.catalog.examples import Documents, accelerator, figure, region, small_catalog

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
        assert newest.entry_count == 14
        snapshot = await load_snapshot(connection)
    assert snapshot.revision == revision
    assert snapshot.content_hash == newest.content_hash
    assert snapshot.content_hash == snapshot_from_documents(small_catalog(), 0).content_hash


async def test_only_documents_that_differ_are_read_again(engine: AsyncEngine) -> None:
    first = await bring(engine, small_catalog())
    changed = small_catalog()
    changed["accelerators"][ONE[1]]["figures"]["memory_bytes"] = figure(96e9)
    second = await bring(engine, changed)
    assert first is not None
    assert second is not None
    async with engine.connect() as connection:
        old, new = await documents_at(connection, first), await documents_at(connection, second)
    assert old["accelerators"][ONE[1]] == small_catalog()["accelerators"][ONE[1]]
    assert new["accelerators"][ONE[1]] == changed["accelerators"][ONE[1]]
    del old["accelerators"][ONE[1]]
    for collection, entries in old.items():
        for entry_id, document in entries.items():
            assert new[collection][entry_id] is document


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
        assert (await newest_revision(connection)).entry_count == 14  # type: ignore[union-attr]
    for snapshot, documents in ((old, before), (new, after)):
        for collection, entries in documents.items():
            held = snapshot.collection(collection)
            assert {
                entry_id: canonical_bytes(entry.document) for entry_id, entry in held.items()
            } == {entry_id: canonical_bytes(document) for entry_id, document in entries.items()}
    assert old.find("accelerators", "one").value.idle_power_w is None
    idle = new.find("accelerators", "one").value.idle_power_w
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
        changes = {
            ONE: edited,
            ("regions", "aws/eu-north-1"): None,
            **{("offers", id_): None for id_ in packaged["offers"]},
        }
        applied = await apply_change(
            connection, Change(changes, "ada", "measured", expected_revision=first), SCHEMAS
        )
    second = applied.revision
    assert second is not None
    assert {(one.collection, one.change) for one in applied.differences} == {
        ("accelerators", "changed"),
        ("regions", "removed"),
        ("offers", "removed"),
    }
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
            await apply_change(connection, Change({ONE: unsound}, "eve", "because"), SCHEMAS)
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
        same = Change({ONE: accelerator()}, "ada", "no change")
        assert (await apply_change(connection, same, SCHEMAS)).revision is None
        other = {ONE: accelerator(memory_bytes=figure(1e9))}
        late = Change(other, "ada", "late", expected_revision=first - 1)
        with pytest.raises(RevisionConflict):
            await apply_change(connection, late, SCHEMAS)
        for based_on in ("0" * 64, None):
            unaware = Change(other, "ada", "unaware", expected_hashes={ONE: based_on})
            with pytest.raises(EntryConflict):
                await apply_change(connection, unaware, SCHEMAS)


async def test_a_dry_run_tells_the_difference_and_records_nothing(engine: AsyncEngine) -> None:
    await bring(engine, small_catalog())
    change = Change({ONE: accelerator(memory_bytes=figure(79e9))}, "ada", "to see")
    async with engine.begin() as connection:
        applied = await apply_change(connection, change, SCHEMAS, dry_run=True)
    assert applied.revision is None
    (one,) = applied.differences
    assert [(f.pointer, f.before, f.after) for f in one.fields] == [
        ("/figures/memory_bytes/value", 80_000_000_000, 79_000_000_000)
    ]
    async with engine.connect() as connection:
        assert await count(connection) == 1


OWN = ("accelerators", "own/rack-7")


async def test_own_entries_are_seen_by_their_organisation_alone(engine: AsyncEngine) -> None:
    shared = await bring(engine, small_catalog())
    mine = accelerator("own/rack-7") | {"aliases": ["rack"]}
    async with engine.begin() as connection:
        applied = await apply_change(
            connection, Change({OWN: mine}, "ada", "our hardware", organisation="acme"), SCHEMAS
        )
    async with engine.connect() as connection:
        acme = await load_snapshot(connection, organisation="acme")
        assert acme.revision == applied.revision
        assert acme.find("accelerators", "rack").id == "own/rack-7"
        for others in (await load_snapshot(connection), await load_snapshot(connection, shared)):
            assert others.revision == shared
            assert "own/rack-7" not in others.accelerators
        assert "own/rack-7" not in (await load_snapshot(connection, None, "else")).accelerators
        with pytest.raises(RevisionUnknown):
            await load_snapshot(connection, applied.revision, "else")
        before = await load_snapshot(connection, shared, "acme")
        assert "own/rack-7" not in before.accelerators


@pytest.mark.parametrize(
    ("organisation", "place"),
    [
        ("acme", ONE),
        (None, OWN),
        ("acme", ("calibrations", "own/better")),
        ("acme", ("accelerators", "own/../x y")),
        ("acme", ("accelerators", "own/" + "x" * 300)),
    ],
)
async def test_own_and_shared_entries_do_not_mix(
    engine: AsyncEngine, organisation: str | None, place: tuple[str, str]
) -> None:
    await bring(engine, small_catalog())
    document = accelerator(place[1]) | {"aliases": []}
    change = Change({place: document}, "eve", "no", organisation=organisation)
    async with engine.begin() as connection:
        with pytest.raises(CatalogInvalid):
            await apply_change(connection, change, SCHEMAS)


async def test_an_own_entry_whose_parent_has_gone_is_left_out(engine: AsyncEngine) -> None:
    await bring(engine, small_catalog())
    hall = region("own/hall", "aws/eu-north-1", pue_ratio=figure(1.05))
    other = region("own/cellar", "country/SE")
    async with engine.begin() as connection:
        own = {("regions", one["id"]): one for one in (hall, other)}
        await apply_change(connection, Change(own, "ada", "ours", organisation="acme"), SCHEMAS)
    async with engine.begin() as connection:
        gone = {
            ("regions", "aws/eu-north-1"): None,
            **{
                (collection, id_): None
                for collection in ("instances", "offers")
                for id_ in small_catalog()[collection]
            },
        }
        await apply_change(connection, Change(gone, "bob", "closed"), SCHEMAS)
    async with engine.connect() as connection:
        acme = await load_snapshot(connection, organisation="acme")
    assert "own/hall" not in acme.regions
    assert "own/cellar" in acme.regions


async def test_writers_that_meet_lose_nothing(engine: AsyncEngine) -> None:
    await bring(engine, small_catalog())

    async def write(number: int) -> None:
        entry_id = f"acme-{number}"
        document = accelerator(entry_id) | {"aliases": []}
        async with engine.begin() as connection:
            change = Change({("accelerators", entry_id): document}, "ada", "one more")
            await apply_change(connection, change, SCHEMAS)

    await asyncio.gather(*(write(number) for number in range(8)))
    async with engine.connect() as connection:
        snapshot = await load_snapshot(connection)
        newest = await newest_revision(connection)
    assert newest is not None
    assert snapshot.content_hash == newest.content_hash
    assert {f"acme-{number}" for number in range(8)} <= set(snapshot.accelerators)


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
