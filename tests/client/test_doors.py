"""The service asked within a process and over HTTP answers alike."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from service.client.estimator import EstimatorClient, NotReached, Refused
from service.client.in_process import InProcess
from service.client.remote import Server
from service.settings import Settings
from tests.api.conftest import MAIN, UNPLACED

TRAINED: dict[str, Any] = {"model": "llama-3.1-8b", "accelerator": "nvidia-h100-sxm-80gb"}
QUESTIONS: dict[str, dict[str, Any]] = {
    "estimates/inference": MAIN,
    "memory/inference": UNPLACED,
    "latency/inference": UNPLACED,
    "impacts": MAIN,
    "memory/training": TRAINED,
    "latency/training": TRAINED,
    "estimates/training": TRAINED | {"region": "country/SE"},
    "compare": {
        "models": ["llama-3.1-8b"],
        "accelerators": ["nvidia-l40s-48gb"],
        "regions": ["country/SE"],
    },
    "recommendations/training": {
        "model": "llama-3.1-8b",
        "training": {"tokens": 1e9},
        "search": {
            "accelerators": ["nvidia-h100-sxm-80gb"],
            "regions": ["country/SE"],
            "max_accelerators": 8,
        },
    },
    "recommendations": {
        "model": "llama-3.1-8b",
        "search": {"accelerators": ["nvidia-l40s-48gb"], "regions": ["country/SE"]},
    },
}


@pytest.fixture
def server(app) -> EstimatorClient:
    return Server("http://test/v1/", transport=httpx.ASGITransport(app))


@pytest.fixture(scope="module")
def here() -> EstimatorClient:
    return InProcess(Settings())


@pytest.mark.parametrize("question", QUESTIONS)
async def test_answers_are_the_same(server, here, question):
    asked = QUESTIONS[question]
    assert await here.ask(question, asked) == await server.ask(question, asked)


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "lama-3.1-70b", "accelerator": "nvidia-h100-sxm-80gb"},
        {"model": "llama-3.1-70b"},
        {"model": "llama-3.1-70b", "accelerator": "nvidia-h100-sxm-80gb", "typo": 1},
        {"model": {"config": {"model_type": "llama"}}, "accelerator": "nvidia-h100-sxm-80gb"},
    ],
)
async def test_refusals_are_the_same(server, here, wrong):
    problems = []
    for door in (server, here):
        with pytest.raises(Refused) as refused:
            await door.ask("memory/inference", wrong)
        problems.append({**refused.value.problem})
    problems[0].pop("instance")
    assert problems[0] == problems[1]


async def test_an_earlier_revision_is_with_a_server(here):
    with pytest.raises(Refused, match="--server"):
        await here.ask("memory/inference", UNPLACED | {"catalog_revision": 7})


async def test_the_catalog_is_looked_up_alike(server, here):
    found = await here.look_up("accelerators", "h100", 3)
    assert [entry["id"] for entry in found] == sorted(entry["id"] for entry in found)
    assert found == await server.look_up("accelerators", "h100", 3)
    for door in (server, here):
        with pytest.raises(Refused):
            await door.look_up("secrets", "", 3)


@pytest.mark.parametrize(
    ("response", "told"),
    [
        (httpx.Response(200, text="<html>"), "something else"),
        (httpx.Response(200, json=[1]), "something else"),
        (httpx.Response(302, headers={"Location": "http://elsewhere/"}), "something else"),
        (httpx.Response(503, json={"detail": "database gone"}), "503: database gone"),
        (httpx.Response(500, json={}), "500: it failed"),
    ],
)
async def test_strange_servers_are_told(response, told):
    door = Server("http://test", transport=httpx.MockTransport(lambda _: response))
    with pytest.raises(NotReached, match=told):
        await door.ask("memory/inference", {})


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "nonsense", "http://[", "ftp://x"])
async def test_wrong_addresses_are_told(address):
    with pytest.raises(NotReached, match="cannot be reached"):
        await Server(address).ask("memory/inference", {})


async def test_a_key_is_sent_along():
    def seen(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"sent": request.headers.get("authorization")})

    for key, sent in (("headroom_x", "Bearer headroom_x"), (None, None)):
        door = Server("http://test", key, transport=httpx.MockTransport(seen))
        assert await door.ask("memory/inference", {}) == {"sent": sent}
