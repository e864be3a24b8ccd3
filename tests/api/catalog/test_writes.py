"""Changing the catalog over HTTP, on a real database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.api.conftest import MAIN
from tests.api.http.test_errors import problem
from tests.api.keyed import client_of, key_for, running

T4 = "/v1/accelerators/nvidia-t4-16gb"
WHY = {"reason": "measured in our own hall"}


@pytest.fixture(scope="module")
async def kept(catalog_url: str) -> AsyncIterator[FastAPI]:
    async with running(catalog_url) as app:
        yield app


@pytest.fixture(scope="module")
async def keeper(kept: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Whoever minds the shared catalog."""
    key = await key_for(kept, "headroom", "catalog:write")
    async with client_of(kept, key) as client:
        yield client


@pytest.fixture(scope="module")
async def acme(kept: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """An organisation with entries of its own."""
    key = await key_for(kept, "acme", "own:write")
    async with client_of(kept, key) as client:
        yield client


@pytest.fixture(scope="module")
async def anyone(kept: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(kept) as client:
        yield client


async def read(client: httpx.AsyncClient, path: str) -> tuple[dict[str, Any], str]:
    response = await client.get(path)
    assert response.status_code == 200, response.text
    return response.json(), response.headers["etag"]


def with_power(entry: dict[str, Any], power_w: float) -> dict[str, Any]:
    changed = deepcopy(entry)
    changed["figures"]["thermal_design_power_w"]["value"] = power_w
    return changed


async def test_what_was_read_can_be_sent_back_changed(keeper, anyone):
    entry, tag = await read(anyone, T4)
    response = await keeper.put(
        T4, params=WHY, json=with_power(entry, 71.5), headers={"If-Match": tag}
    )
    assert response.status_code == 200, response.text
    revision = int(response.headers["x-catalog-revision"])
    after, new_tag = await read(anyone, T4)
    assert after["figures"]["thermal_design_power_w"]["value"] == 71.5
    assert response.json() == after
    assert response.headers["etag"] == new_tag != tag
    told = (await anyone.get(f"/v1/catalog/revisions/{revision}")).json()
    assert told["author"] == "tests of headroom"
    assert told["reason"] == WHY["reason"]


async def test_a_change_based_on_what_no_longer_is_is_refused(keeper, anyone):
    entry, tag = await read(anyone, T4)
    first = await keeper.put(T4, params=WHY, json=with_power(entry, 73), headers={"If-Match": tag})
    assert first.status_code == 200, first.text
    late = await keeper.put(T4, params=WHY, json=with_power(entry, 74), headers={"If-Match": tag})
    assert problem(late, 412)["detail"].endswith("it has changed since")
    assert (await read(anyone, T4))[0]["figures"]["thermal_design_power_w"]["value"] == 73


async def test_of_writers_that_meet_one_wins_and_the_others_are_told(keeper, anyone):
    entry, tag = await read(anyone, T4)
    answers = await asyncio.gather(
        *(
            keeper.put(T4, params=WHY, json=with_power(entry, 80 + n), headers={"If-Match": tag})
            for n in range(5)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412, 412]


async def test_the_tag_of_an_entry_outlives_changes_of_others(keeper, anyone):
    entry, tag = await read(anyone, T4)
    other, other_tag = await read(anyone, "/v1/accelerators/nvidia-a10-24gb")
    changed = await keeper.put(
        "/v1/accelerators/nvidia-a10-24gb",
        params=WHY,
        json=with_power(other, 149),
        headers={"If-Match": other_tag},
    )
    assert changed.status_code == 200, changed.text
    assert (await anyone.get(T4, headers={"If-None-Match": tag})).status_code == 304
    same = await keeper.put(T4, params=WHY, json=entry, headers={"If-Match": tag})
    assert same.status_code == 200
    assert "x-catalog-revision" not in same.headers


async def test_adding_and_removing(keeper, anyone):
    entry, _ = await read(anyone, T4)
    path = "/v1/accelerators/acme-t5"
    new = entry | {"id": "acme-t5", "name": "T5", "aliases": ["t5"]}
    for headers, status in (({}, 428), ({"If-Match": '"x"'}, 412)):
        problem(await keeper.put(path, params=WHY, json=new, headers=headers), status)
    created = await keeper.put(path, params=WHY, json=new, headers={"If-None-Match": "*"})
    assert created.status_code == 201, created.text
    assert created.headers["location"] == path
    again = await keeper.put(path, params=WHY, json=new, headers={"If-None-Match": "*"})
    problem(again, 412)
    assert (await read(anyone, "/v1/accelerators/t5"))[0]["id"] == "acme-t5"
    tag = created.headers["etag"]
    gone = await keeper.delete(path, params=WHY, headers={"If-Match": tag})
    assert gone.status_code == 204
    assert gone.content == b""
    problem(await anyone.get(path), 404)
    problem(await keeper.delete(path, params=WHY, headers={"If-Match": tag}), 404)
    before = int(gone.headers["x-catalog-revision"]) - 1
    body = {"model": "llama-3.1-8b", "accelerator": "acme-t5"}
    older = await anyone.post("/v1/memory/inference", json=body | {"catalog_revision": before})
    assert older.status_code == 200, older.text
    problem(await anyone.post("/v1/memory/inference", json=body), 422)


async def test_what_others_need_stays(keeper, anyone):
    _, tag = await read(anyone, "/v1/regions/country/SE")
    told = await keeper.delete("/v1/regions/country/SE", params=WHY, headers={"If-Match": tag})
    assert "aws/eu-north-1" in problem(told, 409)["detail"]


async def test_every_fault_of_an_entry_is_told(keeper, anyone):
    entry, tag = await read(anyone, T4)
    entry["figures"]["memory_bytes"]["source"] = "hearsay"
    entry["figures"]["thermal_design_power_w"]["value"] = -3
    entry["colour"] = "green"
    told = await keeper.put(T4, params=WHY, json=entry, headers={"If-Match": tag})
    pointers = {error["pointer"] for error in problem(told, 422)["errors"]}
    assert {"/figures/memory_bytes/source", "", "/figures/thermal_design_power_w/value"} <= pointers


@pytest.mark.parametrize(
    ("method", "path", "params", "headers", "content", "status"),
    [
        ("PUT", T4, {}, {"If-Match": '"x"'}, b"{}", 422),
        ("PUT", T4, {"reason": "no"}, {"If-Match": '"x"'}, b"{}", 422),
        ("PUT", T4, {"reason": "nul \0 nul"}, {"If-Match": '"x"'}, b"{}", 422),
        ("PUT", T4, WHY, {"If-Match": '"x"', "If-None-Match": "*"}, b"{}", 422),
        ("PUT", T4, WHY, {"If-None-Match": '"x"'}, b"{}", 422),
        ("PUT", T4, WHY, {"If-Match": "*"}, b"{}", 412),
        ("PUT", T4, WHY, {"If-Match": '"x"'}, b"[]", 422),
        ("PUT", T4, WHY, {"If-Match": '"x"'}, b'{"a": NaN}', 422),
        ("PUT", T4, WHY, {"If-Match": '"x"'}, b'{"a": "\\u0000"}', 422),
        ("PUT", T4, WHY, {"If-None-Match": "*"}, b"[" * 40 + b"]" * 40, 422),
        ("DELETE", T4, WHY, {}, b"", 428),
        ("DELETE", T4, WHY, {"If-None-Match": "*"}, b"", 422),
        ("PUT", "/v1/accelerators/own/x", WHY, {"If-None-Match": "*"}, b"{}", 403),
        ("PUT", "/v1/calibrations/x", WHY, {"If-None-Match": "*"}, b"{}", 404),
    ],
)
async def test_hostile_writes_are_told_why_not(
    keeper, method, path, params, headers, content, status
):
    kind = {"Content-Type": "application/json"}
    told = await keeper.request(
        method, path, params=params, headers=headers | kind, content=content
    )
    problem(told, status)


async def test_writing_needs_a_key_that_allows_it(acme, anyone):
    told = await anyone.put(T4, params=WHY, json={}, headers={"If-None-Match": "*"})
    assert "catalog:write" in problem(told, 401)["detail"]
    assert told.headers["www-authenticate"].startswith("Bearer")
    told = await acme.put(T4, params=WHY, json={}, headers={"If-None-Match": "*"})
    assert "catalog:write" in problem(told, 403)["detail"]
    told = await anyone.get(T4, headers={"Authorization": "Basic YTpi"})
    problem(told, 401)
    told = await anyone.post(
        "/v1/memory/inference", json={}, headers={"Authorization": "Bearer headroom_x"}
    )
    problem(told, 422)  # the body is looked at first, and is none
    told = await anyone.get(T4, headers={"Authorization": "Bearer headroom_x"})
    problem(told, 401)


async def test_own_entries_are_for_their_organisation_alone(acme, keeper, anyone):
    entry, _ = await read(anyone, "/v1/regions/aws/eu-north-1")
    hall = {
        "id": "own/hall-2",
        "name": "Hall 2",
        "kind": "cloud",
        "country": "SE",
        "parent": "country/SE",
        "aliases": ["hall"],
        "figures": {
            "pue_ratio": entry["figures"].get("pue_ratio")
            or {
                "value": 1.07,
                "year": 2026,
                "source": "assumptions",
                "kind": "assumed",
                "note": "Read off our meters.",
            }
        },
    }
    path = "/v1/regions/own/hall-2"
    made = await acme.put(path, params=WHY, json=hall, headers={"If-None-Match": "*"})
    assert made.status_code == 201, made.text
    mine, _ = await read(acme, path)
    assert mine["name"] == "Hall 2"
    body = MAIN | {"region": "own/hall-2"}
    answered = await acme.post("/v1/estimates/inference", json=body)
    assert answered.status_code == 200, answered.text
    revision = answered.json()["catalog_revision"]
    assert revision == int(made.headers["x-catalog-revision"])
    for other in (keeper, anyone):
        problem(await other.get(path), 404)
        told = problem(await other.post("/v1/estimates/inference", json=body), 422)
        assert told["errors"][0]["pointer"] == "/region"
        assert "API key" in told["errors"][0]["detail"]
        problem(await other.get(f"/v1/catalog/revisions/{revision}"), 404)
        named = body | {"catalog_revision": revision, "region": "aws/eu-north-1"}
        problem(await other.post("/v1/estimates/inference", json=named), 422)
        listed = (await other.get("/v1/regions?q=hall-2")).json()
        assert listed["items"] == []
    kept = await acme.get(path)
    assert kept.headers["cache-control"].startswith("private")
    assert "Authorization" in kept.headers["vary"]
    again = await acme.post("/v1/estimates/inference", json=body | {"catalog_revision": revision})
    assert again.content == answered.content
    told = (await acme.get(f"/v1/catalog/revisions/{revision}")).json()
    assert told["own"] is True


async def test_own_entries_are_not_part_of_what_all_will_see(anyone):
    report = {
        "kind": "inference",
        "request": {"model": "llama-3.1-8b", "accelerator": "own/x"},
        "measured": {"process_bytes": 43.1e9},
    }
    problem(await anyone.post("/v1/measurements", json=report), 422)


async def test_an_estimate_of_an_old_revision_has_the_same_bytes(keeper, anyone):
    body = MAIN | {"accelerator": "nvidia-h100-sxm-80gb", "explain": True}
    path = "/v1/accelerators/nvidia-h100-sxm-80gb"
    before = await anyone.post("/v1/estimates/inference", json=body)
    revision = before.json()["catalog_revision"]
    entry, tag = await read(anyone, path)
    changed = deepcopy(entry)
    changed["figures"]["memory_bandwidth_bytes_per_s"]["value"] = 3.0e12
    put = await keeper.put(path, params=WHY, json=changed, headers={"If-Match": tag})
    assert put.status_code == 200, put.text
    after = await anyone.post("/v1/estimates/inference", json=body)
    assert after.json()["latency"] != before.json()["latency"]
    again = await anyone.post("/v1/estimates/inference", json=body | {"catalog_revision": revision})
    assert again.content == before.content


async def test_the_catalog_as_of_a_day(anyone):
    now = await anyone.get(
        "/v1/memory/inference", params={"model": "llama-3.1-8b", "accelerator": "nvidia-t4-16gb"}
    )
    assert now.status_code == 200

    today = datetime.now(UTC).date()
    query = {"model": "llama-3.1-8b", "accelerator": "nvidia-t4-16gb"}
    same = await anyone.get("/v1/memory/inference", params=query | {"as_of": str(today)})
    assert same.json() == now.json()
    for day, said in (
        (today - timedelta(days=1), "no revision before"),
        (today + timedelta(days=2), "is in the future"),
    ):
        told = await anyone.get("/v1/memory/inference", params=query | {"as_of": str(day)})
        (error,) = problem(told, 422)["errors"]
        assert error["pointer"] == "/as_of"
        assert said in error["detail"]
    both = query | {"as_of": str(today), "catalog_revision": "1"}
    problem(await anyone.get("/v1/memory/inference", params=both), 422)
