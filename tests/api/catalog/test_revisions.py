"""The catalog's history over HTTP, on a real database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from copy import deepcopy

import httpx
import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI
from pydantic import SecretStr

from service.api.app import create_app
from service.catalog.database.importer import Change, apply_change
from service.catalog.files import read_schemas
from service.settings import INSTALLATION, Settings
from tests.api.http.test_errors import problem

T4 = "nvidia-t4-16gb"


@pytest.fixture(scope="module")
async def kept(catalog_url: str) -> AsyncIterator[FastAPI]:
    app = create_app(Settings(DATABASE_URL=SecretStr(catalog_url), log_level="error"))
    async with LifespanManager(app, startup_timeout=None):
        yield app


@pytest.fixture(scope="module")
async def history(kept: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(kept)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


async def edited(app: FastAPI, power_w: float) -> int:
    """A new revision, in which a card draws another power."""
    store = app.state.shared.store
    document = deepcopy(store.snapshot.accelerators[T4].document)
    document["figures"]["thermal_design_power_w"]["value"] = power_w
    schemas = read_schemas(INSTALLATION / "hardware_catalog")
    async with store.transaction() as connection:
        applied = await apply_change(
            connection, Change({("accelerators", T4): document}, "ada", "measured"), schemas
        )
    assert applied.revision is not None
    return applied.revision


async def test_who_changed_what_when_and_why(kept, history):
    before = (await history.get("/v1/catalog/revisions?limit=1")).json()["items"][0]
    number = await edited(kept, 71.0)
    page = (await history.get("/v1/catalog/revisions?limit=1")).json()
    newest = page["items"][0]
    assert (newest["revision"], newest["author"], newest["reason"]) == (number, "ada", "measured")
    assert newest["from_package"] is False
    assert newest["content_hash"] != before["content_hash"]
    following = await history.get(f"/v1/catalog/revisions?limit=1&cursor={page['next_cursor']}")
    assert following.json()["items"][0]["revision"] == before["revision"]
    one = (await history.get(f"/v1/catalog/revisions/{number}")).json()
    assert one == newest


async def test_the_difference_of_two_revisions(kept, history):
    older = await edited(kept, 72.0)
    newer = await edited(kept, 73.0)
    response = await history.get(f"/v1/catalog/revisions/{older}...{newer}")
    assert response.status_code == 200, response.text
    body = response.json()
    assert (body["added"], body["removed"], body["changed"]) == (0, 0, 1)
    (entry,) = body["items"]
    assert (entry["collection"], entry["id"], entry["change"]) == ("accelerators", T4, "changed")
    assert entry["fields"] == [
        {
            "pointer": "/figures/thermal_design_power_w/value",
            "before": 72,
            "after": 73,
            "missing": None,
        }
    ]
    again = await history.get(
        f"/v1/catalog/revisions/{older}...{newer}",
        headers={"If-None-Match": response.headers["etag"]},
    )
    assert again.status_code == 304
    back = (await history.get(f"/v1/catalog/revisions/{newer}...{older}")).json()
    assert back["items"][0]["fields"][0]["after"] == 72
    same = (await history.get(f"/v1/catalog/revisions/{newer}...{newer}")).json()
    assert same["items"] == []


async def test_an_estimate_of_an_old_revision_has_the_same_bytes(kept, history):
    number = await edited(kept, 74.0)
    body = {
        "model": "meta-llama/Llama-3.1-8B",
        "precision": {"weights": "awq-int4"},
        "accelerator": T4,
        "region": "country/SE",
        "catalog_revision": number,
    }
    first = await history.post("/v1/estimates/inference", json=body)
    assert first.status_code == 200, first.text
    await edited(kept, 75.0)
    kept.state.shared.store._kept.clear()
    second = await history.post("/v1/estimates/inference", json=body)
    assert second.content == first.content


async def test_what_an_earlier_catalog_does_not_have_is_refused_with_its_revision(kept, history):
    older = await edited(kept, 76.0)
    newer = await edited(kept, 77.0)
    await kept.state.shared.store.refresh()
    body = {"model": "meta-llama/Llama-3.1-8B", "accelerator": "nvidia-x1", "region": "SE"}
    plain = await history.post("/v1/estimates/inference", json=body)
    assert "revision" not in plain.json()["detail"]
    asked = {**body, "catalog_revision": older}
    answer = await history.post("/v1/estimates/inference", json=asked)
    assert answer.status_code == 422
    said = f" (in revision {older} of the catalog; the newest is {newer})"
    assert answer.json() == {
        **plain.json(),
        "detail": plain.json()["detail"] + said,
        "instance": answer.json()["instance"],
    }


@pytest.mark.parametrize("path", ["0", "999999999", "x", "-1", "1...999999999", "0...1", "a...b"])
async def test_revisions_that_never_were(history, path):
    problem(await history.get(f"/v1/catalog/revisions/{path}"), 404)


async def test_history_needs_its_database(client):
    body = problem(await client.get("/v1/catalog/revisions"), 503)
    assert "database" in body["detail"]
