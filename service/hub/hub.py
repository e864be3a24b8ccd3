"""Answers what a model on the Hub is, from memory, from disk, or by asking."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from service.hub.client import HubAway, HubClient, HubRefuses
from service.hub.files import FileCache, HubFiles
from service.hub.names import HubName
from service.settings import Settings

if TYPE_CHECKING:
    import httpx

_MOST_HELD = 200
_MOST_CALLS = 4
#: Models that are asked about or wait for it; whoever names another is told to come back.
_MOST_WAITING = 40
#: What the Hub refused is not asked about again for so long [s].
_REFUSAL_S = 60.0
#: After a failure the Hub is left alone for so long [s].
_PAUSE_S = 10.0


class Hub:
    """Models of the Hub by name; each is asked about once, however many requests name it."""

    def __init__(
        self, settings: Settings, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        token = settings.hub_token
        self._client = HubClient(
            settings.hub_endpoint,
            None if token is None else token.get_secret_value(),
            settings.hub_timeout_s,
            transport,
        )
        self._offline = settings.hub_offline
        self._refresh_s = settings.hub_refresh_s
        self._cache = FileCache(settings.hub_cache_directory, settings.hub_endpoint)
        self._held: OrderedDict[HubName, HubFiles] = OrderedDict()
        self._refused: OrderedDict[HubName, tuple[float, str]] = OrderedDict()
        self._away: tuple[float, str] | None = None
        self._calls: dict[HubName, asyncio.Task[HubFiles]] = {}
        self._slots = asyncio.Semaphore(_MOST_CALLS)

    async def stop(self) -> None:
        """Give up what is under way."""
        for call in self._calls.values():
            call.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)
        await self._client.stop()

    async def files(self, name: HubName) -> tuple[HubFiles, bool]:
        """A model's configuration, and whether it may be out of date because the Hub is away.

        Raises
        ------
        HubRefuses
            If there is no such model, it cannot be read, or asking is switched off.
        HubAway
            If the Hub fails and nothing is known of the model from before.
        """
        held = self._held.get(name)
        if held is None:
            held = await asyncio.to_thread(self._cache.read, name)
            if held is not None:
                self._hold(name, held)
        if held is not None and (self._offline or self._is_current(name, held)):
            return held, False
        if self._offline:
            raise HubRefuses(
                f"{name} is not in the cache, and this service does not contact the Hub "
                "(HEADROOM_HUB_OFFLINE); paste its config.json as {'config': …}"
            )
        try:
            return await self._asked(name, held), False
        except HubAway:
            if held is None:
                raise
            return held, True

    def _is_current(self, name: HubName, held: HubFiles) -> bool:
        return name.is_pinned or 0.0 <= time.time() - held.confirmed_at < self._refresh_s

    async def _asked(self, name: HubName, known: HubFiles | None) -> HubFiles:
        now_s = time.monotonic()
        refused_s, told = self._refused.get(name, (float("-inf"), ""))
        if now_s - refused_s < _REFUSAL_S:
            raise HubRefuses(told)
        if self._away is not None and now_s - self._away[0] < _PAUSE_S:
            raise HubAway(self._away[1])
        call = self._calls.get(name)
        if call is None:
            if len(self._calls) >= _MOST_WAITING:
                raise HubAway("is busy: this process already waits for as many models as it may")
            call = asyncio.create_task(self._fetch(name, known), name=f"hub {name}")
            self._calls[name] = call
            call.add_done_callback(lambda done: self._forget(name, done))
        # A client that leaves does not take the answer from those who wait for the same.
        return await asyncio.shield(call)

    async def _fetch(self, name: HubName, known: HubFiles | None) -> HubFiles:
        async with self._slots:
            try:
                found = await self._client.fetch(name, known)
            except HubRefuses as refused:
                self._refused[name] = (time.monotonic(), str(refused))
                if len(self._refused) > _MOST_HELD:
                    self._refused.popitem(last=False)
                raise
            except HubAway as away:
                self._away = (time.monotonic(), str(away))
                raise
        self._away = None
        self._hold(name, found)
        await asyncio.to_thread(self._cache.write, name, found)
        if not name.is_pinned:
            pinned = replace(name, revision=found.commit)
            self._hold(pinned, found)
        return found

    def _hold(self, name: HubName, files: HubFiles) -> None:
        self._held[name] = files
        self._held.move_to_end(name)
        while len(self._held) > _MOST_HELD:
            self._held.popitem(last=False)

    def _forget(self, name: HubName, done: asyncio.Task[HubFiles]) -> None:
        self._calls.pop(name, None)
        if not done.cancelled():
            done.exception()  # whoever waited has it; nobody may have
