"""Reports correct what their organisation is answered, and nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from service.estimation.inference.answers import InferenceAnswer, LatencyInferenceAnswer
from service.estimation.training.answers import LatencyTrainingAnswer
from tests.api.conftest import UNPLACED
from tests.api.keyed import client_of, key_for, running
from tests.api.shapes import validated
from tests.equations import evaluate

TRAINING: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
    "training": {"zero_stage": 3, "activation_checkpointing": "full", "micro_batch_size": 1},
}
LATENCY = "/v1/latency/inference"


@pytest.fixture(scope="module")
async def app(catalog_url: str) -> AsyncIterator[FastAPI]:
    async with running(catalog_url) as app:
        yield app


@pytest.fixture
async def parties(app, request) -> AsyncIterator[tuple[httpx.AsyncClient, ...]]:
    """Clients of two organisations, new for each test, and of nobody."""
    async with AsyncExitStack() as stack:
        test = request.node.name.replace("_", "-")[5:45].strip("-")
        names = (f"{one}-of-{test}" for one in ("acme", "other"))
        keys = [await key_for(app, name) for name in names]
        yield tuple([await stack.enter_async_context(client_of(app, key)) for key in (*keys, None)])


async def report(client, ratio: float, of: str = "tpot_s", **changed: Any) -> dict[str, Any]:
    """Report a figure that many times the published estimate."""
    asked = UNPLACED | changed
    published = (await client.post(LATENCY, json=asked | {"calibration": "published"})).json()
    body = {
        "kind": "inference",
        "request": asked,
        "measured": {of: published[of]["value"] * ratio},
    }
    response = await client.post("/v1/measurements", json=body)
    assert response.status_code == 201, response.text
    kept: dict[str, Any] = response.json()
    return kept


async def asked(client, path: str = LATENCY, **more: Any) -> httpx.Response:
    response = await client.post(path, json=UNPLACED | more)
    assert response.status_code == 200, response.text
    return response


async def test_a_report_corrects_its_organisation_and_nobody_else(parties):
    acme, other, nobody = parties
    before = (await asked(acme)).json()
    assert "calibration" not in before
    kept = await report(acme, 1.5)
    after = (await asked(acme)).json()
    validated(LatencyInferenceAnswer, after)
    used = after["calibration"]
    assert (used["mode"], used["revision"], used["reports"]) == ("own", 1, [kept["id"]])
    assert after["tpot_s"]["value"] > 1.25 * before["tpot_s"]["value"]
    width = [answer["tpot_s"]["high"] / answer["tpot_s"]["low"] for answer in (before, after)]
    assert width[1] < width[0]
    decode = used["corrections"]["decode"]
    assert decode["own_log_sigma"] < decode["published_log_sigma"]
    assert decode["reports"][0]["likeness_ratio"] > 0.5
    assert used["summary"].startswith("1 report of yours moved the time of decoding by +")
    for stranger in (other, nobody):
        assert (await asked(stranger)).json() == before


async def test_everything_that_follows_agrees(parties):
    acme = parties[0]
    published = (await asked(acme, "/v1/estimates/inference", region="SE")).json()
    await report(acme, 1.5)
    own = (await asked(acme, "/v1/estimates/inference", region="SE", explain=True)).json()
    validated(InferenceAnswer, own)
    slower = [answer["latency"]["output_tokens_per_s"]["value"] for answer in (published, own)]
    assert slower[1] < 0.85 * slower[0]
    energy = [answer["energy"]["it_energy_per_request_wh"]["value"] for answer in (published, own)]
    assert energy[1] > energy[0]
    for step in own["explanation"]:
        if "own" in step["name"] or "own_measurements" in step["inputs"]:
            value = evaluate(step["formula"], step["inputs"])
            assert value == pytest.approx(step["value"], rel=1e-9)
    told = {step["name"]: step for step in own["explanation"]}
    assert told["decode_step_s"]["inputs"]["own_measurements"].startswith("times 1.")
    assert told["decode_own_log_sigma"]["inputs"]["reports"].startswith("reports ")


async def test_other_loads_learn_most_and_published_stays_to_be_asked_for(parties):
    acme = parties[0]
    await report(acme, 1.6)
    workload = UNPLACED["workload"]
    elsewhere = {
        "same": {},
        "load": {"workload": workload | {"concurrency": 4 * workload.get("concurrency", 1)}},
        "format": {"precision": {"weights": "fp8"}},
        "model": {"model": "mistralai/Mistral-7B-v0.1"},
    }
    moved = {}
    for name, changed in elsewhere.items():
        found = [
            (await asked(acme, **changed, calibration=mode)).json() for mode in ("own", "published")
        ]
        moved[name] = found[0]["calibration"]["corrections"]["decode"]["correction_ratio"]
        assert found[1]["calibration"] == {"mode": "published"}
    assert moved["same"] > moved["load"] > moved["format"] > 1.0
    assert moved["load"] > moved["model"] > 1.0


async def test_a_revision_is_answered_to_the_byte_after_more_reports(parties):
    acme = parties[0]
    await report(acme, 1.5)
    first = await asked(acme)
    await report(acme, 0.7)
    second = await asked(acme)
    assert second.json()["calibration"]["revision"] == 2
    assert second.content != first.content
    again = await asked(acme, calibration_revision=1)
    assert again.content == first.content
    assert (await asked(acme, calibration_revision=2)).content == second.content
    assert (await asked(acme, calibration_revision=0)).json()["calibration"]["reports"] == []
    for wrong in (3, 10**9):
        response = await acme.post(LATENCY, json=UNPLACED | {"calibration_revision": wrong})
        assert response.status_code == 422
        assert response.json()["errors"][0]["pointer"] == "/calibration_revision"


async def test_a_withdrawn_report_takes_its_effect_with_it(parties):
    acme, other, nobody = parties
    before = (await asked(acme)).json()
    kept = await report(acme, 1.5)
    for stranger, status in ((other, 404), (nobody, 404)):
        assert (await stranger.delete(f"/v1/measurements/{kept['id']}")).status_code == status
        assert (await stranger.get(f"/v1/measurements/{kept['id']}")).status_code == 404
    response = await acme.delete(f"/v1/measurements/{kept['id']}")
    assert (response.status_code, response.content) == (204, b"")
    after = (await asked(acme)).json()
    assert after.pop("calibration")["reports"] == []
    assert after == before
    gone = await acme.post(LATENCY, json=UNPLACED | {"calibration_revision": 1})
    assert (gone.status_code, gone.json()["type"]) == (410, "/problems/gone")
    assert str(kept["id"]) in gone.json()["detail"]
    assert (await acme.get(f"/v1/measurements/{kept['id']}")).status_code == 404
    assert (await acme.delete(f"/v1/measurements/{kept['id']}")).status_code == 404
    listed = (await acme.get("/v1/measurements?limit=200")).json()["items"]
    assert kept["id"] not in {item["id"] for item in listed}


async def test_nonsense_is_named_and_moves_nothing(parties):
    acme = parties[0]
    await report(acme, 1.2)
    before = (await asked(acme)).json()
    wild = await report(acme, 100.0)
    after = (await asked(acme)).json()
    assert after["tpot_s"] == before["tpot_s"]
    said = [one for one in after["warnings"] if one["code"] == "reports_ignored"]
    assert str(wild["id"]) in said[0]["message"]


async def test_training_learns_from_its_steps(parties):
    acme = parties[0]
    published = (await acme.post("/v1/latency/training", json=TRAINING)).json()
    body = {
        "kind": "training",
        "request": TRAINING,
        "measured": {
            "step_s": 1.4 * published["step_s"]["value"],
            "allocated_bytes": 30e9,
        },
    }
    assert (await acme.post("/v1/measurements", json=body)).status_code == 201
    by_part = TRAINING | {"explain": True, "include": ["latency.breakdown"]}
    own = (await acme.post("/v1/latency/training", json=by_part)).json()
    validated(LatencyTrainingAnswer, own)
    ratio = own["calibration"]["corrections"]["step"]["correction_ratio"]
    assert 1.2 < ratio < 1.4
    assert own["step_s"]["value"] == pytest.approx(ratio * published["step_s"]["value"])
    assert own["mfu_ratio"]["value"] == pytest.approx(published["mfu_ratio"]["value"] / ratio)
    assert sum(own["parts"].values()) == pytest.approx(own["step_s"]["value"])
    told = {step["name"]: step for step in own["explanation"]}
    for name in ("step_s", "own_step_s", "mfu_ratio", "tokens_per_s"):
        value = evaluate(told[name]["formula"], told[name]["inputs"])
        assert value == pytest.approx(told[name]["value"], rel=1e-9)
    memory = (await acme.post("/v1/memory/training", json=TRAINING)).json()
    assert "memory" in memory["calibration"]["corrections"]


async def test_reports_without_a_key_are_everybodys_and_teach_nobody(parties):
    acme, _, nobody = parties
    before = (await asked(nobody)).json()
    kept = await report(nobody, 1.5)
    assert (await asked(nobody)).json() == before
    assert (await acme.get(f"/v1/measurements/{kept['id']}")).status_code == 200
    for client in (acme, nobody):
        assert (await client.delete(f"/v1/measurements/{kept['id']}")).status_code == 403
    response = await nobody.post(LATENCY, json=UNPLACED | {"calibration": "own"})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/calibration"
    response = await nobody.post(LATENCY, json=UNPLACED | {"calibration_revision": 1})
    assert response.json()["errors"][0]["pointer"] == "/calibration_revision"


async def test_an_operator_can_let_those_without_a_key_teach_each_other(catalog_url):
    async with running(catalog_url, measurements_without_key_teach=True) as app:
        nobody = client_of(app)
        before = (await asked(nobody)).json()
        assert (await asked(nobody)).json() == before
        kept = await report(nobody, 1.5)
        after = (await asked(nobody)).json()
        assert kept["id"] in after["calibration"]["reports"]
        assert after["tpot_s"]["value"] > before["tpot_s"]["value"]
        await nobody.aclose()


async def test_quotas_keep_strangers_from_filling_the_disk(catalog_url):
    async with running(catalog_url, measurement_limit_reports=1) as app:
        key = await key_for(app, "small")
        async with client_of(app, key) as small:
            await report(small, 1.1)
            body = {"kind": "inference", "request": UNPLACED, "measured": {"tpot_s": 1.0}}
            full = await small.post("/v1/measurements", json=body)
            assert (full.status_code, full.json()["type"]) == (403, "/problems/quota-reached")
            assert "at most 1 reports of small" in full.json()["detail"]
    async with running(catalog_url, measurement_limit_bytes=1_000) as app:
        key = await key_for(app, "narrow")
        async with client_of(app, key) as narrow:
            full = await narrow.post("/v1/measurements", json=body)
            assert "at most 1,000 bytes" in full.json()["detail"]
            assert (await narrow.get("/v1/measurements")).json()["items"] is not None


async def test_lists_keep_organisations_apart(parties):
    acme, other, nobody = parties
    kept = await report(acme, 1.1)
    public = await report(nobody, 1.1)

    async def listed(client) -> set[int]:
        page = (await client.get("/v1/measurements?limit=200")).json()
        return {item["id"] for item in page["items"]}

    assert {kept["id"], public["id"]} <= await listed(acme)
    for stranger in (other, nobody):
        assert kept["id"] not in await listed(stranger)
        assert public["id"] in await listed(stranger)
        lines = (await stranger.get("/v1/measurements/documents")).text
        assert f'measurement-{kept["id"]}"' not in lines
    counts = [
        sum(
            each["count"] for each in (await client.get("/v1/measurements/summary")).json()["items"]
        )
        for client in (acme, other)
    ]
    assert counts[0] == counts[1] + 1


async def test_the_same_idempotency_key_of_others_is_another(parties):
    acme = parties[0]
    body = {"kind": "inference", "request": UNPLACED, "measured": {"tpot_s": 0.03}}
    key = {"Idempotency-Key": "run-of-many"}
    first, second, third = [
        await client.post("/v1/measurements", json=body, headers=key) for client in parties
    ]
    assert [each.status_code for each in (first, second, third)] == [201] * 3
    again = await acme.post("/v1/measurements", json=body, headers=key)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    await acme.delete(f"/v1/measurements/{first.json()['id']}")
    gone = await acme.post("/v1/measurements", json=body, headers=key)
    assert gone.status_code == 410


async def test_links_are_validated_by_the_revision_of_reports(parties):
    acme = parties[0]
    query = "model=meta-llama/Llama-3.1-8B&accelerator=nvidia-h100-sxm-80gb"
    before = await acme.get(f"{LATENCY}?{query}")
    await report(acme, 1.5)
    held = {"If-None-Match": before.headers["etag"]}
    after = await acme.get(f"{LATENCY}?{query}", headers=held)
    assert after.status_code == 200
    assert after.headers["etag"] != before.headers["etag"]
    assert after.headers["cache-control"].startswith("private")


async def test_recommendations_choose_by_what_was_measured(parties):
    acme = parties[0]
    question = {
        "model": UNPLACED["model"],
        "search": {
            "accelerators": [UNPLACED["accelerator"]],
            "regions": ["SE"],
        },
        "workload": {"input_tokens": 1024, "output_tokens": 256, "concurrency": 16},
        "include": ["front"],
    }

    async def best(**more: Any) -> dict[str, Any]:
        response = await acme.post("/v1/recommendations", json=question | more)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()["front"][0]
        return found

    before = await best()
    await report(acme, 2.5)
    after = await best()
    assert after["metrics"] != before["metrics"]
    assert (await best(calibration="published"))["metrics"] == before["metrics"]


async def test_the_page_says_what_reports_did(parties):
    acme = parties[0]
    query = "model=meta-llama/Llama-3.1-8B&accelerator=nvidia-h100-sxm-80gb&accelerator_count=1"
    before = (await acme.get(f"/?{query}&region=SE")).text
    assert "reports of yours" not in before
    request = {"accelerator_count": 1}
    await report(acme, 1.5, model="meta-llama/Llama-3.1-8B", **request)
    after = (await acme.get(f"/?{query}&region=SE")).text
    assert "1 report of yours moved the time of decoding by +" in after
