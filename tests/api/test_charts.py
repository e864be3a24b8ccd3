"""Charts over HTTP: forms, caching, refusals, and drawing that takes too long."""

from __future__ import annotations

import asyncio
from xml.etree import ElementTree

import httpx
import pytest
from asgi_lifespan import LifespanManager
from jsonschema import Draft202012Validator

from service.api.app import create_app
from service.estimation.charts.kinds import CHART_KINDS
from service.settings import Settings
from tests.api.conftest import UNPLACED

LINK = "/v1/charts/memory-breakdown?model=llama-3.1-8b&accelerator=nvidia-l40s-48gb"


@pytest.mark.parametrize("kind", CHART_KINDS.values(), ids=lambda kind: kind.id)
async def test_answers_are_as_declared(kind, client):
    document = (await client.get("/openapi.json")).json()
    whole = {"$ref": "#/components/schemas/ChartAnswer", "components": document["components"]}
    example = kind.request.model_json_schema()["examples"][0]
    answer = (await client.post(f"/v1/charts/{kind.id}", json=example)).raise_for_status().json()
    assert not list(Draft202012Validator(whole).iter_errors(answer))
    assert answer["kind"] == kind.id
    assert answer["vega_lite"]["usermeta"]["catalog_revision"] == answer["catalog_revision"]
    assert answer["vega_lite"]["usermeta"]["sources"] == answer["sources"]


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("*/*", "application/json"),
        ("image/svg+xml", "image/svg+xml"),
        ("image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8", "image/svg+xml"),
        ("image/png;q=0.9, image/svg+xml;q=0.1", "image/png"),
        ("application/vnd.vegalite.v5+json", "application/vnd.vegalite.v5+json"),
        ("text/html, */*;q=0.1", "application/json"),
    ],
)
async def test_accept_chooses_the_form(accept, media_type, client):
    response = await client.get(LINK, headers={"Accept": accept})
    assert response.status_code == 200
    assert response.headers["content-type"].partition(";")[0] == media_type
    assert "Accept" in response.headers["vary"]


async def test_a_form_that_there_is_not_is_refused(client):
    response = await client.get(LINK, headers={"Accept": "text/csv"})
    assert response.status_code == 406


async def test_a_link_can_choose_the_form_and_the_looks(client):
    response = await client.get(LINK + "&format=svg&theme=dark&width_px=300")
    assert response.headers["content-type"] == "image/svg+xml"
    assert 'width="300"' in response.text
    assert "#12161c" in response.text


async def test_a_client_that_holds_a_chart_is_told_so(client):
    first = await client.get(LINK + "&format=svg")
    again = await client.get(LINK + "&format=svg", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = await client.get(LINK + "&format=json")
    assert other.headers["etag"] != first.headers["etag"]


async def test_explanations_come_when_asked_for(client):
    body = UNPLACED | {"explain": True}
    answer = (await client.post("/v1/charts/memory-breakdown", json=body)).json()
    assert any(step["name"] == "Headroom" for step in answer["explanation"])


async def test_what_cannot_be_drawn_is_refused(client):
    missing = await client.get("/v1/charts/pie?model=llama-3.1-8b")
    assert missing.status_code == 404
    assert "roofline" in missing.json()["detail"]
    same = {"model": "llama-3.1-8b", "x": "cost", "y": "cost"}
    refused = await client.post("/v1/charts/pareto-front", json=same)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/y"
    wide = await client.get(LINK + "&width_px=100000")
    assert wide.status_code == 422
    unknown = await client.get(
        "/v1/charts/impacts-by-region?model=llama-3.1-8b&accelerator=nvidia-l40s-48gb"
        "&region=aws/eu-north-1&regions=aws/eu-north-1,nowhere"
    )
    assert unknown.json()["errors"][0]["pointer"] == "/regions/1"


async def test_a_chart_of_a_group_has_its_regions(client):
    groups = (await client.get("/v1/region-groups")).json()["items"]
    meant = next(one["regions"] for one in groups if one["id"] == "nordics")
    link = (
        "/v1/charts/impacts-by-region?model=llama-3.1-8b&accelerator=nvidia-l40s-48gb"
        "&region=aws/eu-north-1&shown=60&format=json&regions="
    )
    chart = (await client.get(f"{link}nordics")).json()
    labels = {one["label"] for one in chart["series"][-1]["points"]}
    assert {"aws/eu-north-1", "azure/norwayeast"} <= labels <= set(meant)
    assert (await client.get(link + ",".join(meant))).json() == chart


async def test_a_chart_is_drawn_once_for_all_who_ask_the_same(client, monkeypatch):
    link = LINK + "&format=svg&width_px=333"
    first = await client.get(link)

    async def drawn_again(*asked):
        return b"<svg/>"

    monkeypatch.setattr("service.api.charts.beside_service", drawn_again)
    assert (await client.get(link)).content == first.content
    assert (await client.get(link + "&theme=dark")).content == b"<svg/>"


async def test_names_that_callers_make_up_stay_text(client):
    accelerator = {
        "id": "</title><script>alert(1)</script>",
        "name": "<img src=x onerror=alert(1)> & \"x\" datum['x']",
        "family": "nvidia-hopper",
        "figures": {
            "memory_bytes": 8e10,
            "memory_bandwidth_bytes_per_s": 3e12,
            "peak_bf16_flops_per_s": 9e14,
        },
    }
    body = {"model": "llama-3.1-8b", "accelerator": accelerator, "style": {"format": "svg"}}
    for kind in ("memory-breakdown", "roofline"):
        text = (await client.post(f"/v1/charts/{kind}", json=body)).raise_for_status().text
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}  # noqa: S314 - our own text
        assert tags <= {"svg", "title", "desc", "g", "path", "rect", "text", "tspan", "line"} | {
            "defs",
            "clipPath",
        }


async def test_drawing_that_takes_too_long_is_given_up():
    app = create_app(Settings(embedded_database=False, log_level="error", chart_timeout_s=0.001))
    async with LifespanManager(app, startup_timeout=None):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            late, prompt = await asyncio.gather(
                client.get(LINK + "&format=svg&width_px=444"), client.get(LINK + "&format=json")
            )
    assert late.status_code == 503
    assert late.headers["retry-after"]
    assert prompt.status_code == 200


async def test_a_figure_that_depends_on_the_place_asks_for_it(client):
    asked = {"model": "llama-3.1-8b", "accelerator": "h100"}
    refused = await client.get("/v1/charts/sensitivity", params=asked)
    [error] = refused.json()["errors"]
    assert (refused.status_code, error["pointer"]) == (422, "/region")
    assert "greenhouse gases" in error["detail"]
    other = await client.get("/v1/charts/sensitivity", params=asked | {"figure": "tpot_s"})
    assert other.status_code == 200
