"""The tools as a client of the protocol meets them, in one process and over standard input."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from service.client.estimator import NotReached
from service.client.in_process import InProcess
from service.mcp.server import mcp_server
from service.settings import INSTALLATION, Settings

SERVED = {"model": "llama-3.1-70b", "accelerator": "h100", "accelerator_count": 8}


class Away:
    """A door behind which nobody is."""

    async def ask(self, *_: Any) -> dict[str, Any]:
        raise NotReached("http://test cannot be reached")

    async def look_up(self, *_: Any) -> list[dict[str, Any]]:
        raise NotReached("http://test cannot be reached")


@pytest.fixture(scope="module")
def door() -> InProcess:
    return InProcess(Settings(hub_offline=True))


@asynccontextmanager
async def connected(door: Any) -> AsyncIterator[Client]:
    async with Client(mcp_server(door), raise_exceptions=True) as client:
        yield client


async def answered(door: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    async with connected(door) as client:
        result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    content: dict[str, Any] = result.structured_content
    [text] = result.content
    assert json.loads(text.text) == content  # for clients that read text alone
    return content


async def refused(door: Any, tool: str, **arguments: Any) -> str:
    async with connected(door) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    text: str = result.content[0].text
    return text


async def test_tools_say_what_they_are_for(door):
    async with connected(door) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    named = {"fit_and_speed", "footprint", "recommend", "look_up_catalog", "ask_question"}
    assert set(tools) == named
    for tool in tools.values():
        assert len(tool.description) > 80
        assert tool.annotations.read_only_hint
    assert tools["fit_and_speed"].input_schema["required"] == ["model", "accelerator"]
    assert tools["footprint"].input_schema["required"] == ["region"]


async def test_fit_and_speed_are_those_of_the_service(door):
    digest = await answered(door, "fit_and_speed", **SERVED, concurrency=32, weights="fp8")
    asked = {**SERVED, "precision": {"weights": "fp8"}, "workload": {"concurrency": 32}}
    memory = await door.ask("memory/inference", asked)
    latency = await door.ask("latency/inference", asked | {"include": ["latency.breakdown"]})
    assert digest["memory_per_accelerator"]["total_bytes"] == memory["total_bytes"]
    assert digest["memory_per_accelerator"]["fits"] is True
    assert digest["speed"]["tpot_s"] == latency["tpot_s"]
    assert digest["speed"]["decode_bottleneck"] == latency["decode"]["bottleneck"]
    percentiles = digest["speed"]["in_flight"]["ttft_s"]
    assert percentiles["p95"] == latency["in_flight"]["ttft_s"]["p95"]
    assert digest["sources"]
    assert "plans_that_would_make_it_fit" not in digest


async def test_what_does_not_fit_comes_with_plans(door):
    digest = await answered(door, "fit_and_speed", model="llama-3.1-70b", accelerator="l40s")
    assert digest["memory_per_accelerator"]["fits"] is False
    assert digest["plans_that_would_make_it_fit"][0]["steps"]
    assert digest["warnings"]


async def test_training_is_asked_by_its_method(door):
    digest = await answered(
        door, "fit_and_speed", model="llama-3.1-8b", accelerator="l40s", training="qlora"
    )
    assert digest["deployment"]["training"]["method"] == "qlora"
    assert digest["speed"]["step_s"]["value"] > 0


async def test_a_pasted_configuration_is_a_model(door, packaged_snapshot):
    config = packaged_snapshot.models["meta-llama/Llama-3.2-1B"].document["config"]
    digest = await answered(door, "fit_and_speed", model={"config": config}, accelerator="l40s")
    assert digest["deployment"]["model"] == "inline"


async def test_a_footprint_of_a_deployment_and_of_energy(door):
    digest = await answered(door, "footprint", **SERVED, region="country/SE")
    assert set(digest["impacts"]) == {"per_request", "per_1k_tokens", "per_year"}
    assert digest["impacts"]["per_year"]["carbon"]["total_gco2e"]["value"] > 0
    plain = await answered(door, "footprint", region="country/SE", energy_kwh=1000)
    assert plain["impacts"]["period"]["carbon"]["operational_location_gco2e"]["value"] > 0


async def test_a_recommendation_names_choices_and_limits(door):
    digest = await answered(
        door,
        "recommend",
        model="llama-3.1-8b",
        accelerators=["h100", "l40s"],
        regions=["country/SE"],
        requests_per_s=1,
        tpot_s=0.01,
        max_accelerators=4,
    )
    assert "balanced" in digest["choices"][0]["best_for"]
    assert digest["choices"][0]["region"] == "country/SE"
    assert "tpot_s" in [limit["limit"] for limit in digest["excluded"]]


async def test_the_catalog_is_searched(door):
    found = await answered(door, "look_up_catalog", collection="accelerators", text="h200", limit=2)
    assert len(found["items"]) == 2
    assert all("h200" in item["id"] for item in found["items"])
    assert found["items"][0]["sources"]


async def test_answers_leave_room_in_a_context(door):
    for tool, arguments in (
        ("fit_and_speed", SERVED),
        ("footprint", SERVED | {"region": "aws/eu-north-1"}),
        ("recommend", {"model": "llama-3.1-8b", "accelerators": ["h100", "l40s"]}),
    ):
        assert len(json.dumps(await answered(door, tool, **arguments))) < 16_000, tool


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("fit_and_speed", {"model": "lama-3.1-70b", "accelerator": "h1"}, "meta-llama/Llama-3.1"),
        ("fit_and_speed", {"model": "lama-3.1-70b", "accelerator": "h1"}, "/accelerator: unknown"),
        ("fit_and_speed", {"model": "hf:acme/small", "accelerator": "h100"}, "OFFLINE"),
        ("fit_and_speed", SERVED | {"accelerator_count": 0}, "/accelerator_count"),
        ("fit_and_speed", SERVED | {"training": "lora", "concurrency": 3}, "/workload"),
        ("footprint", {"region": "country/SE"}, "either a model"),
        ("footprint", {"region": "atlantis", "energy_kwh": 1}, "/region"),
        ("recommend", {"model": "llama-3.1-8b", "workload_kind": "fun"}, "workload_kind"),
        ("ask_question", {"question": "social-licence", "request": {}}, "/region"),
        ("ask_question", {"question": "recommendations", "request": {}}, "no such question"),
        ("look_up_catalog", {"collection": "secrets"}, "accelerators"),
        ("look_up_catalog", {"collection": "models", "limit": 1000}, "limit"),
    ],
)
async def test_refusals_say_what_would_work(door, tool, arguments, told):
    assert told in await refused(door, tool, **arguments)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("fit_and_speed", SERVED), ("look_up_catalog", {"collection": "models"})],
)
async def test_a_service_that_is_away_is_told(tool, arguments):
    assert "cannot be reached" in await refused(Away(), tool, **arguments)


async def test_the_command_serves_over_standard_input():
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "service.cli", "mcp"],
        cwd=INSTALLATION,
        env=os.environ | {"PYTHONPATH": str(INSTALLATION)},
    )
    async with Client(command) as client:
        result = await client.call_tool("fit_and_speed", SERVED)
    assert result.structured_content["memory_per_accelerator"]["fits"] is True


def test_without_the_library_it_says_what_is_missing(monkeypatch):
    from typer.testing import CliRunner

    from service.cli import app
    from service.cli.upkeep import assistants

    monkeypatch.setattr(assistants, "find_spec", lambda _: None)
    result = CliRunner().invoke(app, ["mcp"])
    assert result.exit_code == 2
    assert "headroom[mcp]" in result.stderr
