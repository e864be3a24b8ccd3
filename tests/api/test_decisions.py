"""Batches, comparisons and recommendations through HTTP."""

from __future__ import annotations

import csv
import io

import pytest

from service.estimation.comparison.answers import BatchAnswer, ComparisonAnswer
from service.estimation.recommendations.answers import RecommendationAnswer, WorkloadPage
from service.estimation.recommendations.requests import CompareRequest, RecommendationRequest
from service.estimation.recommendations.training.answers import TrainingRecommendationAnswer
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest
from tests.answers.whole import whole_body
from tests.api.conftest import MAIN
from tests.api.shapes import validated

RECOMMENDATION = {
    "model": "meta-llama/Llama-3.1-8B",
    "workload": {"input_tokens": 512, "output_tokens": 128, "requests_per_s": 4.0},
    "limits": {"ttft_s": 1.0, "tpot_s": 0.05},
    "search": {
        "accelerators": ["nvidia-h100-sxm-80gb", "nvidia-l40s-48gb"],
        "regions": ["aws/eu-north-1", "aws/us-east-1"],
        "max_accelerators": 4,
    },
}
COMPARISON = CompareRequest.model_json_schema()["examples"][0]


async def test_every_item_of_a_batch_is_answered_or_refused_by_itself(client):
    single = (await client.post("/v1/estimates/inference", json=MAIN)).json()
    body = {
        "requests": [
            MAIN,
            MAIN | {"accelerator": "nvidia-h100-smx-80gb"},
            {"model": 2**70},
            MAIN | {"region": "country/SE"},
        ]
    }
    response = await client.post("/v1/estimates/batch", json=body)
    assert response.status_code == 200, response.text
    answer = validated(BatchAnswer, response.json())
    first, unknown, broken, last = answer["items"]
    assert first["answer"] is not None
    assert response.json()["items"][0]["answer"] == single
    assert unknown["answer"] is None
    assert unknown["errors"][0]["pointer"] == "/accelerator"
    assert "nvidia-h100-sxm-80gb" in unknown["errors"][0]["detail"]
    assert {error["pointer"] for error in broken["errors"]} >= {"/model", "/accelerator"}
    assert last["answer"] is not None
    assert [item["index"] for item in answer["items"]] == [0, 1, 2, 3]


async def test_a_batch_may_hold_training_runs(client):
    run = {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 8,
        "region": "country/SE",
        "training": {"zero_stage": 3, "activation_checkpointing": "full"},
    }
    single = (await client.post("/v1/estimates/training", json=run)).json()
    response = await client.post("/v1/estimates/batch", json={"requests": [MAIN, run]})
    validated(BatchAnswer, response.json())
    assert response.json()["items"][1]["answer"] == single


@pytest.mark.parametrize("body", [{}, {"requests": []}, {"requests": [MAIN] * 1001}])
async def test_batches_are_bounded(client, body):
    assert (await client.post("/v1/estimates/batch", json=body)).status_code == 422


async def test_a_comparison_has_a_row_for_every_combination(client):
    response = await client.post("/v1/compare", json=COMPARISON)
    assert response.status_code == 200, response.text
    answer = validated(ComparisonAnswer, response.json())
    assert len(answer["rows"]) == 2 * 2 * 2
    by = {
        (row["accelerator"], row["weights"], row["region"]): row["results"]
        for row in answer["rows"]
    }
    h100 = by[("nvidia-h100-sxm-80gb", "bf16", "aws/eu-north-1")]
    h200 = by[("nvidia-h200-sxm-141gb", "bf16", "aws/eu-north-1")]
    # The same layout at the same load, from faster memory.
    assert h200["tpot_s"]["value"] < h100["tpot_s"]["value"]
    virginia = by[("nvidia-h100-sxm-80gb", "bf16", "aws/us-east-1")]
    assert virginia["ttft_s"] == h100["ttft_s"]
    assert (
        virginia["operational_gco2e_per_1k_tokens"]["value"]
        > h100["operational_gco2e_per_1k_tokens"]["value"]
    )


async def test_a_comparison_has_what_hardware_costs_rented_and_owned(client):
    owning = {"purchase_usd_per_accelerator": 30_000, "electricity_usd_per_kwh": 0.1}
    body = {
        "models": ["llama-3.1-8b"],
        "accelerators": ["nvidia-l40s-48gb", "nvidia-h100-sxm-80gb"],
        "regions": ["aws/us-east-1"],
        "cost": owning,
    }
    for row in (await client.post("/v1/compare", json=body)).json()["rows"]:
        alone = {name: row[name] for name in ("model", "accelerator", "region")} | {"cost": owning}
        cost = (await client.post("/v1/estimates/inference", json=alone)).json()["cost"]
        for basis in ("rented", "owned"):
            for unit in ("usd_per_hour", "usd_per_million_output_tokens"):
                assert row["results"][f"{basis}_{unit}"] == cost[basis][unit]


async def test_a_comparison_is_a_table_for_those_who_ask(client):
    body = COMPARISON | {"models": ["meta-llama/Llama-3.1-70B", "=no-such-model"]}
    response = await client.post("/v1/compare", json=body, headers={"Accept": "text/csv"})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert len(rows) == 16
    assert float(rows[0]["ttft_s_low"]) < float(rows[0]["ttft_s"]) < float(rows[0]["ttft_s_high"])
    # A spreadsheet must not run what a client sent.
    assert rows[-1]["model"] == "'=no-such-model"
    assert rows[-1]["ttft_s"] == ""
    assert "unknown id" in rows[-1]["errors"]


async def test_too_many_combinations_are_refused(client):
    body = COMPARISON | {"regions": ["country/SE"] * 300}
    response = await client.post("/v1/compare", json=body)
    assert response.status_code == 422
    assert "1200 combinations" in response.json()["detail"]


async def test_groups_of_a_comparison_are_their_regions(client):
    groups = (await client.get("/v1/region-groups")).json()["items"]
    meant = next(one["regions"] for one in groups if one["id"] == "nordics")
    body = {"models": ["llama-3.1-8b"], "accelerators": ["h100"], "regions": ["nordics"]}
    rows = (await client.post("/v1/compare", json=body)).json()["rows"]
    assert [row["region"] for row in rows] == meant
    spelt = (await client.post("/v1/compare", json=body | {"regions": meant})).json()["rows"]
    assert rows == spelt
    many = await client.post("/v1/compare", json=body | {"regions": ["europe", "asia"] * 10})
    assert many.status_code == 422
    assert many.json()["errors"][0]["pointer"] == "/regions"


async def test_recommendations_have_their_documented_shape(client):
    response = await client.post("/v1/recommendations", json=RECOMMENDATION)
    assert response.status_code == 200, response.text
    small = validated(RecommendationAnswer, response.json())
    assert len(response.content) <= 24_000
    body = whole_body(RECOMMENDATION, "/v1/recommendations")
    whole = (await client.post("/v1/recommendations", json=body)).json()
    answer = validated(RecommendationAnswer, whole)
    assert small["choices"][0].keys() < answer["choices"][0].keys()
    assert small["choices"][0]["figures"] == answer["choices"][0]["figures"]
    assert "balanced" in answer["choices"][0]["priorities"]
    assert answer["choices"][0]["estimate"]["memory"]["fits"]
    assert answer["front"]
    assert {entry["collection"] for entry in answer["provenance"]["entries"]} == {
        "models",
        "accelerators",
        "regions",
        "calibrations",
    }


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"model": "no-such-model"}, "/model"),
        ({"workload_kind": "llm-training"}, "/workload_kind"),
        ({"search": {"accelerators": ["h100-of-some-kind"]}}, "/search/accelerators/0"),
        ({"search": {"regions": ["atlantis"]}}, "/search/regions/0"),
        ({"search": {"precisions": ["int3"]}}, "/search/precisions/0"),
        ({"usd_per_accelerator_hour": {"abacus": 1.0}}, "/usd_per_accelerator_hour/abacus"),
        ({"weights": {"cost": 1.0}, "list_prices": False}, "/weights"),
        ({"weights": {"latency": -1.0}}, "/weights/latency"),
        ({"workload": {"requests_per_s": 1.0, "concurrency": 3}}, "/workload"),
        ({"limits": {"ttft_s": 0.0}}, "/limits/ttft_s"),
    ],
)
async def test_what_is_wrong_with_a_search_is_said(client, change, pointer):
    response = await client.post("/v1/recommendations", json=RECOMMENDATION | change)
    assert response.status_code == 422, response.text
    assert pointer in {error["pointer"] for error in response.json()["errors"]}


TRAINING = {
    "model": "llama-3.1-8b",
    "training": {"tokens": 1e9, "sequence_length": 4096, "methods": "full,lora"},
    "limits": {"days": 5},
    "search": {
        "accelerators": "nvidia-h100-sxm-80gb,amd-mi300x-192gb",
        "regions": ["aws/eu-north-1", "country/FR"],
        "max_accelerators": 16,
    },
}


CLOUDS = TRAINING["search"] | {"regions": ["aws/eu-north-1"]}


async def test_recommendations_of_training_have_their_documented_shape(client):
    [asked] = TrainingRecommendationRequest.model_config["json_schema_extra"]["examples"]
    documented = await client.post("/v1/recommendations/training", json=asked)
    assert len(documented.content) <= 24_000
    response = await client.post("/v1/recommendations/training", json=TRAINING)
    assert response.status_code == 200, response.text
    small = validated(TrainingRecommendationAnswer, response.json())
    assert len(response.content) <= 24_000
    body = whole_body(TRAINING, "/v1/recommendations/training")
    whole = (await client.post("/v1/recommendations/training", json=body)).json()
    answer = validated(TrainingRecommendationAnswer, whole)
    assert small["choices"][0]["figures"] == answer["choices"][0]["figures"]
    assert "balanced" in answer["choices"][0]["priorities"]
    assert answer["choices"][0]["estimate"]["memory"]["fits"]
    assert answer["front"]
    for accept, begins in (("text/html", b"<!doctype html>"), ("application/pdf", b"%PDF-")):
        report = await client.post(
            "/v1/recommendations/training", json=TRAINING, headers={"Accept": accept}
        )
        assert report.status_code == 200
        assert report.content.startswith(begins)


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"model": "no-such-model"}, "/model"),
        ({"model": "llama-3.1-8b", "models": ["llama-3.1-70b"]}, "/model"),
        ({"run": {"tokens": 1e9}}, "/training"),
        ({"training": {}}, "/training/tokens"),
        ({"training": {"tokens": 1e9, "methods": ["prayer"]}}, "/training/methods/0"),
        ({"training": {"tokens": 1e9, "optimizers": []}}, "/training/optimizers"),
        ({"limits": {"days": 0.0}}, "/limits/days"),
        ({"limits": {"tpot_s": 1.0}}, "/limits/tpot_s"),
        ({"search": {"precisions": ["bf16", "awq-int4"]}}, "/search/precisions/1"),
        ({"search": {"accelerators": ["h100-of-some-kind"]}}, "/search/accelerators/0"),
        ({"search": {"accelerator_counts": [0]}}, "/search/accelerator_counts/0"),
        ({"usd_per_accelerator_hour": {"abacus": 1.0}}, "/usd_per_accelerator_hour/abacus"),
        # In clouds alone, as what is bought has prices of its own.
        ({"weights": {"cost": 1.0}, "list_prices": False, "search": CLOUDS}, "/weights"),
    ],
)
async def test_what_is_wrong_with_a_search_of_training_is_said(client, change, pointer):
    response = await client.post("/v1/recommendations/training", json=TRAINING | change)
    assert response.status_code == 422, response.text
    assert pointer in {error["pointer"] for error in response.json()["errors"]}


async def test_the_matrix_is_served(client):
    response = await client.get("/v1/workloads")
    page = validated(WorkloadPage, response.json())
    assert len(page["items"]) == 6
    assert page["items"][0]["weights"]["cost"] == 0.40
    again = await client.get("/v1/workloads", headers={"If-None-Match": response.headers["etag"]})
    assert again.status_code == 304
    assert (await client.get("/v1/workloads?x=1")).status_code == 422


def test_a_request_names_one_model_or_several():
    with pytest.raises(ValueError, match="either model, or models"):
        RecommendationRequest(model="a", models=["b"])


@pytest.mark.parametrize(
    ("accept", "form", "begins"),
    [
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html", b"<!doctype html>"),
        ("application/pdf", "application/pdf", b"%PDF-"),
        ("*/*", "application/json", b"{"),
        ("application/pdf;q=0.1, application/json", "application/json", b"{"),
    ],
)
async def test_a_recommendation_is_a_report_for_those_who_want_one(client, accept, form, begins):
    response = await client.post(
        "/v1/recommendations", json=RECOMMENDATION, headers={"Accept": accept}
    )
    assert response.status_code == 200
    assert response.headers["content-type"].split(";")[0] == form
    assert response.content.startswith(begins)
    if form == "text/html":
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "style-src 'unsafe-inline'" in policy


async def test_a_report_has_no_other_forms(client):
    for accept in ("image/png", "application/pdf;q=0"):
        response = await client.post(
            "/v1/recommendations", json=RECOMMENDATION, headers={"Accept": accept}
        )
        assert response.status_code == 406
        assert "application/pdf" in response.json()["detail"]


@pytest.mark.parametrize(
    ("path", "changes", "pointer"),
    [
        (
            "recommendations/training",
            {
                "training": {"tokens": 1e9},
                "search": {"accelerator_counts": [128], "max_accelerators": 64},
            },
            "/search/accelerator_counts",
        ),
        ("recommendations", {"limits": {"percentile": "p95", "ttft_s": 1.0}}, "/limits/percentile"),
    ],
)
async def test_a_contradiction_points_at_the_field_it_begins_with(client, path, changes, pointer):
    body = {"model": "meta-llama/Llama-3.1-8B"} | changes
    response = await client.post(f"/v1/{path}", json=body)
    assert response.status_code == 422
    assert [one["pointer"] for one in response.json()["errors"]] == [pointer]
