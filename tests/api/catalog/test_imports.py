"""Bringing files into the catalog over HTTP, on a real database."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from tests.api.http.test_errors import problem
from tests.api.keyed import client_of, key_for, running

YAML, JSON, CSV = "application/yaml", "application/json", "text/csv"
SOURCE = """\
sources:
- id: quote-4711
  title: Quote 4711
  publisher: Acme
  year: 2026
  url: https://example.org/4711
  licence: facts only
  retrieved: "2026-11-20"
  kind: primary
"""


@pytest.fixture(scope="module")
async def kept(catalog_url: str) -> AsyncIterator[FastAPI]:
    async with running(catalog_url, import_limit_bytes=200_000) as app:
        yield app


@pytest.fixture(scope="module")
async def keeper(kept: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    key = await key_for(kept, "headroom", "catalog:write", "own:write")
    async with client_of(kept, key) as client:
        yield client


async def bring(
    client: httpx.AsyncClient, content: str, kind: str = YAML, **query: object
) -> httpx.Response:
    return await client.post(
        "/v1/catalog/imports",
        params={"reason": "a new quote", **query},
        content=content.encode(),
        headers={"Content-Type": kind},
    )


async def newest(client: httpx.AsyncClient) -> int:
    page = await client.get("/v1/catalog/revisions?limit=1")
    revision: int = page.json()["items"][0]["revision"]
    return revision


async def test_a_dry_run_tells_and_a_run_does(keeper):
    before = await newest(keeper)
    told = (await bring(keeper, SOURCE, dry_run="true")).json()
    assert (told["dry_run"], told["revision"], told["added"]) == (True, None, 1)
    assert await newest(keeper) == before
    assert (await keeper.get("/v1/sources/quote-4711")).status_code == 404
    done = (await bring(keeper, SOURCE, expected_revision=before)).json()
    assert done["items"] == told["items"]
    assert done["revision"] == done["catalog_revision"] == await newest(keeper)
    assert (await keeper.get("/v1/sources/quote-4711")).json()["title"] == "Quote 4711"
    again = (await bring(keeper, SOURCE)).json()
    assert (again["revision"], again["items"]) == (None, [])
    late = await bring(keeper, SOURCE.replace("4711", "4712"), expected_revision=before)
    problem(late, 409)


async def test_removing_by_file(keeper):
    await bring(keeper, SOURCE.replace("4711", "4713"))
    done = (await bring(keeper, "remove:\n  sources: [quote-4713]\n")).json()
    assert (done["removed"], done["added"]) == (1, 0)
    told = await bring(keeper, "remove:\n  sources: [quote-4713]\n")
    (error,) = problem(told, 422)["errors"]
    assert (error["pointer"], error["line"], error["column"]) == ("/remove/sources/0", 2, 13)


async def test_a_table_of_one_collection(keeper):
    header = "id,title,publisher,year,url,licence,retrieved,kind\n"
    row = "quote-9,Quote 9,Acme,2026,https://example.org/9,facts only,2026-11-20,primary\n"
    done = await bring(keeper, header + row, CSV, collection="sources")
    assert done.status_code == 200, done.text
    assert (await keeper.get("/v1/sources/quote-9")).json()["year"] == 2026
    bad = await bring(keeper, header + row.replace("2026,h", "soon,h"), CSV, collection="sources")
    (error,) = problem(bad, 422)["errors"]
    assert (error["line"], error["column"]) == (2, 4)


async def test_a_bad_file_changes_nothing_and_tells_every_fault(keeper):
    before = await newest(keeper)
    entry = (await keeper.get("/v1/accelerators/nvidia-t4-16gb")).json()
    good = {name: part for name, part in entry.items() if name != "sources"}
    bad = json.loads(json.dumps(good)) | {"id": "acme-x", "aliases": ["t4"]}
    bad["figures"]["memory_bytes"]["source"] = "hearsay"
    text = json.dumps({"accelerators": [good, bad]}, indent=1)
    errors = problem(await bring(keeper, text, JSON), 422)["errors"]
    assert {"/accelerators/1/figures/memory_bytes/source", "/accelerators/1/aliases/0"} <= {
        error["pointer"] for error in errors
    }
    lines = text.splitlines()
    for error in errors:
        assert lines[error["line"] - 1][error["column"] - 1 :]
    hearsay = next(error for error in errors if error["pointer"].endswith("/source"))
    assert '"hearsay"' in lines[hearsay["line"] - 1]
    assert await newest(keeper) == before


async def test_own_entries_by_file(kept, keeper):
    text = SOURCE.replace("quote-4711", "own/quote-1")
    problem(await bring(keeper, text), 422)
    done = await bring(keeper, text, own="true")
    assert done.status_code == 200, done.text
    assert (await keeper.get("/v1/sources/own/quote-1")).status_code == 200
    async with client_of(kept) as anyone:
        assert (await anyone.get("/v1/sources/own/quote-1")).status_code == 404
    measured = {"value": 1.1, "year": 2026, "source": "own/quote-1", "kind": "measured"}
    hall = {"id": "own/hall", "name": "Hall", "kind": "cloud", "country": "SE"}
    hall |= {"parent": "country/SE", "figures": {"pue_ratio": measured}}
    done = await bring(keeper, json.dumps({"regions": [hall]}), JSON, own="true")
    assert done.status_code == 200, done.text
    shared = hall | {"id": "aws/hall"}
    told = problem(await bring(keeper, json.dumps({"regions": [shared]}), JSON), 422)
    assert "/regions/0/figures/pue_ratio/source" in {one["pointer"] for one in told["errors"]}


@pytest.mark.parametrize(
    ("content", "kind", "query", "status"),
    [
        ("sources: []", "text/plain", {}, 415),
        ("x" * 300_000, YAML, {}, 413),
        ("sources: [", YAML, {}, 422),
        ("[", JSON, {}, 422),
        (SOURCE, YAML, {"reason": ""}, 422),
        (SOURCE, YAML, {"dry_run": "perhaps"}, 422),
        (SOURCE, YAML, {"expected_revision": "-1"}, 422),
        (SOURCE, YAML, {"collection": "cars"}, 422),
        (SOURCE, YAML, {"colour": "green"}, 422),
    ],
)
async def test_hostile_files(keeper, content, kind, query, status):
    problem(await bring(keeper, content, kind, **query), status)


async def test_it_needs_a_key(kept):
    async with client_of(kept) as anyone:
        problem(await bring(anyone, SOURCE), 401)
    key = await key_for(kept, "acme", "own:write")
    async with client_of(kept, key) as acme:
        problem(await bring(acme, SOURCE), 403)
