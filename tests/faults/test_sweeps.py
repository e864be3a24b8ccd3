"""A sweep goes on where a killed worker left it."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator

import httpx
import pyarrow.parquet as pq
import pytest
from asgi_lifespan import LifespanManager
from pydantic import SecretStr

from service.api.app import create_app
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.sweeps import plan
from service.estimation.sweeps.requests import SweepRequest
from service.settings import Settings
from tests.api.sweeps.test_sweeps import ask, at_work, until
from tests.faults.processes import working

STUDY = {
    "models": ["meta-llama/Llama-3.1-8B"],
    "space": {
        "precisions": ["bf16", "fp8"],
        "regions": ["aws/eu-north-1", "aws/us-east-1"],
        "max_accelerators": 4,
    },
    "limits": {"ttft_s": 0.1, "tpot_s": 0.01},
}
#: Small enough that a small study has many chunks.
CHUNK_CONFIGURATIONS = 2_000
#: A worker of such chunks, and one that stands still in its third.
SMALL_CHUNKS = f"""
from service.estimation.sweeps import plan
plan.CHUNK_CONFIGURATIONS = {CHUNK_CONFIGURATIONS}
"""
STANDS_STILL = """
import threading
from service.jobs import worker
evaluate, begun = worker._done, []
def done(study, chunk):
    begun.append(chunk)
    if len(begun) == 3:
        threading.Event().wait()
    return evaluate(study, chunk)
worker._done = done
"""


@pytest.fixture
async def kept(
    catalog_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setattr(plan, "CHUNK_CONFIGURATIONS", CHUNK_CONFIGURATIONS)
    app = create_app(Settings(DATABASE_URL=SecretStr(catalog_url), log_level="error"))
    async with LifespanManager(app, startup_timeout=None):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            client.app = app  # type: ignore[attr-defined]
            yield client


async def test_a_killed_workers_sweep_is_finished_by_another_as_if_nothing_had_happened(
    kept: httpx.AsyncClient, catalog_url: str, packaged_snapshot: CatalogSnapshot
) -> None:
    study = plan.resolve_study(SweepRequest.model_validate(STUDY), packaged_snapshot)
    assert len(study.chunks) > 8

    id_ = (await ask(kept, STUDY))["id"]
    with working(catalog_url, SMALL_CHUNKS + STANDS_STILL) as victim:
        await until(kept, id_, "running", chunks_done=2)
        victim.kill()
        victim.wait()
    killed = (await kept.get(f"/v1/sweeps/{id_}")).json()
    assert killed["status"] == "running"
    assert killed["progress"]["chunks_done"] == 2
    # Whatever the first worker was at, another one is at it as well when it takes over.
    with working(catalog_url, SMALL_CHUNKS), working(catalog_url, SMALL_CHUNKS):
        finished = await until(kept, id_, "succeeded", "failed")
    assert finished["status"] == "succeeded", finished["problem"]

    undisturbed = (await ask(kept, STUDY))["id"]
    async with at_work(kept, catalog_url):
        reference = await until(kept, undisturbed, "succeeded", "failed")
    assert finished["progress"] == reference["progress"]
    assert finished["excluded"] == reference["excluded"]
    assert finished["progress"]["chunks_done"] == len(study.chunks)
    form = {"Accept": "application/vnd.apache.parquet"}
    tables = [
        pq.read_table(io.BytesIO((await kept.get(path, headers=form)).content))
        for path in (f"/v1/sweeps/{one}/results" for one in (id_, undisturbed))
    ]
    assert len(tables[0]) == finished["progress"]["rows"] > 500
    first, second = (table.to_pydict() for table in tables)
    assert [name for name in first if first[name] != second[name]] == []
