"""The keys of a running process: all of them in memory, so that no request waits for a table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from sqlalchemy.ext.asyncio import AsyncConnection

from service.access.keys import Caller, KeyRecord, caller_of
from service.access.repository import read_keys
from service.access.tokens import TokenIssuer

#: A JSON Web Token has three parts; an API key has no dots.
_DOTS_OF_A_TOKEN = 2


class Keyring:
    """Knows the keys as the database last told them; swapped whole when that changes.

    With an issuer, its tokens are keys, too.
    """

    def __init__(self, issuer: TokenIssuer | None = None) -> None:
        self._issuer = issuer
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
        if self._issuer is not None and text.count(".") == _DOTS_OF_A_TOKEN:
            return self._issuer.caller(text)
        return caller_of(text, self._records, datetime.now(UTC))
