from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from service.grid.live import LiveGrid
from service.grid.providers import UkCarbonIntensity
from service.settings import Settings
from tests.api.http.test_errors import problem


def neso(request: httpx.Request) -> httpx.Response:
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    count = 96 if "fw48h" in request.url.path else 1
    rows = [
        {
            "from": (now + at * timedelta(minutes=30)).strftime("%Y-%m-%dT%H:%MZ"),
            "intensity": {"forecast": 300 - at, "actual": None},
        }
        for at in range(count)
    ]
    return httpx.Response(200, json={"data": rows})


async def test_without_a_source_the_year_stands_in_and_says_so(client):
    response = await client.get("/v1/grid/aws/eu-north-1")
    assert response.status_code == 200, response.text
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    assert (body["average"]["from"], body["average"]["stale"]) == ("catalog", True)
    figure = body["average"]["gco2e_per_kwh"]
    assert figure["low"] <= 0.8 * figure["value"]
    assert figure["high"] >= 1.2 * figure["value"]
    assert body["best_hours"] is None
    assert [warning["code"] for warning in body["warnings"]] == ["no_live_source"]


async def test_a_live_source_is_asked_in_the_background(client, app):
    before = app.state.shared
    live = LiveGrid(Settings(), [UkCarbonIntensity()], httpx.MockTransport(neso))
    app.state.shared = replace(before, grid=live)
    try:
        first = (await client.get("/v1/grid/country/GB")).json()
        assert first["average"]["from"] == "catalog"
        assert first["warnings"][0]["code"] == "live_average_unavailable"
        await asyncio.gather(*live._calls.values())
        second = (await client.get("/v1/grid/country/GB", params={"hours": 3})).json()
    finally:
        app.state.shared = before
        await live.stop()
    assert second["average"]["from"] == "live"
    assert second["average"]["provider"] == "uk-carbon-intensity"
    assert second["average"]["gco2e_per_kwh"]["value"] == 300.0
    best = second["best_hours"]
    # Falling all the time: the last three hours are the best.
    assert best["saving_ratio"] > 0.2
    length = datetime.fromisoformat(best["ends_at"]) - datetime.fromisoformat(best["begins_at"])
    assert length == timedelta(hours=3)


@pytest.mark.parametrize("hours", ["0", "-1", "73", "nan", "many"])
async def test_hours_are_a_reasonable_number(client, hours):
    problem(await client.get("/v1/grid/country/GB", params={"hours": hours}), 422)


async def test_an_unknown_place_names_the_nearest(client):
    body = problem(await client.get("/v1/grid/country/SWEEDEN"), 404)
    assert "did you mean" in body["detail"]
