"""Reading the catalog from Postgres as it was at a revision.

Each function takes an ``organisation`` whose own entries and revisions are seen beside the shared
ones; without it only what all share is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from weakref import WeakValueDictionary

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Select,
    Table,
    bindparam,
    func,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncConnection

from service.catalog.database.own import snapshot_with_own
from service.catalog.database.tables import catalog_entry, catalog_revision, own_entry
from service.catalog.entries.documents import (
    COLLECTIONS,
    Canonical,
    Document,
    DocumentSet,
    canonical,
    document_hash,
    every_document,
)
from service.catalog.entries.earlier import in_todays_form
from service.catalog.snapshot import CatalogSnapshot
from service.core.errors import NotFound

#: What this process holds of any catalog, by its hash, for as long as somebody uses it: of two
#: revisions most documents are the same, and those that are held need not be read again.
_held: WeakValueDictionary[str, Canonical] = WeakValueDictionary()


class RevisionUnknown(NotFound):
    """The catalog has no revision of this number."""

    def __init__(self, revision: int) -> None:
        super().__init__(f"the catalog has no revision {revision}")
        self.revision = revision


class RevisionsBeginLater(NotFound):
    """The catalog had no revision yet at this moment; ``first`` is when it got one, if it did."""

    def __init__(self, first: datetime | None) -> None:
        super().__init__("the catalog had no revision yet")
        self.first = first


@dataclass(frozen=True, slots=True)
class Revision:
    """One change of the catalog: who made it, when and why, and what held after it.

    ``organisation`` is whose own entries it changed, None for the catalog that all share; hash and
    count are then of these entries.
    """

    revision: int
    created_at: datetime
    author: str
    reason: str
    content_hash: str
    package_hash: str | None
    entry_count: int
    organisation: str | None
    key_id: str | None


async def newest_revision(
    connection: AsyncConnection, organisation: str | None = None
) -> Revision | None:
    """The newest revision, None in an empty catalog."""
    rows = await connection.execute(_newest_first(organisation).limit(1))
    row = rows.one_or_none()
    return None if row is None else Revision(**row._mapping)


async def revision_as_of(
    connection: AsyncConnection, moment: datetime, organisation: str | None = None
) -> Revision:
    """The revision that was the newest at a moment.

    Raises
    ------
    RevisionsBeginLater
        If there was none yet.
    """
    rows = await connection.execute(
        _newest_first(organisation).where(catalog_revision.c.created_at <= moment).limit(1)
    )
    row = rows.one_or_none()
    if row is None:
        raise RevisionsBeginLater(
            await connection.scalar(
                select(func.min(catalog_revision.c.created_at)).where(_seen_by(organisation))
            )
        )
    return Revision(**row._mapping)


async def list_revisions(
    connection: AsyncConnection, before: int | None, limit: int, organisation: str | None = None
) -> list[Revision]:
    """Revisions from the newest down, or from those before a number."""
    wanted = _newest_first(organisation).limit(limit)
    if before is not None:
        wanted = wanted.where(catalog_revision.c.revision < before)
    return [Revision(**row._mapping) for row in await connection.execute(wanted)]


async def read_revision(
    connection: AsyncConnection, revision: int, organisation: str | None = None
) -> Revision:
    """A revision by its number.

    Raises
    ------
    RevisionUnknown
        If there is none.
    """
    rows = await connection.execute(
        _newest_first(organisation).where(catalog_revision.c.revision == revision)
    )
    row = rows.one_or_none()
    if row is None:
        raise RevisionUnknown(revision)
    return Revision(**row._mapping)


def hold(documents: DocumentSet) -> None:
    """Spare later readers the documents that are at hand."""
    for _, _, document in every_document(documents):
        if isinstance(document, Canonical):
            _held[document_hash(document)] = document


async def documents_at(
    connection: AsyncConnection, revision: int
) -> dict[str, dict[str, Document]]:
    """All shared documents as they were at a revision, by collection and id."""
    return await _documents(connection, catalog_entry, catalog_entry.c.revision <= revision)


async def own_documents_at(
    connection: AsyncConnection, revision: int, organisation: str
) -> dict[str, dict[str, Document]]:
    """An organisation's own documents as they were at a revision, by collection and id."""
    return await _documents(
        connection,
        own_entry,
        own_entry.c.revision <= revision,
        own_entry.c.organisation == organisation,
    )


async def newest_own_revisions(connection: AsyncConnection) -> dict[str, int]:
    """The newest revision of each organisation that has, or had, entries of its own."""
    rows = await connection.execute(
        select(
            catalog_revision.c.organisation, func.max(catalog_revision.c.revision).label("revision")
        )
        .where(catalog_revision.c.organisation.is_not(None))
        .group_by(catalog_revision.c.organisation)
    )
    return {row.organisation: row.revision for row in rows}


async def load_snapshot(
    connection: AsyncConnection, revision: int | None = None, organisation: str | None = None
) -> CatalogSnapshot:
    """The snapshot of a revision, by default the newest.

    Raises
    ------
    RevisionUnknown
        If there is no such revision, or none at all.
    CatalogInvalid
        If this release cannot make sense of what the revision holds.
    """
    if revision is None:
        newest = await newest_revision(connection, organisation)
        if newest is None:
            raise RevisionUnknown(0)
        revision = newest.revision
    elif not 0 < revision < 2**63:
        raise RevisionUnknown(revision)
    else:
        await read_revision(connection, revision, organisation)
    documents = in_todays_form(await documents_at(connection, revision))
    own = (
        await own_documents_at(connection, revision, organisation)
        if organisation is not None
        else {}
    )
    return await asyncio.to_thread(snapshot_with_own, documents, own, revision)


def _seen_by(organisation: str | None) -> ColumnElement[bool]:
    shared = catalog_revision.c.organisation.is_(None)
    if organisation is None:
        return shared
    return or_(shared, catalog_revision.c.organisation == organisation)


def _newest_first(organisation: str | None) -> Select[Any]:
    newest_first = catalog_revision.c.revision.desc()
    return select(catalog_revision).where(_seen_by(organisation)).order_by(newest_first)


async def _documents(
    connection: AsyncConnection, table: Table, *conditions: ColumnElement[bool]
) -> dict[str, dict[str, Document]]:
    """The newest documents that meet conditions, of which only those not held here are fetched."""
    place = (table.c.collection, table.c.entry_id)
    newest = (
        select(*place, table.c.id, table.c.document_hash)
        .ext(distinct_on(*place))
        .where(*conditions)
        .order_by(*place, table.c.revision.desc())
    )
    # A newer release may keep collections that this one does not know.
    rows = [
        row
        for row in await connection.execute(newest)
        if row.document_hash is not None and row.collection in COLLECTIONS
    ]
    held = {digest: one for row in rows if (one := _held.get(digest := row.document_hash))}
    missing = [row.id for row in rows if row.document_hash not in held]
    if missing:
        wanted = table.c.id == func.any(bindparam("ids", missing, ARRAY(BigInteger)))
        columns = (table.c.document_hash, table.c.document)
        fetched = await connection.execute(select(*columns).where(wanted))
        held |= await asyncio.to_thread(_read, fetched.all())
    documents: dict[str, dict[str, Document]] = {collection: {} for collection in COLLECTIONS}
    for row in rows:
        documents[row.collection][row.entry_id] = held[row.document_hash]
    return documents


def _read(rows: Iterable[Any]) -> dict[str, Canonical]:
    read = {digest: Canonical(canonical(document)) for digest, document in rows}
    _held.update(read)
    return read
