"""Keeps series of the places that are asked about, refreshed in the background."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from service.grid.entsoe import Entsoe
from service.grid.providers import ElectricityMaps, Place, Provider, UkCarbonIntensity, WattTime
from service.grid.series import ProviderFailed, Series, Signal
from service.settings import Settings

if TYPE_CHECKING:
    import httpx

_MOST_PLACES = 500
_MOST_CALLS = 8
#: Requests, one after the other, that a provider takes to be asked.
_MOST_REQUESTS = 3
#: After a failure a provider is left alone for so long [s].
_PAUSE_S = 60.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Held:
    """What is known of one place from one provider; times are of the monotonic clock [s]."""

    series: Series | None = None
    fetched_s: float = 0.0
    tried_s: float = float("-inf")
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A series with its age since it was fetched [s]; ``stale`` if it should have been renewed."""

    series: Series
    age_s: float
    stale: bool


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of a place by a signal: a reading, or why there is none yet."""

    reading: Reading | None
    problem: str | None


def providers_of(settings: Settings) -> tuple[Provider, ...]:
    """The providers that the settings open, the better known first."""
    chosen: list[Provider] = []
    if settings.electricity_maps_token is not None:
        chosen.append(ElectricityMaps(settings.electricity_maps_token.get_secret_value()))
    if settings.entsoe_token is not None:
        chosen.append(Entsoe(settings.entsoe_token.get_secret_value()))
    if settings.uk_carbon_intensity:
        chosen.append(UkCarbonIntensity())
    if settings.watttime_user is not None and settings.watttime_password is not None:
        chosen.append(
            WattTime(settings.watttime_user, settings.watttime_password.get_secret_value())
        )
    return tuple(chosen)


class LiveGrid:
    """Answers at once from what it holds, and fetches what is missing or old meanwhile."""

    def __init__(
        self,
        settings: Settings,
        providers: Sequence[Provider] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._providers = providers_of(settings) if providers is None else tuple(providers)
        self._refresh_s = settings.grid_refresh_s
        self._timeout_s = _MOST_REQUESTS * settings.grid_timeout_s
        self._request_timeout_s = settings.grid_timeout_s
        self._transport = transport
        self._held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._calls: dict[tuple[str, str], asyncio.Task[None]] = {}

    @cached_property
    def _client(self) -> httpx.AsyncClient:
        """Made when a provider is first asked."""
        import httpx

        return httpx.AsyncClient(
            timeout=self._request_timeout_s, follow_redirects=False, transport=self._transport
        )

    async def stop(self) -> None:
        """Give up what is under way."""
        for call in self._calls.values():
            call.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)
        if "_client" in vars(self):
            await self._client.aclose()

    def look(self, place: Place, signal: Signal) -> Look | None:
        """What is known of a place, at once; None where no provider may know it.

        What is missing or due is fetched in the background, for whoever asks next.
        """
        provider = next(
            (one for one in self._providers if one.signal == signal and one.covers(place)), None
        )
        if provider is None:
            return None
        key = (provider.name, place.id)
        held = self._held.setdefault(key, _Held())
        self._held.move_to_end(key)
        while len(self._held) > _MOST_PLACES:
            self._held.popitem(last=False)
        now_s = time.monotonic()
        due = held.series is None or now_s - held.fetched_s > self._refresh_s
        if due and now_s - held.tried_s > min(_PAUSE_S, self._refresh_s):
            self._start(key, provider, place, held)
        if held.series is None:
            return Look(None, held.problem or "not fetched yet: ask again in a moment")
        age_s = now_s - held.fetched_s
        return Look(Reading(held.series, age_s, age_s > 2.0 * self._refresh_s), held.problem)

    def _start(self, key: tuple[str, str], provider: Provider, place: Place, held: _Held) -> None:
        if key in self._calls or len(self._calls) >= _MOST_CALLS:
            return
        held.tried_s = time.monotonic()
        call = asyncio.create_task(self._fetch(provider, place, held), name=f"grid {key}")
        self._calls[key] = call
        call.add_done_callback(lambda _: self._calls.pop(key, None))

    async def _fetch(self, provider: Provider, place: Place, held: _Held) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                held.series = await provider.fetch(self._client, place)
        except TimeoutError:
            # The client's own timeout begins anew with every byte.
            held.problem = f"{provider.name} did not answer within {self._timeout_s:g} s"
        except ProviderFailed as failed:
            held.problem = f"{provider.name} {failed}"
        except Exception as error:
            # Whatever a foreign service answers, this one goes on.
            held.problem = f"{provider.name} failed: {type(error).__name__}"
        else:
            held.fetched_s = time.monotonic()
            held.problem = None
            return
        _log.warning("Live grid figures were not updated: %s", held.problem)
