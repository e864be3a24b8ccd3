from __future__ import annotations

import json
import re
from dataclasses import replace

import httpx
import pytest

from service.api.estimates import LINKED
from service.api.http.caching import entity_tag
from service.estimation.inference.answers import LatencyInferenceAnswer
from tests.api.conftest import MAIN, UNPLACED
from tests.api.shapes import validated

CONFIG_70B = {
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}


async def answer(client: httpx.AsyncClient, path: str, body: dict) -> dict:
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def walk(value):
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)


async def test_the_main_job_end_to_end(client):
    body = await answer(client, "/v1/estimates/inference", MAIN | {"explain": True})
    memory, latency, impacts = body["memory"], body["latency"], body["impacts"]
    # 70.55e9 parameters in two bytes over the ranks, and a table of positions on each. The
    # vocabulary divides evenly.
    ranks = body["deployment"]["parallelism"]["tensor"]
    assert ranks == 4
    held = 2 * 70_553_706_496 / ranks + 2 * 131_072 * 128
    assert memory["weights_bytes"]["value"] == pytest.approx(held, rel=5e-4)
    assert memory["kv_cache_bytes_per_token"] == 327_680 / ranks
    assert memory["fits"] is True
    assert 0.01 < latency["tpot_s"]["value"] < 0.06
    assert 0.05 < latency["ttft_s"]["value"] < 1.0
    assert latency["decode"]["bottleneck"] in ("memory_bandwidth", "interconnect", "overhead")
    request = impacts["per_request"]
    energy = request["it_energy_kwh"]["value"]
    assert request["facility_energy_kwh"]["value"] > energy
    assert 0.1 < energy * 1000 < 5
    assert request["carbon"]["operational_location_gco2e"]["value"] > 0
    assert request["water"]["total_l"]["value"] > 0
    assert body["explanation"]
    assert body["provenance"]["entries"]


async def test_every_estimated_figure_is_an_ordered_interval(client):
    body = await answer(client, "/v1/estimates/inference", MAIN)
    intervals = [part for part in walk(body) if set(part) == {"value", "low", "high"}]
    assert len(intervals) > 60
    for part in intervals:
        assert part["low"] <= part["value"] <= part["high"]


async def test_figures_of_the_answer_are_figures_of_the_steps(client):
    body = await answer(client, "/v1/estimates/inference", MAIN | {"explain": True})
    values = [step["value"] for step in body["explanation"]]
    for figure in (
        body["memory"]["weights_bytes"],
        body["memory"]["kv_cache_bytes"],
        body["memory"]["total_bytes"],
        body["latency"]["ttft_s"],
        body["latency"]["tpot_s"],
        body["energy"]["it_power_w"],
        body["impacts"]["per_request"]["carbon"]["operational_location_gco2e"],
        body["impacts"]["per_request"]["water"]["total_l"],
    ):
        assert figure["value"] in values
    assert all(step["source"] for step in body["explanation"])


@pytest.mark.parametrize("operation", LINKED, ids=lambda operation: operation.name)
async def test_every_example_is_answered_as_declared(client, operation):
    examples = operation.request.model_json_schema()["examples"]
    for example in examples:
        for explain in (False, True):
            body = await answer(client, f"/v1{operation.path}", example | {"explain": explain})
            validated(operation.answer, body)
            assert ("explanation" in body) == explain


async def test_a_pasted_config_is_the_catalog_model(client):
    named = await answer(client, "/v1/memory/inference", UNPLACED)
    pasted = await answer(
        client, "/v1/memory/inference", UNPLACED | {"model": {"config": CONFIG_70B}}
    )
    assert pasted["weights_bytes"] == named["weights_bytes"]
    assert pasted["kv_cache_bytes"] == named["kv_cache_bytes"]


async def test_the_files_of_a_checkpoint_may_hold_more_than_its_config_says(client):
    plain = await answer(
        client, "/v1/memory/inference", UNPLACED | {"model": {"config": CONFIG_70B}}
    )
    index = {"metadata": {"total_size": 141_107_412_992 + 8_000_000_000}, "weight_map": {}}
    model = {"config": CONFIG_70B, "safetensors_index": index}
    more = await answer(client, "/v1/memory/inference", UNPLACED | {"model": model})
    added = more["weights_bytes"]["value"] - plain["weights_bytes"]["value"]
    assert added == pytest.approx(8e9, rel=0.001)
    assert "checkpoint_holds_more" in {warning["code"] for warning in more["warnings"]}


async def test_an_inline_accelerator_and_region_do_without_the_catalog(client):
    body = await answer(
        client,
        "/v1/estimates/inference",
        MAIN
        | {
            "accelerator": {
                "name": "Prototype",
                "family": "nvidia-hopper",
                "figures": {
                    "memory_bytes": 100e9,
                    "memory_bandwidth_bytes_per_s": 4e12,
                    "peak_bf16_flops_per_s": 1e15,
                    "scale_up_bandwidth_bytes_per_s": 450e9,
                    "thermal_design_power_w": 700,
                },
            },
            "region": {
                "parent": "country/FR",
                "figures": {"pue_ratio": 1.2, "grid_gco2e_per_kwh": 50},
            },
        },
    )
    request = body["impacts"]["per_request"]
    kwh = request["facility_energy_kwh"]["value"]
    assert kwh == pytest.approx(1.2 * request["it_energy_kwh"]["value"])
    assert request["carbon"]["operational_location_gco2e"]["value"] == pytest.approx(50 * kwh)
    assert request["carbon"]["embodied_gco2e"] is None
    assert any(warning["code"] == "unknown_factor" for warning in body["warnings"])


async def test_a_query_asks_what_a_body_asks(client):
    posted = await client.post("/v1/estimates/inference", json=MAIN)
    got = await client.get(
        "/v1/estimates/inference",
        params={
            "model": "meta-llama/Llama-3.1-70B",
            "weights": "bf16",
            "accelerator": "nvidia-h100-sxm-80gb",
            "accelerator_count": 8,
            "region": "aws/eu-north-1",
            "input_tokens": 2048,
            "output_tokens": 256,
            "concurrency": 32,
        },
    )
    assert got.status_code == 200
    assert got.content == posted.content


async def test_a_query_reaches_objects_within_objects(client):
    plain = {"model": "llama-3.1-70b", "accelerator": "h100", "accelerator_count": 8}
    speculative = {"draft_model": "llama-3.1-8b", "draft_precision": {"weights": "fp8"}}
    posted = await client.post(
        "/v1/memory/inference", json=plain | {"serving": {"speculative": speculative}}
    )
    spelled = {
        "speculative_draft_model": "llama-3.1-8b",
        "speculative_draft_precision_weights": "fp8",
    }
    got = await client.get("/v1/memory/inference", params=plain | spelled)
    assert got.status_code == 200
    assert got.content == posted.content


async def test_links_spell_every_parameter_that_is_described(client):
    document = (await client.get("/openapi.json")).json()
    listing = set()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            lists = {}
            for parameter in operation.get("parameters", ()):
                schema = parameter["schema"]
                assert schema.get("type") != "object", parameter
                if schema.get("type") == "array":
                    assert (parameter["style"], parameter["explode"]) == ("form", False)
                    named = schema["items"].get("$ref", "").rpartition("/")[2]
                    one = document["components"]["schemas"][named] if named else schema["items"]
                    assert one["type"] in ("string", "number"), parameter
                    lists[parameter["name"]] = ",".join(one.get("enum", ("1", "2"))[:2])
            if lists:
                response = await client.get(path.format(kind="csrd"), params=lists)
                assert not re.search("valid (list|tuple|number)", response.text), (path, lists)
                listing |= set(lists)
    assert {"include", "tiers", "sequence_lengths_shares"} <= listing


async def test_the_same_question_gives_the_same_bytes(client):
    first = await client.post("/v1/estimates/inference", json=MAIN | {"explain": True})
    again = await client.post("/v1/estimates/inference", json=MAIN | {"explain": True})
    assert first.content == again.content


async def test_a_link_is_answered_once_and_then_only_confirmed(client):
    link = "/v1/memory/inference?model=llama-3.1-8b&accelerator=nvidia-l4-24gb"
    first = await client.get(link)
    tag = first.headers["etag"]
    assert "max-age" in first.headers["cache-control"]
    for held in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        again = await client.get(link, headers={"If-None-Match": held})
        assert again.status_code == 304
        assert again.content == b""
        assert again.headers["etag"] == tag
    lines = [("If-None-Match", '"other"'), ("If-None-Match", tag)]
    assert (await client.get(link, headers=lines)).status_code == 304
    other = await client.get(link, headers={"If-None-Match": '"other"'})
    assert other.content == first.content


async def test_nothing_is_confirmed_that_does_not_exist(client):
    link = "/v1/memory/inference?model=llama-3.1-8b&accelerator=nvidia-l5"
    response = await client.get(link, headers={"If-None-Match": "*"})
    assert response.status_code == 422


def test_a_tag_stands_for_one_revision(packaged_snapshot):
    later = replace(packaged_snapshot, revision=packaged_snapshot.revision + 1)
    assert entity_tag(later, "/path", "{}") != entity_tag(packaged_snapshot, "/path", "{}")
    assert entity_tag(later, "/path", "{}") == entity_tag(later, "/path", "{}")
    assert entity_tag(later, "/path", "{ }") != entity_tag(later, "/path", "{}")


async def test_a_model_that_does_not_fit_is_an_answer_with_a_way_out(client):
    body = await answer(
        client,
        "/v1/estimates/inference",
        MAIN | {"accelerator": "nvidia-l4-24gb", "accelerator_count": 1},
    )
    memory = body["memory"]
    assert memory["fits"] is False
    assert memory["shortfall_bytes"]["value"] > 100e9
    assert memory["headroom_bytes"]["value"] < 0
    assert any(warning["code"] == "does_not_fit" for warning in body["warnings"])
    fitting = [change for change in memory["would_help"] if change["fits"]]
    assert fitting
    assert memory["would_help"][0]["fits"]
    assert any("accelerators" in change["change"] for change in fitting)
    verdicts = {limit["name"]: limit["verdict"] for limit in body["constraints"]}
    assert verdicts["memory_per_accelerator"] == "fail"


async def test_energy_alone_gives_its_footprint(client):
    body = await answer(
        client,
        "/v1/impacts",
        {
            "energy_kwh": 1_287_000,
            "region": {"figures": {"grid_gco2e_per_kwh": 429, "pue_ratio": 1.0}},
        },
    )
    carbon = body["impacts"]["period"]["carbon"]
    assert carbon["operational_location_gco2e"]["value"] / 1e6 == pytest.approx(552, rel=0.005)
    assert carbon["operational_market_gco2e"] is None


async def test_a_rate_past_saturation_is_an_answer(client):
    body = await answer(
        client,
        "/v1/latency/inference",
        UNPLACED | {"workload": {"input_tokens": 1000, "requests_per_s": 10_000}},
    )
    assert body["load"]["saturated"] is True
    assert body["load"]["ttft_s"] is None
    assert body["requests_per_s"]["value"] < 10_000
    assert any(warning["code"] == "saturated" for warning in body["warnings"])


async def test_a_rate_gives_percentiles(client):
    body = await answer(
        client,
        "/v1/latency/inference",
        UNPLACED | {"workload": {"input_tokens": 1000, "requests_per_s": 2.0}},
    )
    percentiles = body["load"]["ttft_s"]
    assert percentiles["p50"]["value"] <= percentiles["p95"]["value"] <= percentiles["p99"]["value"]
    validated(LatencyInferenceAnswer, body)


async def test_provenance_names_a_source_for_every_used_figure(client):
    body = await answer(client, "/v1/estimates/inference", MAIN)
    collections = {entry["collection"] for entry in body["provenance"]["entries"]}
    own = {"models", "accelerators", "platforms", "regions", "instances", "calibrations"}
    assert collections == own
    for entry in body["provenance"]["entries"]:
        known = {source["id"] for source in entry["sources"]}
        assert {figure["source"] for figure in entry["figures"]} <= known


async def test_figures_inherited_by_a_region_say_where_they_stand(client):
    body = await answer(client, "/v1/estimates/inference", MAIN)
    entries = body["provenance"]["entries"]
    region = next(entry for entry in entries if entry["collection"] == "regions")
    origins = {figure["name"]: figure["entry"] for figure in region["figures"]}
    assert origins["grid_gco2e_per_kwh"] == "regions/country/SE"
    assert origins["pue_ratio"] == "regions/aws/eu-north-1"


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "transformers", "llama.cpp"])
async def test_every_engine_is_answered(client, engine):
    body = await answer(client, "/v1/estimates/inference", MAIN | {"serving": {"engine": engine}})
    assert body["latency"]["tpot_s"]["value"] > 0


async def test_every_catalog_model_and_accelerator_can_be_asked_about(client, app):
    snapshot = app.state.shared.store.snapshot
    for model in snapshot.models:
        body = {"model": model, "accelerator": "amd-mi300x-192gb", "accelerator_count": 8}
        await answer(client, "/v1/latency/inference", body)
    refused = []
    for accelerator in snapshot.accelerators:
        body = {"model": "llama-3.1-8b", "accelerator": accelerator, "region": "country/SE"}
        response = await client.post("/v1/estimates/inference", json=body)
        if response.status_code != 200:
            refused.append((accelerator, json.loads(response.content)["detail"]))
    # Announced with nothing said of how fast they multiply in 16 bit.
    announced = {
        *("amd-mi430x-432gb", "nvidia-rubin-cpx-128gb"),
        *("huawei-ascend-950dt-144gb", "huawei-ascend-950pr-112gb"),
        *("qualcomm-snapdragon-x2-elite-32gb", "qualcomm-snapdragon-x2-elite-extreme-48gb"),
    }
    assert announced <= {name for name, _ in refused}
    # Parts that only their maker's own software runs on, of which nothing was published to fit to.
    alone = [(name, detail) for name, detail in refused if name not in announced]
    assert {name.partition("-")[0] for name, _ in alone} == {
        *("aws", "cerebras", "groq", "intel", "microsoft", "qualcomm", "sambanova", "tenstorrent"),
    }
    for _, detail in alone:
        assert "does not run on" in detail


async def test_inference_overtakes_training_on_the_published_day(client):
    body = await answer(
        client,
        "/v1/projections",
        {"training_kgco2e": 550_000, "requests_per_day": 700e6, "gco2e_per_request": 0.15},
    )
    assert body["crossover_days"]["value"] == pytest.approx(5.24, rel=0.005)
    assert body["series"][0]["inference_kgco2e"]["value"] == 0
    assert body["series"][-1]["day"] == 365
    link = "/v1/projections?training_kgco2e=550000&requests_per_day=7e8&gco2e_per_request=0.15"
    assert (await client.get(link)).json()["crossover_days"] == body["crossover_days"]
    shrinking = await answer(
        client,
        "/v1/projections",
        {
            "training_kgco2e": 550_000,
            "requests_per_day": 1e6,
            "gco2e_per_request": 0.15,
            "growth_per_year_ratio": -2,
        },
    )
    assert shrinking["crossover_days"] is None
    assert shrinking["warnings"][0]["code"] == "never_crosses"


async def test_a_cooling_tower_stands_in_for_a_water_figure(client):
    region = {
        "figures": {"pue_ratio": 1.2},
        "cooling": {"wet_bulb_celsius": (70 - 32) / 1.8, "cycles_of_concentration": 6},
    }
    body = await answer(client, "/v1/impacts", {"energy_kwh": 1000, "region": region})
    litres = body["impacts"]["period"]["water"]["on_site_l"]["value"]
    assert litres == pytest.approx(4660, rel=0.005)


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        (
            {"serving": {"max_running_sequences": 1}, "workload": {"concurrency": 32}},
            "more_than_run_at_once",
            "Of 32 requests, the engine as it is started runs at most 1 at once",
        ),
        (
            {"precision": {"weights": "bf16", "group_size": 64}},
            "setting_unused",
            "Only int4, awq-int4, awq-int4-gemv, gptq-int4 take a group_size",
        ),
    ],
)
async def test_settings_that_limit_or_change_nothing_are_said(client, changes, code, said):
    body = {"model": "llama-3.1-8b", "accelerator": "nvidia-h100-sxm-80gb"} | changes
    answer = (await client.post("/v1/estimates/inference", json=body)).json()
    assert any(
        one["code"] == code and one["message"].startswith(said) for one in answer["warnings"]
    )
