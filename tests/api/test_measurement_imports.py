"""Files of tools over HTTP: dry runs, all or nothing, what was stored."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from asgi_lifespan import LifespanManager
from pydantic import SecretStr

from service.api.app import create_app
from service.estimation.measurements.imports.answers import MeasurementImport
from service.settings import Settings
from tests.api.shapes import validated
from tests.estimation.measurements.imports.conftest import FILES

PATH = "/v1/measurements/imports"
DEPLOYMENT = {"accelerator": "h100", "accelerator_count": 1}


@pytest.fixture(scope="module")
async def kept(catalog_url: str) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(
        Settings(DATABASE_URL=SecretStr(catalog_url), log_level="error", import_limit_bytes=200_000)
    )
    async with LifespanManager(app, startup_timeout=None):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield client


def body(name: str, **more: Any) -> dict[str, Any]:
    return {"content": (FILES / name).read_text(), "name": name, "deployment": DEPLOYMENT} | more


async def count(kept: httpx.AsyncClient) -> int:
    return len((await kept.get("/v1/measurements")).json()["items"])


async def test_a_dry_run_stores_nothing(kept):
    before = await count(kept)
    response = await kept.post(PATH, json=body("sglang-bench-serving.jsonl", dry_run=True))
    assert response.status_code == 200
    answer = validated(MeasurementImport, response.json())
    assert (answer["format"], answer["stored"], len(answer["documents"])) == (
        *("sglang-bench", []),
        2,
    )
    assert await count(kept) == before


async def test_a_file_is_stored_with_a_report_for_each_run(kept):
    sent = body("sglang-bench-serving.jsonl")
    key = {"Idempotency-Key": "one-file"}
    response = await kept.post(PATH, json=sent, headers=key)
    assert response.status_code == 201
    answer = validated(MeasurementImport, response.json())
    first, second = answer["stored"]
    report = (await kept.get(f"/v1/measurements/{second}")).json()
    assert report["document"]["tool"] == "SGLang bench_serving"
    assert report["document"]["request"]["workload"]["requests_per_s"] == 20.0
    assert report["figures"]
    again = await kept.post(PATH, json=sent, headers=key)
    assert again.json()["stored"] == [first, second]
    other = body("vllm-bench-serve-append.json")
    assert (await kept.post(PATH, json=other, headers=key)).status_code == 409


async def test_what_is_missing_is_told_and_nothing_stored(kept):
    before = await count(kept)
    sent = body("guidellm.json", format="guidellm")
    dry = (await kept.post(PATH, json=sent | {"dry_run": True})).json()
    pointers = [fault["pointer"] for fault in dry["faults"]]
    assert pointers == [f"/documents/{at}/request/serving/engine" for at in (0, 1)]
    response = await kept.post(PATH, json=sent)
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == pointers
    assert await count(kept) == before


async def test_a_broken_line_is_told_with_line_and_column(kept):
    text = (FILES / "sglang-bench-serving.jsonl").read_text()
    broken = text.replace('"completed": 12', '"completed": oops')
    response = await kept.post(PATH, json={"content": broken, "dry_run": True})
    assert response.status_code == 422
    [error] = response.json()["errors"]
    assert error["pointer"] == "/content"
    assert error["line"] == 1
    assert error["column"] == broken.index("oops") + 1


async def test_a_pickle_comes_in_base64(kept):
    data = (FILES / "torch-memory-snapshot.pickle").read_bytes()
    deployment = DEPLOYMENT | {
        "model": "meta-llama/Llama-3.2-1B",
        "serving": {"engine": "vllm"},
        "workload": {"input_tokens": 8, "output_tokens": 8, "concurrency": 1},
    }
    sent = {"content_base64": base64.b64encode(data).decode(), "deployment": deployment}
    response = await kept.post(PATH, json=sent | {"dry_run": True})
    assert response.status_code == 200
    assert response.json()["documents"][0]["document"]["measured"]["allocated_bytes"] > 0


@pytest.mark.parametrize(
    ("sent", "pointer", "told"),
    [
        ({}, "/content", "give either content or content_base64"),
        ({"content": "a", "content_base64": "YQ=="}, "/content", "give either"),
        ({"content_base64": "%%%"}, "/content_base64", "is not base64"),
        ({"content": "a", "format": "excel"}, "/format", "no such format"),
        ({"content": "Dear all"}, "/content", "it seems to be plain text"),
        ({"content_base64": "RGVhciBhbGw="}, "/content_base64", "it seems to be plain text"),
        ({"content": '{"a": 1}', "format": "sglang-bench"}, "/content", "is not a result of"),
    ],
)
async def test_what_cannot_be_read_is_refused_with_its_field(kept, sent, pointer, told):
    response = await kept.post(PATH, json=sent)
    assert response.status_code == 422
    [error] = response.json()["errors"]
    assert error["pointer"] == pointer
    assert told in error["detail"]


async def test_a_file_that_is_too_large_is_refused(kept):
    response = await kept.post(PATH, json={"content": "a" * 300_000})
    assert response.status_code == 413
    assert "at most 0.2 MB" in response.text
