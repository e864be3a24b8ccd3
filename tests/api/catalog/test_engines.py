"""An engine is one file: with it in the catalog's folder, the service can be asked about it."""

from __future__ import annotations

import shutil

import httpx
import pytest
from asgi_lifespan import LifespanManager

from service.api.app import create_app
from service.settings import INSTALLATION, Settings
from tests.api.conftest import MAIN

ACME = """\
id: acme-serve
name: Acme Serve
aliases: [acme]
workloads: [inference, training]
like: vllm
source: headroom-assumption
"""


async def test_a_new_engine_is_one_file(tmp_path):
    folder = tmp_path / "catalog"
    shutil.copytree(INSTALLATION / "hardware_catalog", folder)
    (folder / "engines" / "acme-serve.yaml").write_text(ACME)
    settings = Settings(embedded_database=False, log_level="error", catalog_directory=folder)
    application = create_app(settings)
    async with LifespanManager(application, startup_timeout=60):
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            answers = [
                await client.post(
                    "/v1/estimates/inference",
                    json=MAIN | {"serving": serving, "include": ["deployment"]},
                )
                for serving in ({"engine": "Acme"}, {"engine": "vllm", "engine_version": "0.14"})
            ]
            trained = await client.post(
                "/v1/memory/training",
                json={
                    "model": "llama-3.1-8b",
                    "accelerator": "h100-sxm",
                    "training": {"framework": "acme"},
                    "include": ["deployment"],
                },
            )
            listed = await client.get("/v1/engines", params={"q": "acme"})
            document = await client.get("/openapi.json")
    acme, vllm = (answer.json() for answer in answers)
    assert acme["deployment"]["serving"]["engine"] == "acme-serve"
    # What vLLM's generations do otherwise than vLLM is not taken for Acme's.
    acme_bytes, vllm_bytes = (one["memory"]["total_bytes"]["value"] for one in (acme, vllm))
    assert acme_bytes == pytest.approx(vllm_bytes, rel=0.01)
    # Its own generations have constants of their own, which are not taken either.
    tpot_s, of_vllm_s = (one["latency"]["tpot_s"] for one in (acme, vllm))
    assert tpot_s["value"] == pytest.approx(of_vllm_s["value"], rel=0.05)
    assert tpot_s["high"] > of_vllm_s["high"]
    assert any("those of vLLM are used" in one["message"] for one in acme["warnings"])
    assert trained.json()["deployment"]["training"]["framework"] == "acme-serve"
    assert [one["id"] for one in listed.json()["items"]] == ["acme-serve"]
    engine = document.json()["components"]["schemas"]["ServingRequest"]["properties"]["engine"][
        "anyOf"
    ][0]
    assert {"vllm", "sglang"} <= set(engine["examples"])
    assert "torchtitan" not in engine["examples"]
