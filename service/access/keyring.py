"""The keys of a running process: all of them in memory, so that no request waits for a table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from sqlalchemy.ext.asyncio import AsyncConnection

from service.access.keys import Caller, KeyRecord, caller_of
from service.access.repository import read_keys


class Keyring:
    """Knows the keys as the database last told them; swapped whole when that changes."""

    def __init__(self) -> None:
        self._records: Mapping[str, KeyRecord] = MappingProxyType({})

    async def refresh(self, connection: AsyncConnection) -> None:
        """Read all keys anew."""
        found = await read_keys(connection)
        self._records = MappingProxyType({record.key_id: record for record in found})

    def caller(self, text: str) -> Caller:
        """Who holds a key.

        Raises
        ------
        KeyRefused
            If it opens nothing now.
        """
        return caller_of(text, self._records, datetime.now(UTC))
