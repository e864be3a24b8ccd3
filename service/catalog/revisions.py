"""Reading the catalog from Postgres as it was at a revision."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncConnection

from service.catalog.documents import COLLECTIONS, Document, canonical
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.catalog.tables import catalog_entry, catalog_revision


class RevisionUnknown(LookupError):  # noqa: N818 - the name says what happened to the caller
    """The catalog has no revision of this number."""

    def __init__(self, revision: int) -> None:
        super().__init__(f"the catalog has no revision {revision}")
        self.revision = revision


@dataclass(frozen=True, slots=True)
class Revision:
    """One change of the catalog: who made it, when and why, and what held after it."""

    revision: int
    created_at: datetime
    author: str
    reason: str
    content_hash: str
    package_hash: str | None
    entry_count: int


async def newest_revision(connection: AsyncConnection) -> Revision | None:
    """The newest revision, None in an empty catalog."""
    rows = await connection.execute(
        select(catalog_revision).order_by(catalog_revision.c.revision.desc()).limit(1)
    )
    row = rows.one_or_none()
    return None if row is None else Revision(**row._mapping)


async def list_revisions(
    connection: AsyncConnection, before: int | None, limit: int
) -> list[Revision]:
    """Revisions from the newest down, or from those before a number."""
    wanted = select(catalog_revision).order_by(catalog_revision.c.revision.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(catalog_revision.c.revision < before)
    return [Revision(**row._mapping) for row in await connection.execute(wanted)]


async def read_revision(connection: AsyncConnection, revision: int) -> Revision:
    """A revision by its number.

    Raises
    ------
    RevisionUnknown
        If there is none.
    """
    rows = await connection.execute(
        select(catalog_revision).where(catalog_revision.c.revision == revision)
    )
    row = rows.one_or_none()
    if row is None:
        raise RevisionUnknown(revision)
    return Revision(**row._mapping)


async def documents_at(
    connection: AsyncConnection, revision: int
) -> dict[str, dict[str, Document]]:
    """All documents as they were at a revision, by collection and id."""
    newest = (
        select(
            catalog_entry.c.collection,
            catalog_entry.c.entry_id,
            catalog_entry.c.document,
        )
        .ext(distinct_on(catalog_entry.c.collection, catalog_entry.c.entry_id))
        .where(catalog_entry.c.revision <= revision)
        .order_by(
            catalog_entry.c.collection,
            catalog_entry.c.entry_id,
            catalog_entry.c.revision.desc(),
        )
    )
    rows = (await connection.execute(newest)).all()
    return await asyncio.to_thread(_by_collection, rows)


async def load_snapshot(
    connection: AsyncConnection, revision: int | None = None
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
        newest = await newest_revision(connection)
        if newest is None:
            raise RevisionUnknown(0)
        revision = newest.revision
    elif not 0 < revision < 2**63:
        raise RevisionUnknown(revision)
    else:
        await read_revision(connection, revision)
    documents = await documents_at(connection, revision)
    return await asyncio.to_thread(snapshot_from_documents, documents, revision)


def _by_collection(rows: Any) -> dict[str, dict[str, Document]]:
    documents: dict[str, dict[str, Document]] = {collection: {} for collection in COLLECTIONS}
    for collection, entry_id, document in rows:
        # A newer release may keep collections that this one does not know.
        if document is not None and collection in documents:
            documents[collection][entry_id] = canonical(document)
    return documents
