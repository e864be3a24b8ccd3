"""API keys over HTTP, on a real database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from fastapi import FastAPI

from tests.api.http.test_errors import problem
from tests.api.keyed import client_of, key_for, running


@pytest.fixture(scope="module")
async def kept(catalog_url: str) -> AsyncIterator[FastAPI]:
    async with running(catalog_url) as app:
        yield app


@pytest.fixture
async def owner(kept: FastAPI):
    key = await key_for(kept, "acme", "keys:write", "own:write")
    async with client_of(kept, key) as client:
        yield client


async def test_a_key_is_told_once_and_opens_what_it_says(kept, owner):
    made = await owner.post("/v1/keys", json={"name": "ci", "scopes": ["own:write"]})
    assert made.status_code == 201, made.text
    told = made.json()
    assert told["organisation"] == "acme"
    assert told["created_by"] == "tests of acme"
    listed = (await owner.get("/v1/keys")).json()["items"]
    (shown,) = [key for key in listed if key["id"] == told["id"]]
    assert shown == {name: value for name, value in told.items() if name != "key"}
    assert told["key"] not in (await owner.get("/v1/keys")).text
    async with client_of(kept, told["key"]) as client:
        problem(await client.get("/v1/keys"), 403)
        assert (await client.get("/v1/accelerators")).status_code == 200


async def test_a_key_gives_no_more_than_its_maker_has(owner):
    told = await owner.post("/v1/keys", json={"name": "ci", "scopes": ["catalog:write"]})
    (error,) = problem(told, 422)["errors"]
    assert error["pointer"] == "/scopes"


async def test_a_revoked_key_opens_nothing(kept, owner):
    made = (await owner.post("/v1/keys", json={"name": "short-lived"})).json()
    async with client_of(kept, made["key"]) as client:
        assert (await client.get("/v1/models")).status_code == 200
        assert (await owner.delete(f"/v1/keys/{made['id']}")).status_code == 204
        assert "was revoked" in problem(await client.get("/v1/models"), 401)["detail"]
    problem(await owner.post(f"/v1/keys/{made['id']}/rotations", json={}), 409)


async def test_an_expired_key_opens_nothing(kept):
    key = await key_for(kept, "acme", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    async with client_of(kept, key) as client:
        assert "expired" in problem(await client.get("/v1/models"), 401)["detail"]


@pytest.mark.parametrize("off", [timedelta(days=-3_000), timedelta(days=3_000)])
async def test_a_process_whose_clock_is_wrong_honours_the_same_keys(kept, owner, monkeypatch, off):
    """Keys begin and end by the database's clock, which all processes share."""

    class Wrong(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + off

    for module in ("service.access.keyring", "service.api.keys"):
        monkeypatch.setattr(f"{module}.datetime", Wrong)
    made = (await owner.post("/v1/keys", json={"name": "sound", "expires_in_days": 1})).json()
    expired = await key_for(kept, "acme", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    async with client_of(kept, expired) as client:
        assert "expired" in problem(await client.get("/v1/models"), 401)["detail"]
    async with client_of(kept, made["key"]) as client:
        assert (await client.get("/v1/models")).status_code == 200
        assert (await owner.delete(f"/v1/keys/{made['id']}")).status_code == 204
        assert "was revoked" in problem(await client.get("/v1/models"), 401)["detail"]


async def test_changing_over_to_a_new_key(kept, owner):
    old = (await owner.post("/v1/keys", json={"name": "ci", "scopes": ["own:write"]})).json()
    path = f"/v1/keys/{old['id']}/rotations"
    new = (await owner.post(path, json={"overlap_hours": 1})).json()
    assert (new["name"], new["scopes"]) == (old["name"], old["scopes"])
    for text in (old["key"], new["key"]):
        async with client_of(kept, text) as client:
            assert (await client.get("/v1/models")).status_code == 200
    newest = (await owner.post(f"/v1/keys/{new['id']}/rotations", json={"overlap_hours": 0})).json()
    async with client_of(kept, new["key"]) as client:
        problem(await client.get("/v1/models"), 401)
    async with client_of(kept, newest["key"]) as client:
        assert (await client.get("/v1/models")).status_code == 200


async def test_organisations_do_not_see_each_others_keys(kept, owner):
    made = (await owner.post("/v1/keys", json={"name": "ci"})).json()
    key = await key_for(kept, "umbrella", "keys:write")
    async with client_of(kept, key) as other:
        assert made["id"] not in (await other.get("/v1/keys")).text
        problem(await other.delete(f"/v1/keys/{made['id']}"), 404)
        problem(await other.post(f"/v1/keys/{made['id']}/rotations", json={}), 404)


async def test_keys_are_known_to_every_replica(kept, catalog_url):
    async with running(catalog_url) as second:
        key = await key_for(kept, "acme", "own:write")
        async with client_of(second, key) as client:
            for _ in range(200):
                if (await client.get("/v1/models")).status_code == 200:
                    break
                await asyncio.sleep(0.02)
            assert (await client.get("/v1/models")).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"name": ""},
        {"name": "a\0b"},
        {"name": "x", "scopes": ["everything"]},
        {"name": "x", "expires_in_days": -1},
        {"name": "x", "expires_in_days": 1e9},
        {"scopes": []},
    ],
)
async def test_bad_requests_for_keys(owner, body):
    problem(await owner.post("/v1/keys", json=body), 422)


async def test_keys_need_a_database(client):
    problem(await client.get("/v1/keys"), 401)
