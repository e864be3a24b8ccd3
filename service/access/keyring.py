"""The keys of a running process: all of them in memory, so that no request waits for a table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncConnection

from service.access.keys import Caller, KeyRecord, caller_of
from service.access.repository import read_keys, time_of

if TYPE_CHECKING:
    from service.access.tokens import TokenIssuer

#: A JSON Web Token has three parts; an API key has no dots.
_DOTS_OF_A_TOKEN = 2


class Keyring:
    """Knows the keys as the database last told them; swapped whole when that changes.

    With an issuer, its tokens are keys, too.
    """

    def __init__(self, issuer: TokenIssuer | None = None) -> None:
        self._issuer = issuer
        self._clock: tuple[datetime, float] | None = None
        self._records: Mapping[str, KeyRecord] = MappingProxyType({})

    async def refresh(self, connection: AsyncConnection) -> None:
        """Read all keys anew."""
        found = await read_keys(connection)
        self._clock = (await time_of(connection), time.monotonic())
        self._records = MappingProxyType({record.key_id: record for record in found})

    def now(self) -> datetime:
        """The time by which keys begin and end: the database's, as all processes see it.

        A process whose own clock is behind would honour a key after it was revoked elsewhere.
        """
        if self._clock is None:
            return datetime.now(UTC)
        told, at_s = self._clock
        return told + timedelta(seconds=time.monotonic() - at_s)

    def caller(self, text: str) -> Caller:
        """Who holds a key.

        Raises
        ------
        KeyRefused
            If it opens nothing now.
        """
        if self._issuer is not None and text.count(".") == _DOTS_OF_A_TOKEN:
            return self._issuer.caller(text)
        return caller_of(text, self._records, self.now())
