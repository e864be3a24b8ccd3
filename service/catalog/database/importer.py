"""Writing the catalog: every change is a new revision, and nothing is ever overwritten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Table, func, insert, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncConnection

from service.catalog.database.connection import hold_writer_lock
from service.catalog.database.own import OWN_COLLECTIONS, OWN_PREFIX, is_own, merged
from service.catalog.database.revisions import (
    documents_at,
    hold,
    newest_revision,
    own_documents_at,
)
from service.catalog.database.tables import catalog_entry, catalog_revision, own_entry
from service.catalog.differences import EntryChange, differences
from service.catalog.entries.checks import Schemas, check_documents
from service.catalog.entries.documents import (
    Canonical,
    CatalogError,
    CatalogInvalid,
    Document,
    DocumentSet,
    canonical,
    content_hash,
    document_hash,
    every_document,
    hashes_of,
)
from service.core.errors import Conflict

#: Documents by collection and id, None for an entry to be removed.
Changes = Mapping[tuple[str, str], Document | None]

PACKAGE_AUTHOR = "packaged catalog"


class RevisionConflict(Conflict):
    """The catalog has moved on since the revision that a change was based on."""

    def __init__(self, expected: int, newest: int) -> None:
        super().__init__(f"the catalog is at revision {newest}, not {expected}")
        self.expected = expected
        self.newest = newest


class EntryConflict(Conflict):
    """An entry is not what a change was based on; ``held`` is its hash, None if there is none."""

    def __init__(self, collection: str, entry_id: str, held: str | None) -> None:
        super().__init__(f"{collection} {entry_id} is not what the change was based on")
        self.collection = collection
        self.entry_id = entry_id
        self.held = held


@dataclass(frozen=True, slots=True)
class Change:
    """What somebody wants changed, and on what it is based.

    Parameters
    ----------
    entries
        Documents by collection and id, None for an entry to be removed.
    author, reason
        Who changes it and why, for the audit trail.
    organisation
        Whose own entries they are, None for the catalog that all share.
    key_id
        The API key that it is done with.
    expected_revision
        The revision that it is based on, None for whichever is the newest.
    expected_hashes
        Hashes of the documents that it is based on, None for those that must not exist; entries
        that are not named may be what they are.
    """

    entries: Changes
    author: str
    reason: str
    organisation: str | None = None
    key_id: str | None = None
    expected_revision: int | None = None
    expected_hashes: Mapping[tuple[str, str], str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a change: the revision that it made, None for none, and what differs."""

    revision: int | None
    differences: tuple[EntryChange, ...]


async def import_package(
    connection: AsyncConnection, documents: DocumentSet, reason: str
) -> int | None:
    """Bring the packaged documents in as a revision, unless they have been in before.

    To be run in a transaction of its own; of replicas that start at the same time one imports and
    the others find it done. A set that was ever imported is not imported again, so an old replica
    that restarts beside a newer one does not set the catalog back. Entries whose last change was
    made by a person stay as they are.

    Returns
    -------
    int or None
        The new revision, None when there was nothing to do.
    """
    hashes = hashes_of(documents)
    hold(documents)
    package_hash = content_hash(hashes)
    await hold_writer_lock(connection)
    seen = await connection.execute(
        select(catalog_revision.c.revision).where(catalog_revision.c.package_hash == package_hash)
    )
    if seen.first() is not None:
        return None
    held = await _held(connection)
    edited = {place for place, (_, packaged) in held.items() if not packaged}
    wanted: dict[tuple[str, str], Document | None] = {
        place: None for place, (digest, _) in held.items() if digest is not None
    }
    wanted.update(
        {
            (collection, entry_id): document
            for collection, entry_id, document in every_document(documents)
        }
    )
    changes = {
        place: document
        for place, document in wanted.items()
        if place not in edited and hashes.get(place) != held.get(place, _NONE)[0]
    }
    return await _append(
        connection,
        catalog_entry,
        held,
        changes,
        author=PACKAGE_AUTHOR,
        reason=reason,
        package_hash=package_hash,
    )


async def apply_change(
    connection: AsyncConnection, change: Change, schemas: Schemas, *, dry_run: bool = False
) -> Applied:
    """Record a change as a revision, if the catalog is sound with it.

    To be run in a transaction of its own. A dry run finds out all the same and records nothing. A
    change after which the catalog says what it said before makes no revision.

    Raises
    ------
    CatalogInvalid
        With everything that would be wrong; nothing is changed.
    RevisionConflict, EntryConflict
        If the change is based on something else than there is.
    """
    await hold_writer_lock(connection)
    newest = await newest_revision(connection, change.organisation)
    number = 0 if newest is None else newest.revision
    if change.expected_revision not in (None, number):
        raise RevisionConflict(change.expected_revision, number)
    shared = await documents_at(connection, number)
    if change.organisation is None:
        held_documents = shared
        table, held = catalog_entry, await _held(connection)
    else:
        held_documents = await own_documents_at(connection, number, change.organisation)
        table, held = own_entry, _hashed(held_documents)
    for (collection, entry_id), based_on in change.expected_hashes.items():
        there = held.get((collection, entry_id), _NONE)[0]
        if based_on != there:
            raise EntryConflict(collection, entry_id, there)
    wanted = {collection: dict(entries) for collection, entries in held_documents.items()}
    errors = [*_misplaced(change)]
    for (collection, entry_id), document in change.entries.items():
        held_there = wanted.setdefault(collection, {})
        if document is not None:
            held_there[entry_id] = Canonical(canonical(document))
        elif held_there.pop(entry_id, None) is None:
            errors.append(CatalogError(collection, entry_id, "", "there is no such entry"))
    whole = wanted if change.organisation is None else merged(shared, wanted)
    errors += await asyncio.to_thread(check_documents, whole, schemas)
    if errors:
        raise CatalogInvalid(errors)
    differing = tuple(await asyncio.to_thread(_differences, held_documents, wanted))
    changed = {
        (one.collection, one.entry_id): wanted[one.collection].get(one.entry_id)
        for one in differing
    }
    if dry_run or not changed:
        return Applied(None, differing)
    revision = await _append(
        connection,
        table,
        held,
        changed,
        author=change.author,
        reason=change.reason,
        organisation=change.organisation,
        key_id=change.key_id,
    )
    return Applied(revision, differing)


#: What is held of an entry that never was: no hash, and nobody's edit.
_NONE: tuple[str | None, bool] = (None, True)


def _differences(before: DocumentSet, after: DocumentSet) -> list[EntryChange]:
    return list(differences(before, after))


def _misplaced(change: Change) -> Iterator[CatalogError]:
    """Own entries among the shared ones, shared ones among an organisation's own."""
    for collection, entry_id in change.entries:
        own = change.organisation is not None
        if own and collection not in OWN_COLLECTIONS:
            yield CatalogError(
                collection, entry_id, "", "organisations cannot have own entries in this collection"
            )
        elif own and not is_own(entry_id):
            detail = f"ids of an organisation's own entries begin with {OWN_PREFIX}"
            yield CatalogError(collection, entry_id, "/id", detail)
        elif not own and is_own(entry_id):
            detail = f"ids that begin with {OWN_PREFIX} are for organisations' own entries"
            yield CatalogError(collection, entry_id, "/id", detail)


def _hashed(documents: DocumentSet) -> dict[tuple[str, str], tuple[str | None, bool]]:
    return {place: (digest, False) for place, digest in hashes_of(documents).items()}


async def _held(connection: AsyncConnection) -> dict[tuple[str, str], tuple[str | None, bool]]:
    """Of each entry there ever was: its newest hash, and whether a package brought it."""
    newest = (
        select(
            catalog_entry.c.collection,
            catalog_entry.c.entry_id,
            catalog_entry.c.document_hash,
            catalog_revision.c.package_hash.is_not(None),
        )
        .join(catalog_revision)
        .ext(distinct_on(catalog_entry.c.collection, catalog_entry.c.entry_id))
        .order_by(
            catalog_entry.c.collection, catalog_entry.c.entry_id, catalog_entry.c.revision.desc()
        )
    )
    rows = await connection.execute(newest)
    return {
        (collection, entry_id): (digest, packaged)
        for collection, entry_id, digest, packaged in rows
    }


async def _append(
    connection: AsyncConnection,
    table: Table,
    held: Mapping[tuple[str, str], tuple[str | None, bool]],
    changes: Changes,
    *,
    author: str,
    reason: str,
    package_hash: str | None = None,
    organisation: str | None = None,
    key_id: str | None = None,
) -> int:
    """Add one revision with its entries; the caller holds the writer lock."""
    after = {place: digest for place, (digest, _) in held.items()}
    after.update({place: _hash(document) for place, document in changes.items()})
    present = {place: digest for place, digest in after.items() if digest is not None}
    inserted = await connection.execute(
        insert(catalog_revision)
        .values(
            # Not the transaction's own time: it may have begun before the revision that it awaited.
            created_at=func.clock_timestamp(),
            author=author,
            reason=reason,
            content_hash=content_hash(present),
            package_hash=package_hash,
            entry_count=len(present),
            organisation=organisation,
            key_id=key_id,
        )
        .returning(catalog_revision.c.revision)
    )
    revision: int = inserted.scalar_one()
    owner = {} if organisation is None else {"organisation": organisation}
    rows: list[dict[str, Any]] = [
        {
            **owner,
            "revision": revision,
            "collection": collection,
            "entry_id": entry_id,
            "document": document,
            "document_hash": after[collection, entry_id],
        }
        for (collection, entry_id), document in changes.items()
    ]
    if rows:
        await connection.execute(insert(table), rows)
    return revision


def _hash(document: Document | None) -> str | None:
    return None if document is None else document_hash(document)
