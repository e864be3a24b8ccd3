"""What one person buys, and machines that have too few accelerators for a group."""

from __future__ import annotations

import re
from typing import Any

from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest

ALONE = {"input_tokens": 500, "output_tokens": 300, "concurrency": 1}


def codes(snapshot: Any, **asked: Any) -> dict[str, str]:
    body = {"model": "llama-3.1-8b", "accelerator": "rtx-5090", "region": "country/US"} | asked
    found = inference_estimate(InferenceRequest.model_validate(body), snapshot)["warnings"]
    return {one["code"]: one["message"] for one in found}


def test_the_cost_of_a_token_says_at_which_use_it_holds(packaged_snapshot):
    told = codes(packaged_snapshot, workload=ALONE)["always_in_use"]
    assert "day and night" in told
    # Twelve times as much is lost in value for each token at two hours a day, electricity apart.
    always, seldom = (float(amount) for amount in re.findall(r"([\d.]+) USD", told))
    assert 2.0 * always < seldom < 12.0 * always
    at_a_rate = {"input_tokens": 500, "output_tokens": 300, "requests_per_s": 0.01}
    assert "always_in_use" not in codes(packaged_snapshot, workload=at_a_rate)
    assert "always_in_use" not in codes(packaged_snapshot, accelerator="h100-sxm", workload=ALONE)
    body = {
        "model": "llama-3.1-8b",
        "workload": ALONE,
        "limits": {"implied": False},
        "search": {"accelerators": ["rtx-5090"], "regions": ["country/US"]},
    }
    answer = recommendation_answer(RecommendationRequest.model_validate(body), packaged_snapshot)
    assert "always_in_use" in {one["code"] for one in answer["warnings"]}


def test_a_group_that_no_listed_machine_holds_is_said(packaged_snapshot):
    rented = {"accelerator": "mi300x", "region": "digitalocean/tor1", "workload": ALONE}
    divided = codes(packaged_snapshot, **rented, parallelism={"tensor": 4})
    assert "share a machine" in divided["instance_divides_group"]
    assert "instance_divides_group" not in codes(packaged_snapshot, **rented)
    # Instances of racks are whole machines of four, whose links join them.
    rack = rented | {"accelerator": "gb200", "region": "oci/us-ashburn-1"}
    assert "instance_divides_group" not in codes(
        packaged_snapshot, **rack, parallelism={"tensor": 8}
    )


def test_no_model_is_divided_among_laptops(packaged_snapshot):
    body = {
        "model": "qwen3-30b-a3b",
        "workload": ALONE,
        "limits": {"implied": False},
        "search": {"where": "laptop", "regions": ["country/GB"]},
        "include": ["front"],
    }
    answer = recommendation_answer(RecommendationRequest.model_validate(body), packaged_snapshot)
    assert answer["choices"]
    for one in (*answer["front"], *(choice["candidate"] for choice in answer["choices"])):
        layout = one["parallelism"]
        assert layout["tensor"] * layout["pipeline"] * layout["expert"] == 1


def test_no_run_is_divided_among_workstations(packaged_snapshot):
    def found(**search):
        body = {
            "model": "llama-3.1-8b",
            "training": {"tokens": 5e7, "sequence_length": 2048, "methods": ["lora", "full"]},
            "search": {
                "accelerators": ["nvidia-rtx-pro-6000-blackwell-max-q-96gb"],
                "regions": ["country/US"],
                **search,
            },
            "include": ["front"],
        }
        asked = TrainingRecommendationRequest.model_validate(body)
        return training_recommendation_answer(asked, packaged_snapshot)

    mine = found(where="workstation")
    assert mine["choices"]
    assert max(one["accelerator_count"] for one in mine["front"]) <= 4
    # Where nobody says that they stand on desks, they may be servers' cards. Groups that exchange
    # activations stay within a machine all the same.
    joined = found()
    assert max(one["accelerator_count"] for one in joined["front"]) > 4
    assert max(one["parallelism"]["tensor"] for one in joined["front"]) <= 4


def test_the_cost_of_a_run_says_what_it_takes_to_have_it(packaged_snapshot):
    body = {
        "model": "llama-3.1-70b",
        "training": {"tokens": 1e8, "sequence_length": 2048, "methods": ["qlora"]},
        "search": {"accelerators": ["rtx-5090", "h100-pcie"], "where": ["workstation", "owned"]},
    }
    asked = TrainingRecommendationRequest.model_validate(body)
    answer = training_recommendation_answer(asked, packaged_snapshot)
    of_desk = {
        choice["candidate"]["accelerator"]: one["message"]
        for choice in answer["choices"]
        for one in choice["estimate"]["warnings"]
        if one["code"] == "always_in_use"
    }
    assert set(of_desk) == {"nvidia-rtx-5090-32gb"}
    share, purchase = (
        float(amount.replace(",", ""))
        for amount in re.findall(r"([\d.,]+) USD", of_desk["nvidia-rtx-5090-32gb"])
    )
    # Some weeks of five years.
    assert purchase > 500.0 * share
    assert any(one["code"] == "always_in_use" for one in answer["warnings"])


def test_a_run_takes_machines_not_single_cards(packaged_snapshot):
    """What one accelerator each is rented for is no price of eight that exchange gradients."""
    run = {
        "model": "llama-3.1-8b",
        "accelerator": "b200",
        "accelerator_count": 8,
        "parallelism": {"data": 8},
        "region": "verda/FIN-01",
        "training": {"sequence_length": 4096, "zero_stage": 1},
    }

    def told(**changes):
        asked = EstimateTrainingRequest.model_validate(run | changes)
        found = training_estimate(asked, packaged_snapshot)["warnings"]
        return {one["code"]: one["message"] for one in found}

    assert "8 accelerators of a run have to share" in told()["instance_divides_group"]
    alone = told(accelerator_count=1, parallelism={}, training={"sequence_length": 4096})
    assert "instance_divides_group" not in alone
    assert "instance_divides_group" not in told(region="aws/us-east-1", accelerator="h100-sxm")


def test_where_nothing_keeps_what_a_kind_implies_choices_are_told_without(packaged_snapshot):
    def found(**limits):
        body = {
            "model": "qwen3-32b",
            "workload": {"input_tokens": 2000, "output_tokens": 600, "concurrency": 1},
            "limits": limits,
            "search": {"accelerators": ["rtx-5090", "rtx-4090"], "where": "workstation"},
        }
        return recommendation_answer(RecommendationRequest.model_validate(body), packaged_snapshot)

    answer = found()
    (told,) = [one for one in answer["warnings"] if one["code"] == "implied_limits_left_out"]
    assert "limits.ttft_s of 0.15 s" in told["message"]
    assert answer["implied"] == []
    assert answer["choices"][0]["candidate"]["ttft_s"] > 0.15
    # A limit that was sent stays one, and what is nearest to it is told.
    sent = found(ttft_s=0.15)
    assert not sent["choices"]
    assert sent["least_violating"]
    assert "implied_limits_left_out" not in {one["code"] for one in sent["warnings"]}


def test_files_are_taken_as_they_are_published(packaged_snapshot):
    def tried(model: str) -> set[tuple[str, str, int]]:
        body = {
            "model": model,
            "workload": ALONE,
            "limits": {"implied": False},
            "search": {"where": "laptop", "regions": ["country/GB"]},
            "include": ["front"],
        }
        request = RecommendationRequest.model_validate(body)
        front = recommendation_answer(request, packaged_snapshot)["front"]
        return {
            (
                one["precision"]["weights"],
                one["weights_from"]["kind"],
                len(one["weights_from"]["quality_effects"]),
            )
            for one in front
        }

    # ggml-org/gpt-oss-20b-GGUF: 12.1 GB, experts as in the checkpoint and all else in Q8_0.
    assert {weights for weights, _, _ in tried("gpt-oss-20b")} == {"gguf-mxfp4"}
    # What was measured of the file in Q4_K_M is told of no other.
    measured = {"gguf-q4_k_m": 1, "gguf-q8_0": 0}
    found = tried("llama-3.1-8b")
    assert found
    for weights, kind, effects in found - {("bf16", "checkpoint", 0)}:
        assert (kind, effects) == ("release", measured[weights])
