"""Sweeps on a real database: asked for, worked on by processes that die, read in every form."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx
import pyarrow.parquet as pq
import pytest
from asgi_lifespan import LifespanManager
from pydantic import SecretStr
from sqlalchemy import text

from service.api.app import create_app
from service.catalog.snapshot import CatalogSnapshot
from service.client.sweeps import swept_by, swept_here
from service.estimation.sweeps.answers import Sweep, SweepNews, SweepRowPage, TrainingSweepRowPage
from service.jobs import repository
from service.jobs.worker import SweepWorker
from service.settings import Settings
from tests.api.keyed import client_of, key_for
from tests.api.shapes import validated
from tests.conftest import execute

SMALL: dict[str, Any] = {
    "models": ["meta-llama/Llama-3.1-8B"],
    "space": {
        "accelerators": ["nvidia-h100-sxm-80gb", "nvidia-l40s-48gb"],
        "precisions": ["bf16", "fp8"],
        "concurrencies": [1, 16, 64],
        "regions": ["aws/eu-north-1", "aws/us-east-1"],
        "max_accelerators": 4,
    },
    "keep": "candidates",
}
LARGE: dict[str, Any] = {
    "models": ["meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B"],
    "space": {"precisions": ["bf16", "fp8"], "max_accelerators": 32},
    "limits": {"ttft_s": 0.1, "tpot_s": 0.01},
}


def settings(url: str, **changes: Any) -> Settings:
    return Settings(
        DATABASE_URL=SecretStr(url), log_level="error", worker_heartbeat_s=0.5, **changes
    )


@pytest.fixture(scope="module")
async def kept(catalog_url: str) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(settings(catalog_url))
    async with LifespanManager(app, startup_timeout=None):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            client.app = app  # type: ignore[attr-defined]
            yield client


@asynccontextmanager
async def at_work(client: httpx.AsyncClient, url: str, **changes: Any) -> AsyncIterator[None]:
    """A worker in this process; ``tests/faults`` has those that are processes and die."""
    store = client.app.state.shared.store  # type: ignore[attr-defined]
    working = asyncio.create_task(SweepWorker(store, settings(url, **changes)).run())
    try:
        yield
    finally:
        working.cancel()
        await asyncio.wait({working})


async def ask(client: httpx.AsyncClient, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    response = await client.post("/v1/sweeps", json=body, headers=headers)
    assert response.status_code == 202, response.text
    answer: dict[str, Any] = response.json()
    validated(Sweep, answer)
    assert response.headers["location"] == f"/v1/sweeps/{answer['id']}"
    return answer


async def until(
    client: httpx.AsyncClient, id_: str, *statuses: str, chunks_done: int = 0
) -> dict[str, Any]:
    async with asyncio.timeout(600):
        while True:
            answer: dict[str, Any] = (await client.get(f"/v1/sweeps/{id_}")).json()
            if answer["status"] in statuses and answer["progress"]["chunks_done"] >= chunks_done:
                return answer
            await asyncio.sleep(0.05)


async def rows(client: httpx.AsyncClient, id_: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        query = {"limit": "500"} | ({"cursor": cursor} if cursor else {})
        response = await client.get(f"/v1/sweeps/{id_}/results", params=query)
        assert response.status_code == 200, response.text
        validated(SweepRowPage, response.json())
        found += response.json()["items"]
        cursor = response.json()["next_cursor"]
    return found


@pytest.fixture(scope="module")
async def done(kept: httpx.AsyncClient, catalog_url: str) -> dict[str, Any]:
    """A small sweep, worked off by a worker in this process."""
    asked = await ask(kept, SMALL | {"name": "small"})
    assert asked["status"] == "queued"
    assert asked["progress"]["configurations_done"] == 0
    early = await kept.get(f"/v1/sweeps/{asked['id']}/results")
    assert early.status_code == 409
    assert "0 of 1 chunks" in early.json()["detail"]
    async with at_work(kept, catalog_url):
        answer = await until(kept, asked["id"], "succeeded", "failed")
    assert answer["status"] == "succeeded", answer["problem"]
    return answer


async def test_a_client_follows_events_to_the_table(
    kept: httpx.AsyncClient, catalog_url: str, packaged_snapshot: CatalogSnapshot
) -> None:
    """Progress is told as events come, and the table is what the client would make by itself."""
    heard: list[tuple[int, int]] = []

    def told(done: int, total: int) -> None:
        heard.append((done, total))

    transport = httpx.ASGITransport(kept.app)  # type: ignore[attr-defined]
    async with at_work(kept, catalog_url):
        table = "".join(
            [piece async for piece in swept_by("http://test", {}, SMALL, told, transport)]
        )
    assert heard[-1][0] == heard[-1][1] > 0
    heard.clear()
    here = "".join([piece async for piece in swept_here(SMALL, packaged_snapshot, told)])
    assert [done for done, _ in heard] == [0, heard[-1][1]]
    theirs, mine = (list(csv.DictReader(io.StringIO(one))) for one in (table, here))
    assert len(theirs) == len(mine) > 0
    for one, other in zip(theirs, mine, strict=True):
        assert list(one) == list(other)
        assert one["accelerator"] == other["accelerator"]
        assert float(one["ttft_s"]) == float(other["ttft_s"])
        assert one["meets_limits"] == other["meets_limits"]


async def test_runs_of_training_are_swept_likewise(
    kept: httpx.AsyncClient, catalog_url: str
) -> None:
    search = {
        "accelerators": ["h100-sxm"],
        "accelerator_counts": [8],
        "regions": ["aws/eu-north-1"],
    }
    training = {"tokens": 1e9, "optimizers": ["adamw", "adamw-8bit"]}
    body = {"model": "llama-3.1-8b", "training": training, "search": search, "keep": "candidates"}
    response = await kept.post("/v1/sweeps/training", json=body)
    assert response.status_code == 202, response.text
    validated(Sweep, response.json())
    id_ = response.json()["id"]
    async with at_work(kept, catalog_url):
        answer = await until(kept, id_, "succeeded", "failed")
    assert answer["status"] == "succeeded", answer["problem"]
    page = await kept.get(answer["results_path"], params={"limit": "1000"})
    validated(TrainingSweepRowPage, page.json())
    found = page.json()["items"]
    assert (await kept.get(f"/v1/sweeps/{id_}/results")).status_code == 404
    assert len(found) == answer["progress"]["rows"] > 0
    assert {row["optimizer"] for row in found} == set(training["optimizers"])
    table = await kept.get(answer["results_path"], headers={"Accept": "text/csv"})
    lines = list(csv.DictReader(io.StringIO(table.text)))
    assert [float(line["days_high"]) for line in lines] == [
        row["figures"]["days"]["high"] for row in found
    ]
    refused = await kept.post("/v1/sweeps/training", json=body | {"training": {"tokens": 0}})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/training/tokens"


async def test_a_sweep_tells_how_far_it_has_come(done):
    progress = done["progress"]
    assert progress["done_ratio"] == 1.0
    assert progress["configurations_done"] == progress["configurations"]
    assert done["name"] == "small"
    assert done["request"]["space"] == SMALL["space"]
    # What single estimates of its rows have to name, as they may take another engine.
    assert done["request"]["serving"]["engine"] == "vllm"
    assert done["created_at"] <= done["started_at"] <= done["finished_at"] < done["expires_at"]
    unfit = sum(
        one["configurations"]
        for one in done["excluded"]
        if one["reason"] in ("weights_do_not_fit", "format_or_power_unknown", "max_accelerators")
    )
    assert progress["rows"] + unfit == progress["configurations"]


async def test_pages_csv_and_parquet_hold_the_same_rows(kept, done):
    path = f"/v1/sweeps/{done['id']}/results"
    as_json = await rows(kept, done["id"])
    assert len(as_json) == done["progress"]["rows"] > 20
    table = await kept.get(path, headers={"Accept": "text/csv"})
    assert table.headers["content-type"].startswith("text/csv")
    lines = list(csv.DictReader(io.StringIO(table.text)))
    packed = await kept.get(path, headers={"Accept": "application/vnd.apache.parquet"})
    columns = pq.read_table(io.BytesIO(packed.content)).to_pylist()
    assert len(lines) == len(columns) == len(as_json)
    for row, line, column in zip(as_json, lines, columns, strict=True):
        for name in ("model", "accelerator", "region", "weights", "kv_cache"):
            assert row[name] == line[name] == column[name]
        assert row["fits"] is column["fits"]
        assert line["fits"] == str(row["fits"]).lower()
        for name, figure in row["figures"].items():
            for end, suffix in (("value", ""), ("low", "_low"), ("high", "_high")):
                value = None if figure is None else figure[end]
                assert column[f"{name}{suffix}"] == value
                written = line[f"{name}{suffix}"]
                assert (float(written) if written else None) == pytest.approx(value)
            if figure is not None:
                assert figure["low"] <= figure["value"] <= figure["high"]


async def test_pages_begin_and_end_anywhere(kept, done):
    path = f"/v1/sweeps/{done['id']}/results"
    every = await rows(kept, done["id"])
    page = (await kept.get(path, params={"limit": "7", "cursor": "5"})).json()
    assert page["items"] == every[5:12]
    assert page["next_cursor"] == "12"
    last = (await kept.get(path, params={"cursor": str(len(every) - 1)})).json()
    assert (last["items"], last["next_cursor"]) == (every[-1:], None)
    beyond = (await kept.get(path, params={"cursor": str(len(every) + 9)})).json()
    assert (beyond["items"], beyond["next_cursor"]) == ([], None)


async def test_watchers_are_told_of_the_end(kept, done):
    response = await kept.get(f"/v1/sweeps/{done['id']}/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    [event, data, _] = response.text.strip().split("\n")
    assert event == "event: finished"
    news = json.loads(data.removeprefix("data: "))
    assert (news["event"], news["status"]) == ("finished", "succeeded")
    validated(SweepNews, news)


async def test_there_is_room_for_so_many_watchers(kept, done):
    watchers = kept.app.state.shared.watchers
    others = [object() for _ in range(int(watchers.total_tokens))]
    for other in others:
        watchers.acquire_on_behalf_of_nowait(other)
    refused = await kept.get(f"/v1/sweeps/{done['id']}/events")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    for other in others:
        watchers.release_on_behalf_of(other)
    assert (await kept.get(f"/v1/sweeps/{done['id']}/events")).status_code == 200
    assert watchers.borrowed_tokens == 0


async def test_the_same_key_starts_the_same_sweep_once(kept):
    headers = {"Idempotency-Key": "twice"}
    answers = await asyncio.gather(
        *(kept.post("/v1/sweeps", json=SMALL, headers=headers) for _ in range(5))
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 4 + [202]
    [id_] = {answer.json()["id"] for answer in answers}
    other = await kept.post("/v1/sweeps", json=LARGE, headers=headers)
    assert other.status_code == 409
    store = kept.app.state.shared.store
    async with store.transaction() as connection:
        jobs = await connection.scalar(
            text("SELECT count(*) FROM procrastinate_jobs WHERE args ->> 'sweep_id' = :id"),
            {"id": id_},
        )
    assert jobs == 1
    await kept.delete(f"/v1/sweeps/{id_}")


async def test_a_sweep_is_stopped_once_and_for_all(kept):
    id_ = (await ask(kept, SMALL))["id"]
    stopped = await kept.post(f"/v1/sweeps/{id_}/cancel")
    assert (stopped.status_code, stopped.json()["status"]) == (200, "cancelled")
    validated(Sweep, stopped.json())
    again = await kept.post(f"/v1/sweeps/{id_}/cancel")
    assert (again.status_code, again.json()["status"]) == (200, "cancelled")
    results = await kept.get(f"/v1/sweeps/{id_}/results")
    assert results.status_code == 409
    assert "cancelled" in results.json()["detail"]
    store = kept.app.state.shared.store
    async with store.transaction() as connection:
        left = await connection.scalar(text("SELECT count(*) FROM procrastinate_jobs"))
    assert left == 0


async def test_what_is_finished_cannot_be_stopped(kept, done):
    refused = await kept.post(f"/v1/sweeps/{done['id']}/cancel")
    assert refused.status_code == 409
    assert (await kept.get(f"/v1/sweeps/{done['id']}")).json()["status"] == "succeeded"


async def test_what_was_deleted_is_gone(kept):
    id_ = (await ask(kept, SMALL))["id"]
    assert (await kept.delete(f"/v1/sweeps/{id_}")).status_code == 204
    for response in (
        await kept.get(f"/v1/sweeps/{id_}"),
        await kept.get(f"/v1/sweeps/{id_}/results"),
        await kept.get(f"/v1/sweeps/{id_}/events"),
        await kept.post(f"/v1/sweeps/{id_}/cancel"),
        await kept.delete(f"/v1/sweeps/{id_}"),
    ):
        assert response.status_code == 410


async def test_what_never_was_is_not_found(kept):
    for id_ in ("00000000-0000-4000-8000-000000000000", "none", "1"):
        assert (await kept.get(f"/v1/sweeps/{id_}")).status_code == 404
        assert (await kept.get(f"/v1/sweeps/{id_}/results")).status_code == 404
        assert (await kept.delete(f"/v1/sweeps/{id_}")).status_code == 404


async def test_results_are_dropped_after_their_days(kept, done, catalog_url):
    id_ = (await ask(kept, SMALL))["id"]
    async with at_work(kept, catalog_url):
        await until(kept, id_, "succeeded")
    store = kept.app.state.shared.store
    async with store.transaction() as connection:
        assert await repository.expire(connection, 1.0) == 0
        await connection.execute(
            text("UPDATE sweep SET finished_at = now() - interval '2 days' WHERE id = :id"),
            {"id": UUID(id_)},
        )
        assert await repository.expire(connection, 1.0) == 1
    answer = (await kept.get(f"/v1/sweeps/{id_}")).json()
    assert (answer["status"], answer["progress"]["rows"]) == ("expired", 0)
    assert (await kept.get(f"/v1/sweeps/{id_}/results")).status_code == 410
    assert (await kept.get(f"/v1/sweeps/{done['id']}/results")).status_code == 200


@pytest.mark.parametrize(
    ("body", "pointer", "said"),
    [
        ({}, "/models", "required"),
        ({"models": ["lama"]}, "/models/0", "did you mean"),
        (SMALL | {"nonsense": 1}, "/nonsense", "unknown field"),
        (SMALL | {"space": {"concurrencies": [0]}}, "/space/concurrencies/0", "at least 1"),
        (SMALL | {"serving": {"disaggregated": {}}}, "/serving/disaggregated", "cannot be swept"),
    ],
)
async def test_what_is_wrong_with_a_sweep_is_said(client, body, pointer, said):
    response = await client.post("/v1/sweeps", json=body)
    assert response.status_code == 422
    errors = {error["pointer"]: error["detail"] for error in response.json()["errors"]}
    assert said in errors[pointer]


async def test_a_sweep_too_large_is_refused_with_its_size_and_the_limit(catalog_url, kept):
    app = create_app(settings(catalog_url, sweep_limit_configurations=1000))
    async with LifespanManager(app, startup_timeout=None):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as small:
            response = await small.post("/v1/sweeps", json=LARGE)
    assert response.status_code == 422
    [error] = response.json()["errors"]
    assert error["pointer"] == "/space"
    assert "at most 1000" in error["detail"]


async def test_a_sweep_that_keeps_too_much_fails_with_the_limit(kept, catalog_url):
    id_ = (await ask(kept, SMALL))["id"]
    async with at_work(kept, catalog_url, sweep_limit_rows=10):
        answer = await until(kept, id_, "succeeded", "failed")
    assert answer["status"] == "failed"
    assert "at most 10 rows" in answer["problem"]
    results = await kept.get(f"/v1/sweeps/{id_}/results")
    assert (results.status_code, "at most 10 rows" in results.json()["detail"]) == (409, True)


async def test_without_a_database_nothing_is_lost_in_silence(client):
    for response in (
        await client.post("/v1/sweeps", json=SMALL),
        await client.get("/v1/sweeps/00000000-0000-4000-8000-000000000000"),
        await client.delete("/v1/sweeps/00000000-0000-4000-8000-000000000000"),
    ):
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) > 0


@pytest.mark.parametrize("accept", ["image/png", "text/html"])
async def test_other_forms_there_are_none(kept, done, accept):
    response = await kept.get(f"/v1/sweeps/{done['id']}/results", headers={"Accept": accept})
    assert response.status_code == 406


async def test_tables_have_no_pages(kept, done):
    response = await kept.get(
        f"/v1/sweeps/{done['id']}/results?limit=5", headers={"Accept": "text/csv"}
    )
    assert response.status_code == 422


async def test_a_chunk_that_kills_every_worker_is_given_up(kept, catalog_url):
    id_ = (await ask(kept, SMALL))["id"]
    # As if four workers had taken it and died, and the fifth had as well.
    async with kept.app.state.shared.store.transaction() as connection:
        await connection.execute(
            text(
                "UPDATE procrastinate_jobs SET status = 'doing', attempts = 4, worker_id = NULL "
                "WHERE args ->> 'sweep_id' = :id"
            ),
            {"id": id_},
        )
    async with at_work(kept, catalog_url):
        answer = await until(kept, id_, "succeeded", "failed")
    assert answer["status"] == "failed"
    assert "ended its worker 5 times" in answer["problem"]


async def test_a_worker_outlives_its_connections(kept, catalog_url):
    async with at_work(kept, catalog_url):
        execute(
            catalog_url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name IN "
            "('headroom worker', 'headroom') AND pid <> pg_backend_pid() "
            "AND datname = current_database()",
        )
        id_ = (await ask(kept, SMALL))["id"]
        answer = await until(kept, id_, "succeeded", "failed")
    assert answer["status"] == "succeeded"


def own_card(accelerators: dict[str, Any]) -> dict[str, Any]:
    card = dict(accelerators["nvidia-l40s-48gb"])
    return {key: value for key, value in card.items() if key not in ("sources", "aliases")} | {
        "id": "own/card",
        "aliases": [],
    }


async def test_an_organisations_sweep_is_its_own_and_may_use_its_own_entries(kept, catalog_url):
    app = kept.app
    key = await key_for(app, "acme", "own:write")
    other = await key_for(app, "umbrella")
    study = SMALL | {"space": SMALL["space"] | {"accelerators": ["own/card"]}}
    async with client_of(app, key) as acme, client_of(app, other) as umbrella:
        card = own_card({"nvidia-l40s-48gb": (await acme.get("/v1/accelerators/l40s")).json()})
        made = await acme.put(
            "/v1/accelerators/own/card",
            params={"reason": "our hardware"},
            json=card,
            headers={"If-None-Match": "*"},
        )
        assert made.status_code == 201, made.text
        refused = await kept.post("/v1/sweeps", json=study)
        assert refused.status_code == 422
        named = {"Idempotency-Key": "weekly"}
        id_ = (await ask(acme, study, **named))["id"]
        async with at_work(kept, catalog_url):
            answer = await until(acme, id_, "succeeded", "failed")
        assert answer["status"] == "succeeded", answer["problem"]
        assert {row["accelerator"] for row in await rows(acme, id_)} == {"own/card"}
        for stranger in (kept, umbrella):
            for path in ("", "/results", "/events"):
                assert (await stranger.get(f"/v1/sweeps/{id_}{path}")).status_code == 404
            assert (await stranger.delete(f"/v1/sweeps/{id_}")).status_code == 404
        # What others call their sweeps is no business of theirs.
        mine = await umbrella.post("/v1/sweeps", json=SMALL, headers=named)
        assert mine.status_code == 202
        assert mine.json()["id"] != id_
        await umbrella.post(f"/v1/sweeps/{mine.json()['id']}/cancel")


async def test_unfinished_sweeps_are_bounded_for_each(kept, catalog_url):
    app = create_app(settings(catalog_url, sweep_limit_unfinished=1))
    async with LifespanManager(app, startup_timeout=None):
        key = await key_for(app, "quota")
        async with client_of(app, key) as client:
            first = await client.post("/v1/sweeps", json=SMALL)
            assert first.status_code == 202
            refused = await client.post("/v1/sweeps", json=SMALL | {"name": "another"})
            assert refused.status_code == 429, refused.text
            assert int(refused.headers["retry-after"]) > 0
            await client.post(f"/v1/sweeps/{first.json()['id']}/cancel")
            again = await client.post("/v1/sweeps", json=SMALL | {"name": "another"})
            assert again.status_code == 202
            await client.delete(f"/v1/sweeps/{again.json()['id']}")
