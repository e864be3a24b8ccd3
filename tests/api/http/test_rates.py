"""How much may be asked for in a minute."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from asgi_lifespan import LifespanManager

from service.api.app import create_app
from service.settings import Settings
from tests.api.conftest import UNPLACED
from tests.api.http.test_errors import problem
from tests.api.keyed import client_of, key_for, running


@asynccontextmanager
async def limited(address: str = "192.0.2.7", **limits: int) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(embedded_database=False, log_level="error", **limits)  # type: ignore[arg-type]
    app = create_app(settings)
    async with LifespanManager(app, startup_timeout=None):
        transport = httpx.ASGITransport(app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield client


async def test_one_too_many_is_told_when_to_come_back() -> None:
    async with limited(rate_limit_per_minute=3) as client:
        left = []
        for _ in range(3):
            response = await client.post("/v1/memory/inference", json=UNPLACED)
            assert response.status_code == 200
            assert response.headers["ratelimit-policy"] == '"default";q=3;w=60'
            left.append(response.headers["ratelimit"].split(";")[1])
        assert left == ["r=2", "r=1", "r=0"]
        refused = await client.post("/v1/memory/inference", json=UNPLACED)
        problem(refused, 429)
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert (await client.get("/livez")).status_code == 200


async def test_a_page_that_searches_counts_as_a_search() -> None:
    async with limited(rate_limit_per_minute=45) as client:
        page = await client.get("/training?accelerator_count=1&model=llama-3.1-8b")
        assert ";r=44;" in page.headers["ratelimit"]
        advised = await client.get("/training?model=llama-3.1-8b&recommend=true&max_accelerators=8")
        assert advised.status_code == 200
        assert ";r=24;" in advised.headers["ratelimit"]
        choices = await client.get("/training-recommendation.csv?model=llama-3.1-8b")
        assert ";r=4;" in choices.headers["ratelimit"]
        refused = await client.get("/?recommend=true")
        assert refused.status_code == 429
        assert refused.headers["content-type"].startswith("text/html")


async def test_what_costs_more_counts_more() -> None:
    async with limited(rate_limit_per_minute=30) as client:
        one = await client.get("/v1/accelerators?limit=1")
        assert ";r=29;" in one.headers["ratelimit"]
        item = {**UNPLACED, "region": "country/SE"}
        batch = await client.post("/v1/estimates/batch", json={"requests": [item] * 12})
        assert batch.status_code == 200, batch.text
        assert ";r=21;" in batch.headers["ratelimit"]
        large = await client.post("/v1/estimates/batch", json={"requests": [item] * 400})
        problem(large, 429)


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ("192.0.2.7", "192.0.2.8", False),
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
    ],
)
async def test_addresses_of_one_customer_count_together(first, second, together) -> None:
    settings = Settings(embedded_database=False, log_level="error", rate_limit_per_minute=1)
    app = create_app(settings)
    async with LifespanManager(app, startup_timeout=None):
        answers = []
        for address in (first, second):
            transport = httpx.ASGITransport(app, client=(address, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                answers.append((await client.get("/v1/workloads")).status_code)
    assert answers == [200, 429 if together else 200]


async def test_keys_count_apart_and_guesses_by_address(catalog_url: str) -> None:
    limits = {"rate_limit_per_minute": 2, "rate_limit_per_minute_with_key": 5}
    async with running(catalog_url, **limits) as app:
        key = await key_for(app, "acme")
        async with client_of(app, key) as known:
            for _ in range(5):
                assert (await known.get("/v1/workloads")).status_code == 200
            problem(await known.get("/v1/workloads"), 429)
        async with client_of(app, key[:-1] + ("a" if key[-1] != "a" else "b")) as guessing:
            for _ in range(2):
                problem(await guessing.get("/v1/workloads"), 401)
            problem(await guessing.get("/v1/workloads"), 429)


async def test_without_a_limit_nothing_is_counted(client) -> None:
    assert "ratelimit" not in (await client.get("/v1/workloads")).headers


async def test_a_clock_that_is_set_locks_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    async with limited(rate_limit_per_minute=2) as client:
        for ahead_s in (0.0, -86_400.0, 86_400.0, 0.0):
            monkeypatch.setattr(time, "time", lambda ahead_s=ahead_s: real() + ahead_s)
            statuses = [(await client.get("/v1/workloads")).status_code for _ in range(3)]
            assert statuses == [200, 200, 429], f"with the clock set by {ahead_s} s"
