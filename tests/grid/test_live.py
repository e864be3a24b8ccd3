from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from service.grid.live import LiveGrid, providers_of
from service.grid.providers import ElectricityMaps, Place, UkCarbonIntensity, WattTime
from service.grid.series import ProviderFailed
from service.settings import Settings

LONDON = Place("azure/uksouth", "GB", 51.5, -0.1)
SWEDEN = Place("country/SE", "SE", None, None)
SETTINGS = Settings(grid_refresh_s=10, grid_timeout_s=1)
START = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)


def half_hours(count: int) -> list[dict]:
    return [
        {
            "from": (START + at * timedelta(minutes=30)).strftime("%Y-%m-%dT%H:%MZ"),
            "to": (START + (at + 1) * timedelta(minutes=30)).strftime("%Y-%m-%dT%H:%MZ"),
            "intensity": {"forecast": 100 + at, "actual": 90 if at == 0 else None, "index": "low"},
        }
        for at in range(count)
    ]


def neso(request: httpx.Request) -> httpx.Response:
    assert request.url.host == "api.carbonintensity.org.uk"
    return httpx.Response(200, json={"data": half_hours(96 if "fw48h" in request.url.path else 1)})


def maps(request: httpx.Request) -> httpx.Response:
    assert request.headers["auth-token"] == "secret"
    if request.url.path.endswith("/forecast"):
        return httpx.Response(403, json={"error": "no forecast with this key"})
    assert dict(request.url.params) == {"zone": "SE"}
    told = {"zone": "SE", "carbonIntensity": 24, "datetime": "2026-11-21T06:00:00.000Z"}
    return httpx.Response(200, json=told)


def watttime(request: httpx.Request) -> httpx.Response:
    if request.url.path == "/login":
        assert request.headers["authorization"].startswith("Basic ")
        return httpx.Response(200, json={"token": "t"})
    assert request.headers["authorization"] == "Bearer t"
    if request.url.path.endswith("region-from-loc"):
        return httpx.Response(200, json={"region": "UK"})
    points = [
        {"point_time": (START + at * timedelta(minutes=5)).isoformat(), "value": 1000.0 + at}
        for at in range(288)
    ]
    return httpx.Response(200, json={"data": points, "meta": {"units": "lbs_co2_per_mwh"}})


def client(handler: Callable[[httpx.Request], httpx.Response]) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.MockTransport(handler))


async def test_the_british_grid_by_half_hours():
    async with client(neso) as http:
        series = await UkCarbonIntensity().fetch(http, LONDON)
    assert series.at == START
    assert series.now_gco2e_per_kwh == 90.0
    assert len(series.forecast) == 96
    assert series.forecast[1].gco2e_per_kwh == 101.0
    assert series.forecast[-1].end_s == (START + timedelta(days=2)).timestamp()


async def test_a_key_without_forecasts_still_gives_this_hour():
    async with client(maps) as http:
        series = await ElectricityMaps("secret").fetch(http, SWEDEN)
    assert (series.zone, series.now_gco2e_per_kwh, series.forecast) == ("SE", 24.0, ())


async def test_pounds_a_megawatt_hour_become_grams_a_kilowatt_hour():
    async with client(watttime) as http:
        series = await WattTime("me", "secret").fetch(http, LONDON)
    assert series.signal == "marginal"
    assert series.now_gco2e_per_kwh == pytest.approx(453.59237)


def refused(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


def slow(_: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("slow")


FAILURES: dict[str, Callable[[httpx.Request], httpx.Response]] = {
    "refused": refused,
    "slow": slow,
    "too many": lambda _: httpx.Response(429),
    "broken": lambda _: httpx.Response(500, text="oops"),
    "elsewhere": lambda _: httpx.Response(302, headers={"Location": "http://169.254.169.254/"}),
    "no json": lambda _: httpx.Response(200, text="<html>"),
    "a list": lambda _: httpx.Response(200, json=[1, 2]),
    "empty": lambda _: httpx.Response(200, json={"data": []}),
    "text": lambda _: httpx.Response(
        200, json={"data": [{"from": "2026-11-21T06:00Z", "intensity": {"forecast": "low"}}]}
    ),
    "negative": lambda _: httpx.Response(
        200, json={"data": [{"from": "2026-11-21T06:00Z", "intensity": {"forecast": -5}}]}
    ),
    "timeless": lambda _: httpx.Response(
        200, json={"data": [{"from": "soon", "intensity": {"forecast": 5}}]}
    ),
    "huge": lambda _: httpx.Response(200, content=b" " * 2_000_000),
}


@pytest.mark.parametrize("handler", FAILURES.values(), ids=FAILURES)
async def test_whatever_a_provider_answers_is_a_failure_of_its_own(handler):
    async with client(handler) as http:
        with pytest.raises(ProviderFailed):
            await UkCarbonIntensity().fetch(http, LONDON)


async def settled(live: LiveGrid) -> None:
    await asyncio.gather(*live._calls.values())
    await asyncio.sleep(0)


async def test_looking_never_waits_and_the_next_one_sees_what_came():
    live = LiveGrid(SETTINGS, [UkCarbonIntensity()], httpx.MockTransport(neso))
    first = live.look(LONDON, "average")
    assert first is not None
    assert first.reading is None
    await settled(live)
    second = live.look(LONDON, "average")
    assert second is not None
    assert second.reading is not None
    assert not second.reading.stale
    assert second.reading.series.now_gco2e_per_kwh == 90.0
    assert live.look(LONDON, "marginal") is None
    assert live.look(SWEDEN, "average") is None
    await live.stop()


async def test_what_is_held_outlives_a_provider_that_fails(monkeypatch):
    answers = [neso]
    transport = httpx.MockTransport(lambda request: answers[0](request))
    live = LiveGrid(SETTINGS, [UkCarbonIntensity()], transport)
    live.look(LONDON, "average")
    await settled(live)
    answers[0] = FAILURES["broken"]
    held = live._held["uk-carbon-intensity", LONDON.id]
    held.fetched_s -= 25.0
    held.tried_s -= 25.0
    live.look(LONDON, "average")
    await settled(live)
    look = live.look(LONDON, "average")
    assert look is not None
    assert look.reading is not None
    assert look.reading.stale
    assert look.problem == "uk-carbon-intensity answered 500"
    await live.stop()


async def test_a_failing_provider_is_not_asked_again_at_once():
    calls = []

    def counted(request: httpx.Request) -> httpx.Response:
        calls.append(request)
        return httpx.Response(500)

    live = LiveGrid(SETTINGS, [UkCarbonIntensity()], httpx.MockTransport(counted))
    for _ in range(5):
        live.look(LONDON, "average")
        await settled(live)
    assert len(calls) == 1
    await live.stop()


async def test_places_held_are_bounded():
    live = LiveGrid(SETTINGS, [ElectricityMaps("secret")], httpx.MockTransport(refused))
    for number in range(600):
        live.look(Place(f"country/{number}", "SE", None, None), "average")
    assert len(live._held) <= 500
    await live.stop()


def test_nobody_is_asked_unless_the_settings_say_so():
    assert providers_of(Settings()) == ()
    opened = Settings(
        uk_carbon_intensity=True,
        electricity_maps_token="a",
        entsoe_token="d",
        watttime_user="b",
        watttime_password="c",
    )
    names = [provider.name for provider in providers_of(opened)]
    assert names == ["electricity-maps", "entsoe", "uk-carbon-intensity", "watttime"]
    assert "secret" not in repr(opened)


class Drops(httpx.AsyncByteStream):
    """An answer of which a byte comes now and then, for ever."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)


async def test_an_answer_that_never_ends_is_given_up():
    def slow(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=Drops())

    quick = Settings(grid_refresh_s=10, grid_timeout_s=0.05)
    live = LiveGrid(quick, [UkCarbonIntensity()], httpx.MockTransport(slow))
    live.look(LONDON, "average")
    await asyncio.gather(*live._calls.values())
    look = live.look(LONDON, "average")
    assert look is not None
    assert "did not answer within" in (look.problem or "")
    await live.stop()


async def test_a_packed_answer_is_not_unpacked():
    def packed(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "identity"
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Drops())

    async with httpx.AsyncClient(transport=httpx.MockTransport(packed)) as client:
        with pytest.raises(ProviderFailed, match="packed"):
            await UkCarbonIntensity().fetch(client, LONDON)
