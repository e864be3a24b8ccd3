"""Public services that tell what a grid emits, each with the caller's own key.

References
----------
https://api.carbonintensity.org.uk (NESO, CC BY 4.0); https://portal.electricitymaps.com/docs/api;
https://docs.watttime.org (API v3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from service.fetching import UNPACKED, AnswerTooLarge, read_bounded
from service.grid.series import ProviderFailed, Series, Signal, following, intensity, moment

if TYPE_CHECKING:
    import httpx

_MOST_BYTES = 1_000_000
_GRAMS_PER_POUND = 453.59237
_KWH_PER_MWH = 1_000.0


@dataclass(frozen=True, slots=True)
class Place:
    """A region as providers find it: its country (ISO 3166) and where it lies, if known."""

    id: str
    country: str
    latitude: float | None
    longitude: float | None


class Provider(Protocol):
    """A source of intensities of one signal."""

    @property
    def name(self) -> str:
        """What it is called in answers."""

    @property
    def signal(self) -> Signal:
        """What it tells."""

    def covers(self, place: Place) -> bool:
        """Whether it may know the place."""

    async def fetch(self, client: httpx.AsyncClient, place: Place) -> Series:
        """Ask it now.

        Raises
        ------
        ProviderFailed
            If it does not answer as agreed.
        """


async def content_of(
    client: httpx.AsyncClient,
    url: str,
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
) -> bytes:
    """An answer of bounded length.

    Raises
    ------
    ProviderFailed
        If there is none, or it is no plain success.
    """
    import httpx

    request = client.build_request(
        "GET", url, params=params, headers={**UNPACKED, **(headers or {})}
    )
    try:
        answer = await client.send(
            request, stream=True, auth=httpx.BasicAuth(*auth) if auth else None
        )
        try:
            if answer.status_code != HTTPStatus.OK:
                raise ProviderFailed(f"answered {answer.status_code}")
            return await read_bounded(answer, _MOST_BYTES)
        finally:
            await answer.aclose()
    except AnswerTooLarge as error:
        raise ProviderFailed(f"answered something that {error}") from None
    except httpx.HTTPError as error:
        raise ProviderFailed(f"did not answer: {type(error).__name__}") from None


async def _get(
    client: httpx.AsyncClient,
    url: str,
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
) -> Any:
    try:
        return orjson.loads(await content_of(client, url, params, headers, auth))
    except orjson.JSONDecodeError:
        raise ProviderFailed("did not answer JSON") from None


def _field(answer: Any, key: str) -> Any:
    if not isinstance(answer, dict) or key not in answer:
        raise ProviderFailed(f"the answer has no {key}")
    return answer[key]


def _rows(answer: Any, key: str) -> list[Any]:
    rows = _field(answer, key)
    if not isinstance(rows, list) or not rows:
        raise ProviderFailed(f"{key} is not a list, or is empty")
    return rows


@dataclass(frozen=True, slots=True)
class UkCarbonIntensity:
    """Great Britain, half-hourly with two days' forecast; free, without a key."""

    base_url: str = "https://api.carbonintensity.org.uk"
    name: str = "uk-carbon-intensity"
    signal: Signal = "average"

    def covers(self, place: Place) -> bool:
        """Whether the place lies in the United Kingdom."""
        return place.country == "GB"

    async def fetch(self, client: httpx.AsyncClient, place: Place) -> Series:  # noqa: ARG002
        """Ask for this half hour and the next two days."""
        current = _rows(await _get(client, f"{self.base_url}/intensity"), "data")[0]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
        ahead = _rows(await _get(client, f"{self.base_url}/intensity/{now}/fw48h"), "data")
        told = _field(current, "intensity")
        actual = told.get("actual") if isinstance(told, dict) else None
        return Series(
            provider=self.name,
            signal=self.signal,
            zone="GB",
            at=moment(_field(current, "from")),
            now_gco2e_per_kwh=intensity(_field(told, "forecast") if actual is None else actual),
            forecast=following(
                [
                    (
                        moment(_field(row, "from")),
                        intensity(_field(_field(row, "intensity"), "forecast")),
                    )
                    for row in ahead
                ]
            ),
        )


@dataclass(frozen=True, slots=True)
class ElectricityMaps:
    """Most of the world, hourly, by life-cycle factors; a forecast only with some keys."""

    token: str
    base_url: str = "https://api.electricitymap.org"
    name: str = "electricity-maps"
    signal: Signal = "average"

    def covers(self, place: Place) -> bool:
        """Whether the place can be told to it."""
        return bool(place.country) or place.latitude is not None

    async def fetch(self, client: httpx.AsyncClient, place: Place) -> Series:
        """Ask for this hour, and for a forecast if the key allows."""
        headers = {"auth-token": self.token}
        where = {"zone": place.country}
        if place.latitude is not None and place.longitude is not None:
            where = {"lat": str(place.latitude), "lon": str(place.longitude)}
        path = f"{self.base_url}/v3/carbon-intensity"
        latest = await _get(client, f"{path}/latest", where, headers)
        now = intensity(_field(latest, "carbonIntensity"))
        try:
            ahead = _rows(await _get(client, f"{path}/forecast", where, headers), "forecast")
            forecast = following(
                [
                    (moment(_field(row, "datetime")), intensity(_field(row, "carbonIntensity")))
                    for row in ahead
                ]
            )
        except ProviderFailed:
            # Many keys see no forecast; the figure of this hour is worth having without.
            forecast = ()
        return Series(
            provider=self.name,
            signal=self.signal,
            zone=str(latest.get("zone", place.country))[:40],
            at=moment(_field(latest, "datetime")),
            now_gco2e_per_kwh=now,
            forecast=forecast,
        )


@dataclass(frozen=True, slots=True)
class WattTime:
    """Most of the world, five-minutely: what one more kWh makes the grid emit."""

    user: str
    password: str
    base_url: str = "https://api.watttime.org"
    name: str = "watttime"
    signal: Signal = "marginal"

    def covers(self, place: Place) -> bool:
        """Whether it is known where the place lies."""
        return place.latitude is not None and place.longitude is not None

    async def fetch(self, client: httpx.AsyncClient, place: Place) -> Series:
        """Ask for the marginal operating emissions rate of the coming day."""
        login = await _get(client, f"{self.base_url}/login", auth=(self.user, self.password))
        headers = {"Authorization": f"Bearer {_field(login, 'token')}"}
        signal = {"signal_type": "co2_moer"}
        where = {"latitude": str(place.latitude), "longitude": str(place.longitude)}
        found = await _get(client, f"{self.base_url}/v3/region-from-loc", where | signal, headers)
        zone = str(_field(found, "region"))[:80]
        told = await _get(
            client, f"{self.base_url}/v3/forecast", {"region": zone} | signal, headers
        )
        points = [
            (
                moment(_field(row, "point_time")),
                intensity(_field(row, "value")) * _GRAMS_PER_POUND / _KWH_PER_MWH,
            )
            for row in _rows(told, "data")
        ]
        at, value = min(points)
        return Series(self.name, self.signal, zone, at, value, following(points))
