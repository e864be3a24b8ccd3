"""A service that was installed without what only some answers need."""

from __future__ import annotations

import httpx
import pytest

from service import extras
from service.extras import EXTRAS

DEPLOYMENT = {"model": "llama-3.1-8b", "accelerator": "nvidia-h100-sxm-80gb"}
LINK = "model=llama-3.1-8b&accelerator=nvidia-h100-sxm-80gb"
SWEEP = {"space": {"models": ["llama-3.1-8b"], "accelerators": ["nvidia-h100-sxm-80gb"]}}


@pytest.fixture
def lean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No extra is installed."""
    modules = {one.module for one in EXTRAS.values()}
    real = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in modules else real(name))


def assert_missing(answer: httpx.Response, extra: str) -> None:
    assert answer.status_code == 501, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == "/problems/extra-missing"
    assert f"./headroom serve --with {extra}`" in problem["detail"]
    assert f"headroom[{extra}]" in problem["detail"]


async def test_readiness_tells_what_is_installed(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await client.get("/readyz")).json()["extras"] == dict.fromkeys(EXTRAS, True)
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    assert (await client.get("/readyz")).json()["extras"] == dict.fromkeys(EXTRAS, False)


@pytest.mark.usefixtures("lean")
@pytest.mark.parametrize("form", ["svg", "png"])
async def test_images_are_missed_and_charts_are_not(client: httpx.AsyncClient, form: str) -> None:
    path = f"/v1/charts/memory-breakdown?{LINK}"
    assert_missing(await client.get(f"{path}&format={form}&width_px=777"), "images")
    for other in ("json", "vega-lite"):
        assert (await client.get(f"{path}&format={other}")).status_code == 200


@pytest.mark.usefixtures("lean")
@pytest.mark.parametrize("path", ["/v1/recommendations", "/v1/recommendations/training"])
async def test_a_pdf_is_missed_before_anything_is_computed(
    client: httpx.AsyncClient, path: str
) -> None:
    answer = await client.post(path, json={}, headers={"Accept": "application/pdf"})
    assert_missing(answer, "pdf")
    assert (await client.post(path, json={})).status_code == 422


@pytest.mark.usefixtures("lean")
async def test_sweeps_are_missed(client: httpx.AsyncClient) -> None:
    assert_missing(await client.post("/v1/sweeps", json=SWEEP), "sweeps")


@pytest.mark.usefixtures("lean")
async def test_pages_tell_charts_in_words(client: httpx.AsyncClient) -> None:
    page = (await client.get(f"/?{LINK}&region=aws/eu-north-1")).text
    assert "./headroom serve --with images" in page
    assert "<img" not in page.split('id="charts"')[1]
    assert "of 84.9 GB" in page.split('id="charts"')[1]
