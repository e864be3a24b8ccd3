"""Tokens of an OpenID Connect issuer, as another way than API keys to say who is calling.

The issuer's signing keys are fetched in the background and held; checking a token asks nobody.
Tokens are JSON Web Tokens signed with a key pair (RFC 7519, RFC 7515); claims tell what they allow.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import httpx
import jwt
import orjson

from service.access.keys import SCOPES, Caller, KeyRefused, fault_of_organisation
from service.background import ended
from service.core.errors import Unavailable
from service.fetching import UNPACKED, AnswerTooLarge, read_bounded
from service.settings import Settings

#: Signatures that need no secret shared with the issuer.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512", "EdDSA")
_RENEWED_EVERY_S = 3_600.0
#: An unknown key has the keys fetched anew, but no stranger can make that happen more often.
_LEAST_PAUSE_S = 60.0
_TIMEOUT_S = 5.0
#: For both requests, as the time above begins anew with every byte.
_WHOLE_TIMEOUT_S = 20.0
_LARGEST_BYTES = 200_000
_MOST_KEYS = 50
_LONGEST_TOKEN = 16_384
_KEY_PAIRS = frozenset({"RSA", "EC", "OKP"})
_LEEWAY_S = 30.0

_log = logging.getLogger(__name__)


class IssuerFailed(Unavailable):
    """The issuer did not answer, or not with what OpenID Connect Discovery says."""


class TokenIssuer:
    """Knows an issuer's signing keys, and who holds a token of it."""

    def __init__(
        self, settings: Settings, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._issuer = (settings.oidc_issuer or "").rstrip("/")
        self._audience = settings.oidc_audience
        self._organisation_claim = settings.oidc_organisation_claim
        self._scope_claim = settings.oidc_scope_claim
        self._transport = transport
        self._keys: Mapping[str, jwt.PyJWK] = MappingProxyType({})
        self._wanted = asyncio.Event()
        self._follower: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Fetch the keys, and again every hour and when an unknown one is met."""
        self._follower = asyncio.create_task(self._follow(), name="signing keys")

    async def stop(self) -> None:
        """Stop fetching."""
        if self._follower is not None:
            await ended(self._follower)

    def caller(self, text: str) -> Caller:
        """Who holds a token.

        Raises
        ------
        KeyRefused
            If it is none of this issuer for this service, or not for now.
        """
        if len(text) > _LONGEST_TOKEN:
            raise KeyRefused("the token is too long")
        try:
            key = self._keys.get(str(jwt.get_unverified_header(text).get("kid")))
            if key is None:
                self._wanted.set()
                raise KeyRefused("the token is signed with a key that the issuer has not published")
            claims = jwt.decode(
                text,
                key,
                algorithms=list(_ALGORITHMS),
                audience=self._audience,
                issuer=self._issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.InvalidTokenError, ValueError, TypeError, RecursionError) as error:
            if isinstance(error, KeyRefused):
                raise
            # The library lets some faults of JSON through as they are.
            raise KeyRefused(f"the token is not valid: {error}"[:200]) from None
        return self._holder(claims)

    def _holder(self, claims: Mapping[str, Any]) -> Caller:
        organisation = claims.get(self._organisation_claim)
        if not isinstance(organisation, str) or fault_of_organisation(organisation):
            raise KeyRefused(f"the token names no organisation in {self._organisation_claim!r}")
        told = claims.get(self._scope_claim) or ()
        scopes = told.split() if isinstance(told, str) else told
        subject = str(claims["sub"])[:100]
        if not subject.isprintable():
            raise KeyRefused("the token's subject contains characters that are not allowed")
        return Caller(
            key_id=f"oidc:{subject}",
            organisation=organisation,
            name=subject,
            scopes=frozenset(scope for scope in scopes if scope in SCOPES)
            if isinstance(scopes, list | tuple)
            else frozenset(),
        )

    async def refresh(self) -> None:
        """Fetch the signing keys once.

        Raises
        ------
        IssuerFailed
            If that fails; the keys that are held stay.
        """
        async with (
            asyncio.timeout(_WHOLE_TIMEOUT_S),
            httpx.AsyncClient(
                timeout=_TIMEOUT_S, transport=self._transport, headers=UNPACKED
            ) as client,
        ):
            found = await _fetched(client, f"{self._issuer}/.well-known/openid-configuration")
            address = found.get("jwks_uri")
            if str(found.get("issuer", "")).rstrip("/") != self._issuer:
                raise IssuerFailed("it names another issuer")
            # Keys that anybody on the way could change would let anybody in.
            if not isinstance(address, str) or (
                self._issuer.startswith("https:") and not address.startswith("https:")
            ):
                raise IssuerFailed("it names no secure address for its keys")
            published = (await _fetched(client, address)).get("keys")
        keys: dict[str, jwt.PyJWK] = {}
        for one in published[:_MOST_KEYS] if isinstance(published, list) else ():
            if not isinstance(one, dict) or one.get("kty") not in _KEY_PAIRS:
                continue  # with a published secret anybody could sign
            if one.get("use", "sig") == "sig" and one.get("kid"):
                with suppress(jwt.PyJWTError, ValueError, TypeError):
                    keys[str(one["kid"])] = jwt.PyJWK.from_dict(one)
        if not keys:
            raise IssuerFailed("it has published no usable key")
        self._keys = MappingProxyType(keys)

    async def _follow(self) -> None:
        while True:
            began = time.monotonic()
            self._wanted.clear()
            try:
                await self.refresh()
            except (IssuerFailed, httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
                _log.warning("The signing keys of %s were not fetched: %s", self._issuer, error)
                self._wanted.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(_RENEWED_EVERY_S):
                    await self._wanted.wait()
            await asyncio.sleep(max(_LEAST_PAUSE_S - (time.monotonic() - began), 0.0))


async def _fetched(client: httpx.AsyncClient, address: str) -> dict[str, Any]:
    """A small JSON object; nothing is followed to another place."""
    async with client.stream("GET", address) as response:
        if response.status_code != 200:
            raise IssuerFailed(f"{address} answers {response.status_code}")
        try:
            content = await read_bounded(response, _LARGEST_BYTES)
        except AnswerTooLarge as error:
            raise IssuerFailed(f"{address} answers what {error}") from None
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise IssuerFailed(f"{address} does not answer JSON") from None
    if not isinstance(found, dict):
        raise IssuerFailed(f"{address} does not answer a JSON object")
    return found
