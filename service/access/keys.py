"""API keys: their text, what is kept of them, and what they allow."""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from service.core.errors import InvalidInput

#: What a key can allow, beyond reading its organisation's own entries, which any key does.
SCOPES: Mapping[str, str] = {
    "catalog:write": "change the shared catalog",
    "own:write": "change the organisation's own entries",
    "keys:write": "create, replace and revoke keys of the organisation",
}

_ID_BYTES = 10
_SECRET_BYTES = 32
_KEY = re.compile(r"headroom_([a-z2-7]{16})_([A-Za-z0-9_-]{43})")
_ORGANISATION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST_NAME = 60
#: Compared with where there is no such key, so that the answer takes as long.
_NO_HASH = sha256(b"").hexdigest()


class KeyRefused(InvalidInput):
    """A key that opens nothing: unknown, malformed, expired or revoked."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key as it is handed out, once: ``text`` is told to its holder and kept nowhere."""

    key_id: str
    text: str
    secret_hash: str


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """What is kept of a key.

    ``expires_at`` was set when it was made, None for never; ``revoked_at`` is the earliest moment
    that a revocation names, which may lie ahead.
    """

    key_id: str
    organisation: str
    name: str
    scopes: frozenset[str]
    secret_hash: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None

    @property
    def ends_at(self) -> datetime | None:
        """When the key stops to open anything, None for never."""
        return min((at for at in (self.expires_at, self.revoked_at) if at), default=None)


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request with a key that holds."""

    key_id: str
    organisation: str
    name: str
    scopes: frozenset[str]

    @property
    def author(self) -> str:
        """How the audit trail names them."""
        return f"{self.name} of {self.organisation}"


def make_key() -> NewKey:
    """A new key of 256 random bits, with a public id to tell it by."""
    key_id = b32encode(secrets.token_bytes(_ID_BYTES)).decode().lower()
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    return NewKey(key_id, f"headroom_{key_id}_{secret}", _hash(secret))


def caller_of(text: str, records: Mapping[str, KeyRecord], now: datetime) -> Caller:
    """Who holds a key.

    Raises
    ------
    KeyRefused
        If it opens nothing now. Whether the id or the secret is wrong is not told.
    """
    found = _KEY.fullmatch(text)
    if found is None:
        raise KeyRefused("this is not an API key of this service")
    record = records.get(found[1])
    kept = _NO_HASH if record is None else record.secret_hash
    if not hmac.compare_digest(_hash(found[2]), kept) or record is None:
        raise KeyRefused("no such API key")
    if record.ends_at is not None and record.ends_at <= now:
        ended = "expired" if record.ends_at == record.expires_at else "was revoked"
        raise KeyRefused(f"the API key {record.key_id} {ended}")
    return Caller(record.key_id, record.organisation, record.name, record.scopes)


def fault_of_organisation(name: str) -> str | None:
    """What is wrong with an organisation's name, None if nothing is."""
    if len(name) > _LONGEST_NAME or not _ORGANISATION.fullmatch(name):
        return f"lower-case letters and digits joined by hyphens, at most {_LONGEST_NAME}"
    return None


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
