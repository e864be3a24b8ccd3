"""Requests that name models of the Hub, through every door."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from service.api.app import create_app
from service.api.http.contract import REQUESTS
from service.api.http.hub_models import model_places
from service.client.estimator import NotReached, Refused
from service.client.in_process import InProcess
from service.estimation.inference.requests import InferenceRequest
from service.estimation.references import HubModel
from service.settings import Settings
from tests.hub.standin import COMMIT, CONFIG, LATER

UNPLACED: dict[str, Any] = {"model": "hf:acme/small", "accelerator": "nvidia-l40s-48gb"}
PLACED = UNPLACED | {"region": "country/SE"}
ID = f"hf:acme/small@{COMMIT}"


def problem(response) -> tuple[int, list[tuple[str, str]]]:
    told = response.json()
    return response.status_code, [(e["pointer"], e["detail"]) for e in told.get("errors", ())]


SOURCED = PLACED | {"include": ["provenance"]}


@pytest.mark.parametrize(
    "model",
    [
        "hf:acme/small",
        "hf:acme/small@v1",
        {"hub": "acme/small"},
        {"hub": "acme/small", "revision": COMMIT},
    ],
)
async def test_the_answer_is_that_of_the_pasted_configuration(service, settings, model):
    client = await service(settings())
    pasted = {"config": CONFIG, "safetensors_index": {"parameters": {"BF16": 1_100_048_384}}}
    answers = [
        (await client.post("/v1/estimates/inference", json=SOURCED | {"model": one})).json()
        for one in (model, pasted)
    ]
    assert answers[0]["memory"] == answers[1]["memory"]
    assert answers[0]["deployment"]["model"] == ID
    entries = answers[0]["provenance"]["entries"]
    [used] = [entry for entry in entries if entry["collection"] == "models"]
    [source] = used["sources"]
    assert COMMIT in source["title"]
    assert source["publisher"] == "acme"
    assert source["url"].endswith(f"/acme/small/blob/{COMMIT}/config.json")


async def test_a_link_names_it_and_its_tag_follows_the_commit(service, settings, standin):
    client = await service(settings(hub_refresh_s=0))
    link = "/v1/memory/inference?model=hf:acme/small&accelerator=nvidia-l40s-48gb"
    first = await client.get(link)
    assert first.json()["deployment"]["model"] == ID
    tag = {"If-None-Match": first.headers["ETag"]}
    assert (await client.get(link, headers=tag)).status_code == 304
    standin.commit = LATER
    moved = await client.get(link, headers=tag)
    assert moved.status_code == 200
    assert moved.json()["deployment"]["model"] == f"hf:acme/small@{LATER}"


async def test_every_operation_takes_it(service, settings):
    client = await service(settings())
    trained = {"model": "hf:acme/small", "accelerator": "nvidia-h100-sxm-80gb"}
    speculative = {"speculative": {"draft_model": {"hub": "acme/small"}}}
    for path, body in (
        ("memory/training", trained),
        ("estimates/training", trained | {"region": "country/SE"}),
        ("impacts", PLACED),
        ("reports/sci", PLACED),
        ("memory/inference", UNPLACED | {"model": "llama-3.1-8b", "serving": speculative}),
        ("memory/stores", {"embedding_model": "hf:acme/small", "vectors": 1000, "dimensions": 384}),
        ("recommendations", {"model": "hf:acme/small", "search": {"accelerators": ["h100"]}}),
        ("recommendations", {"models": ["hf:acme/small"], "search": {"accelerators": ["h100"]}}),
    ):
        response = await client.post(f"/v1/{path}", json=body)
        assert response.status_code == 200, (path, response.text[:500])


async def test_comparisons_and_batches_refuse_by_the_place(service, settings):
    client = await service(settings())
    compared = {
        "models": ["llama-3.1-8b", "hf:acme/small", "hf:acme/missing"],
        "accelerators": ["nvidia-l40s-48gb"],
        "regions": ["country/SE"],
    }
    status, errors = problem(await client.post("/v1/compare", json=compared))
    assert status == 422
    assert [pointer for pointer, _ in errors] == ["/models/2"]

    bodies = [PLACED, PLACED | {"model": "hf:acme/missing"}, PLACED | {"model": "llama-3.1-8b"}]
    bodies += [{"model": "hf:acme/small"}, PLACED | {"model": {"hub": "acme/small"}}]
    answer = (await client.post("/v1/estimates/batch", json={"requests": bodies})).json()
    assert [item["answer"] is not None for item in answer["items"]] == [
        True,
        False,
        True,
        False,
        True,
    ]
    assert answer["items"][1]["errors"][0]["pointer"] == "/model"
    assert answer["items"][3]["errors"][0]["pointer"] == "/accelerator"


async def test_a_request_names_a_bounded_number_of_models(service, settings, standin):
    client = await service(settings())
    many = [f"hf:acme/m{at}" for at in range(21)]
    compared = {"models": many, "accelerators": ["h100"], "regions": ["country/SE"]}
    status, [(_, detail)] = problem(await client.post("/v1/compare", json=compared))
    assert (status, "more than 20" in detail) == (422, True)
    batch = {"requests": [PLACED | {"model": model} for model in many]}
    items = (await client.post("/v1/estimates/batch", json=batch)).json()["items"]
    assert [item["answer"] is not None for item in items] == [True] * 20 + [False]


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("hf:acme/missing", "has no model"),
        ("hf:acme/gated", "is gated"),
        ("hf:../etc/passwd", "not the name of a model"),
        ("hf:", "not the name of a model"),
        ({"hub": "acme/small", "revision": "../x"}, "not a revision"),
        ("hf:acme/small@v9", "no revision v9"),
        ("hf:acme/many-keys", "is not understood"),
        ("hf:acme/strange", "hidden_size"),
        ("hf:acme/infinite", ""),
    ],
)
async def test_models_that_cannot_be_had_are_errors_of_the_field(service, settings, model, told):
    client = await service(settings())
    response = await client.post("/v1/memory/inference", json=UNPLACED | {"model": model})
    status, errors = problem(response)
    assert status == 422
    assert errors[0][0].startswith("/model")
    assert told in errors[0][1]


async def test_types_that_are_not_known_leave_the_configuration(service, settings):
    client = await service(settings())
    asked = UNPLACED | {"model": "hf:acme/new-types"}
    assert (await client.post("/v1/memory/inference", json=asked)).status_code == 200


async def test_a_hub_that_is_away_is_no_fault_of_the_request(service, settings, standin):
    client = await service(settings(hub_refresh_s=0))
    assert (await client.post("/v1/memory/inference", json=UNPLACED)).status_code == 200
    standin.broken = True
    response = await client.post("/v1/memory/inference", json=UNPLACED)
    assert "hub_not_reached" in [warning["code"] for warning in response.json()["warnings"]]
    asked = UNPLACED | {"model": "hf:acme/other"}
    response = await client.post("/v1/memory/inference", json=asked)
    assert response.status_code == 503
    assert int(response.headers["Retry-After"]) > 0
    assert "the Hub answers 500" in response.json()["detail"]
    batch = {"requests": [asked | {"region": "country/SE"}]}
    [item] = (await client.post("/v1/estimates/batch", json=batch)).json()["items"]
    assert "the Hub answers 500" in item["errors"][0]["detail"]


async def test_switched_off_it_is_said(service, settings):
    client = await service(settings(hub_offline=True))
    response = await client.post("/v1/memory/inference", json=UNPLACED)
    status, [(pointer, detail)] = problem(response)
    assert (status, pointer) == (422, "/model")
    assert "HEADROOM_HUB_OFFLINE" in detail


async def test_other_requests_never_meet_the_hub(service, settings, standin):
    client = await service(settings())
    await client.post("/v1/estimates/inference", json=PLACED | {"model": "llama-3.1-8b"})
    await client.post("/v1/estimates/inference", json=PLACED | {"model": {"config": CONFIG}})
    assert not standin.asked


async def test_asked_in_process_it_is_the_same(settings, standin):
    answer = await InProcess(settings()).ask("memory/inference", UNPLACED)
    assert answer["deployment"]["model"] == ID
    with pytest.raises(Refused, match="has no model"):
        await InProcess(settings()).ask("memory/inference", UNPLACED | {"model": "hf:acme/missing"})
    standin.broken = True
    with pytest.raises(NotReached, match="the Hub answers 500"):
        await InProcess(settings()).ask("memory/inference", UNPLACED | {"model": "hf:acme/other"})


def test_every_reference_to_a_model_has_a_known_place():
    """Whatever a schema mentions at any depth is found in requests of its kind."""
    create_app(Settings(embedded_database=False))  # declares all operations
    hub = json.dumps({"$ref": f"#/$defs/{HubModel.__name__}"})
    assert len(REQUESTS) > 10
    for model in REQUESTS.values():
        schema = model.model_json_schema()
        mentions = json.dumps(schema).count(hub)
        assert bool(mentions) == bool(model_places(model)), model


def test_callers_cannot_make_up_what_was_fetched():
    forged = {
        "hub": "a/b",
        "revision": COMMIT,
        "config": CONFIG,
        "url": "x",
        "year": 1,
        "may_be_old": False,
    }
    with pytest.raises(ValidationError):
        InferenceRequest.model_validate(PLACED | {"model": forged})
