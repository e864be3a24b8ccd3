"""Asks the Hub about a model: bounded in time and size, and never led to another host.

References
----------
https://huggingface.co/docs/hub/api; paths as huggingface_hub asks for them, 2026.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from service.checkpoints.reading import CheckpointUnreadable, json_object
from service.core.errors import NotFound, Unavailable
from service.fetching import UNPACKED, AnswerTooLarge, read_bounded
from service.hub.files import HubFiles
from service.hub.names import HubName, is_commit

if TYPE_CHECKING:
    import httpx

_MOST_BYTES = 2_000_000
_MOST_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 307, 308})
_MISSING = frozenset({401, 404})
_MOST_TYPES = 50


class HubRefuses(NotFound):
    """There is no such model to be had; the message is for whoever asked."""


class HubAway(Unavailable):
    """The Hub does not answer, or not as agreed."""


class HubClient:
    """The Hub at an address, asked by one token or none."""

    def __init__(
        self,
        endpoint: str,
        token: str | None,
        timeout_s: float,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._timeout_s = timeout_s
        self._transport = transport
        self._headers = {"User-Agent": "headroom", **UNPACKED}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._has_token = token is not None

    @cached_property
    def _client(self) -> httpx.AsyncClient:
        """Made when a model of the Hub is first asked about, which in most processes is never."""
        import httpx

        return httpx.AsyncClient(
            timeout=self._timeout_s,
            follow_redirects=False,
            transport=self._transport,
            headers=self._headers,
        )

    async def stop(self) -> None:
        """Let go of connections."""
        if "_client" in vars(self):
            await self._client.aclose()

    async def fetch(self, name: HubName, known: HubFiles | None) -> HubFiles:
        """A model's configuration at a revision, as it is now.

        Parameters
        ----------
        name
            The model.
        known
            What was fetched before; its configuration serves again if the commit is the same.

        Raises
        ------
        HubRefuses
            If there is no such model, or it cannot be read.
        HubAway
            If the Hub fails, or takes longer than the timeout for all of it.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._fetch(name, known)
        except TimeoutError:
            raise HubAway(f"does not answer within {self._timeout_s:g} s") from None

    async def _fetch(self, name: HubName, known: HubFiles | None) -> HubFiles:
        told = self._object(
            await self._get(
                f"api/models/{name.repository}/revision/{name.revision_in_path}",
                name,
                {"expand": ["sha", "safetensors", "lastModified"]},
            )
        )
        commit = told.get("sha")
        if not is_commit(commit):
            raise HubAway("does not answer like a Hub")
        if known is not None and known.commit == commit:
            config = known.config
        else:
            content = await self._get(f"{name.repository}/raw/{commit}/config.json", name, {})
            try:
                config = json_object(content)
            except CheckpointUnreadable as error:
                raise HubRefuses(f"the config.json of {name} cannot be read: {error}") from None
        return HubFiles(
            repository=name.repository,
            commit=str(commit),
            url=f"{self._endpoint}/{name.repository}/blob/{commit}/config.json",
            year=_year(told.get("lastModified")),
            config=config,
            elements_by_type=_elements(told.get("safetensors")),
            confirmed_at=time.time(),
        )

    async def _get(self, path: str, name: HubName, params: Mapping[str, Any]) -> bytes:
        import httpx

        url = httpx.URL(f"{self._endpoint}/{path}", params=params)
        for _ in range(_MOST_REDIRECTS + 1):
            request = self._client.build_request("GET", url)
            try:
                answer = await self._client.send(request, stream=True)
                try:
                    if answer.status_code in _REDIRECTS:
                        url = self._next(url, answer.headers.get("location", ""))
                        continue
                    self._check(answer, name, config=path.endswith("config.json"))
                    return await read_bounded(answer, _MOST_BYTES)
                finally:
                    await answer.aclose()
            except AnswerTooLarge as error:
                raise HubRefuses(f"the Hub's answer {error}") from None
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise HubAway(f"does not answer: {type(error).__name__}") from None
        raise HubAway("redirects too often")

    def _next(self, url: httpx.URL, location: str) -> httpx.URL:
        """Where an answer points: only to the same host, which alone gets the token."""
        following = url.join(location)
        origin = (url.scheme, url.host, url.port)
        if (following.scheme, following.host, following.port) != origin:
            raise HubAway("redirects to another host, which is not followed")
        return following

    def _check(self, answer: httpx.Response, name: HubName, *, config: bool) -> None:
        status, code = answer.status_code, answer.headers.get("x-error-code", "")
        if status == HTTPStatus.OK:
            return
        if "invalid credentials" in answer.headers.get("x-error-message", "").lower():
            raise HubAway("refuses this service's token (HEADROOM_HUB_TOKEN)")
        # Of a gated model the Hub tells what there is, but hands out no file.
        closed = status == HTTPStatus.FORBIDDEN or (config and status == HTTPStatus.UNAUTHORIZED)
        if code == "GatedRepo" or closed:
            raise HubRefuses(f"{name} is gated: {self._how_to_enter()}")
        if code == "RevisionNotFound":
            raise HubRefuses(f"{name.repository} has no revision {name.revision} on the Hub")
        if config and (code == "EntryNotFound" or status == HTTPStatus.NOT_FOUND):
            raise HubRefuses(f"{name} has no config.json; paste one as {{'config': …}}")
        if status in _MISSING:
            raise HubRefuses(f"the Hub has no model {name}, or it is private")
        raise HubAway(f"answers {status}")

    def _how_to_enter(self) -> str:
        if self._has_token:
            return "the account of this service's token has no access; paste its config.json"
        return "this service has no token (HEADROOM_HUB_TOKEN); paste its config.json"

    def _object(self, content: bytes) -> dict[str, Any]:
        try:
            return json_object(content)
        except CheckpointUnreadable:
            raise HubAway("does not answer like a Hub") from None


def _elements(told: Any) -> Mapping[str, int] | None:
    """Elements by type as the Hub sums up safetensors files, if it does."""
    parameters = told.get("parameters") if isinstance(told, dict) else None
    if not isinstance(parameters, dict) or not 0 < len(parameters) <= _MOST_TYPES:
        return None
    if not all(type(number) is int and number > 0 for number in parameters.values()):
        return None
    return parameters


def _year(told: Any) -> int:
    try:
        return datetime.fromisoformat(told).year
    except (TypeError, ValueError):
        return datetime.now(UTC).year
