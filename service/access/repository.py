"""Keys in Postgres: added and revoked, never changed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.access.keys import KeyRecord, NewKey
from service.catalog.database.tables import api_key, api_key_revocation


async def read_keys(
    connection: AsyncConnection, organisation: str | None = None
) -> list[KeyRecord]:
    """Every key there ever was, or those of an organisation, the oldest first."""
    revoked = (
        select(api_key_revocation.c.key_id, func.min(api_key_revocation.c.at).label("revoked_at"))
        .group_by(api_key_revocation.c.key_id)
        .subquery()
    )
    wanted = (
        select(api_key, revoked.c.revoked_at)
        .outerjoin(revoked, revoked.c.key_id == api_key.c.key_id)
        .order_by(api_key.c.created_at, api_key.c.key_id)
    )
    if organisation is not None:
        wanted = wanted.where(api_key.c.organisation == organisation)
    rows = await connection.execute(wanted)
    return [KeyRecord(**{**row._mapping, "scopes": frozenset(row.scopes)}) for row in rows]


async def time_of(connection: AsyncConnection) -> datetime:
    """What time it is for the database, whose clock all processes share."""
    told: datetime = (await connection.execute(select(func.clock_timestamp()))).scalar_one()
    return told


async def add_key(
    connection: AsyncConnection,
    key: NewKey,
    *,
    organisation: str,
    name: str,
    scopes: Iterable[str],
    expires_at: datetime | None,
    created_by: str,
) -> None:
    """Keep what is to be kept of a new key."""
    await connection.execute(
        insert(api_key).values(
            key_id=key.key_id,
            created_by=created_by,
            organisation=organisation,
            name=name,
            scopes=sorted(set(scopes)),
            secret_hash=key.secret_hash,
            expires_at=expires_at,
        )
    )


async def revoke_key(
    connection: AsyncConnection, key_id: str, at: datetime, created_by: str
) -> None:
    """End a key at a moment, at once if that has passed."""
    await connection.execute(
        insert(api_key_revocation).values(key_id=key_id, at=at, created_by=created_by)
    )
