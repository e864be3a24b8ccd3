"""Reports of measured figures: compared, kept on a real database, listed and read back."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgi_lifespan import LifespanManager
from pydantic import SecretStr

from service.api.app import create_app
from service.estimation.measurements.answers import Measurement, MeasurementPage, MeasurementSummary
from service.estimation.measurements.tables import TABLES, measurement_rows
from service.settings import INSTALLATION, Settings
from service.validation.command import validation
from tests.api.conftest import UNPLACED
from tests.api.shapes import validated

REPORT: dict[str, Any] = {
    "inference": {
        "deployment": UNPLACED,
        "measured": {"process_bytes": 72e9, "tpot_s": 0.03, "ttft_s": 0.2},
    },
    "measured_on": "2026-11-02",
    "tool": "=cmd()",
    "notes": "eight accelerators, one replica",
}
TRAINING: dict[str, Any] = {
    "training": {
        "deployment": {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": "nvidia-h100-sxm-80gb",
            "accelerator_count": 8,
            "training": {"zero_stage": 3, "activation_checkpointing": "full"},
        },
        "measured": {"peak_allocated_bytes": 20e9, "peak_reserved_bytes": 24e9},
    }
}


@pytest.fixture(scope="module")
async def kept(catalog_url: str) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Settings(DATABASE_URL=SecretStr(catalog_url), log_level="error"))
    async with LifespanManager(app, startup_timeout=None):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield client


async def report(client: httpx.AsyncClient, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    response = await client.post("/v1/measurements", json=body, headers=headers)
    assert response.status_code in (200, 201), response.text
    validated(Measurement, response.json())
    answer: dict[str, Any] = response.json()
    return answer


async def test_a_report_is_compared_with_the_same_estimate_and_kept(kept):
    response = await kept.post("/v1/measurements", json=REPORT)
    assert response.status_code == 201
    answer = response.json()
    validated(Measurement, answer)
    estimate = (await kept.post("/v1/latency/inference", json=UNPLACED)).json()
    by = {figure["metric"]: figure for figure in answer["figures"]}
    assert by["tpot_s"]["estimate"] == estimate["tpot_s"]["value"]
    error = estimate["tpot_s"]["value"] / 0.03 - 1.0
    assert by["tpot_s"]["error_ratio"] == pytest.approx(error)
    assert by["tpot_s"]["inside"] == (
        estimate["tpot_s"]["low"] <= 0.03 <= estimate["tpot_s"]["high"]
    )
    again = (await kept.get(response.headers["location"])).json()
    assert again == {name: value for name, value in answer.items() if name != "warnings"}


async def test_training_counters_are_compared_with_what_they_count(kept):
    answer = await report(kept, TRAINING)
    memory = (
        await kept.post("/v1/memory/training", json=TRAINING["training"]["deployment"])
    ).json()
    by = {figure["metric"]: figure for figure in answer["figures"]}
    total = memory["total_bytes"]["value"]
    assert by["peak_reserved_bytes"]["estimate"] == pytest.approx(
        total - memory["libraries_bytes"]["value"]
    )
    assert by["peak_allocated_bytes"]["estimate"] == pytest.approx(
        total - memory["runtime_bytes"]["value"]
    )


async def test_a_key_lets_the_same_report_in_once(kept):
    key = {"Idempotency-Key": "run-17"}
    first = await kept.post("/v1/measurements", json=TRAINING, headers=key)
    second = await kept.post("/v1/measurements", json=TRAINING, headers=key)
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json()["id"] == first.json()["id"]
    other = TRAINING | {"notes": "another run"}
    refused = await kept.post("/v1/measurements", json=other, headers=key)
    assert refused.status_code == 409
    assert refused.json()["type"] == "/problems/conflict"
    for bad in ("", "x" * 201):
        response = await kept.post(
            "/v1/measurements", json=TRAINING, headers={"Idempotency-Key": bad}
        )
        assert response.status_code == 422


async def test_one_key_sent_many_times_at_once_is_kept_once(kept):
    key = {"Idempotency-Key": "at-once"}
    answers = await asyncio.gather(
        *(kept.post("/v1/measurements", json=TRAINING, headers=key) for _ in range(6))
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1


async def test_reports_are_listed_filtered_and_paged(kept):
    for tpot_s in (0.02, 0.04, 0.05):
        body = json.loads(json.dumps(REPORT))
        body["inference"]["measured"] = {"tpot_s": tpot_s}
        await report(kept, body)
    page = (await kept.get("/v1/measurements?metric=tpot_s&limit=2")).json()
    validated(MeasurementPage, page)
    assert [item["figures"][0]["measured"] for item in page["items"]] == [0.05, 0.04]
    rest = (
        await kept.get(f"/v1/measurements?metric=tpot_s&limit=2&cursor={page['next_cursor']}")
    ).json()
    assert rest["items"][0]["figures"][0]["measured"] == 0.02
    trained = (await kept.get("/v1/measurements?kind=training&limit=200")).json()
    assert {item["model"] for item in trained["items"]} == {"meta-llama/Llama-3.1-8B"}
    assert (await kept.get("/v1/measurements?model=none")).json()["items"] == []
    summary = (await kept.get("/v1/measurements/summary")).json()
    validated(MeasurementSummary, summary)
    speed = next(item for item in summary["items"] if item["metric"] == "tpot_s")
    assert speed["count"] == 4
    assert 0.0 <= speed["coverage_ratio"] <= 1.0


async def test_tables_are_safe_for_spreadsheets(kept):
    await report(kept, REPORT)
    response = await kept.get("/v1/measurements", headers={"Accept": "text/csv"})
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert {"metric", "measured", "estimate", "error_ratio"} <= set(rows[0])
    assert "'=cmd()" in {row["tool"] for row in rows}


@pytest.mark.parametrize("table", TABLES)
async def test_validation_reads_reports_back(kept, table, tmp_path: Path, capsys):
    body = json.loads(json.dumps(REPORT))
    body["inference"]["measured"] = {
        "process_bytes": 72e9,
        "kv_cache_capacity_tokens": 1e6,
        "tpot_s": 0.03,
        "output_tokens_per_s": 1000.0,
    }
    answer = await report(kept, body)
    listed = await kept.get(f"/v1/measurements/tables/{table}")
    assert listed.status_code == 200
    rows = [
        row
        for row in csv.DictReader(io.StringIO(listed.text))
        if row["row_id"].startswith(f"measurement-{answer['id']}-")
    ]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    (tmp_path / f"{table}.csv").write_text(out.getvalue())
    validation(INSTALLATION / "hardware_catalog", tmp_path, as_json=True, document=None, note=print)
    found = json.loads(capsys.readouterr().out[0:])[table]
    assert found["rows_refused"] == 0
    errors = {entry["metric"]: entry["error_ratio"] for entry in found["worst"]}
    by = {figure["metric"]: figure["error_ratio"] for figure in answer["figures"]}
    for name, (metric, _) in TABLES[table].items():
        if name in by:
            assert errors[metric] == pytest.approx(by[name], abs=0.02), name


def test_reports_of_models_given_inline_have_no_rows():
    report_ = {"id": 1, "model": "inline", "figures": [{"metric": "tpot_s", "measured": 1.0}]}
    assert measurement_rows("latency_inference", [report_]) == []


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        (REPORT | TRAINING, ""),
        ({"inference": {"deployment": UNPLACED, "measured": {}}}, ""),
        (
            {"inference": {"deployment": UNPLACED, "measured": {"tpot_s": -1.0}}},
            "/inference/measured/tpot_s",
        ),
        (
            {
                "inference": {
                    "deployment": UNPLACED | {"accelerator": "abacus"},
                    "measured": {"tpot_s": 1.0},
                }
            },
            "/inference/deployment/accelerator",
        ),
        (REPORT | {"measured_on": "yesterday"}, "/measured_on"),
    ],
)
async def test_what_is_wrong_with_a_report_is_said(client, body, pointer):
    response = await client.post("/v1/measurements", json=body)
    assert response.status_code == 422
    assert pointer in {error["pointer"] for error in response.json()["errors"]}


@pytest.mark.parametrize(
    "query", ["limit=0", "cursor=abc", "kind=other", "nonsense=1", "limit=1&limit=2"]
)
async def test_what_is_wrong_with_a_query_is_said(client, query):
    assert (await client.get(f"/v1/measurements?{query}")).status_code == 422


async def test_without_a_database_nothing_is_lost_in_silence(client):
    for response in (
        await client.post("/v1/measurements", json=REPORT),
        await client.get("/v1/measurements"),
        await client.get("/v1/measurements/1"),
        await client.get("/v1/measurements/summary"),
    ):
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) > 0


async def test_what_does_not_exist_is_not_found(kept):
    for path in ("/v1/measurements/999999", "/v1/measurements/x", "/v1/measurements/tables/none"):
        assert (await kept.get(path)).status_code == 404
