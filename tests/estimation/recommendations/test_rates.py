"""Under a rate of requests, replicas are as many as single estimates say are needed."""

from math import ceil

import pytest

from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.inference.search import search_candidates
from service.estimation.recommendations.inference.space import resolve_search
from service.estimation.recommendations.requests import RecommendationRequest

ASKED = {
    "model": "meta-llama/Llama-3.1-8B",
    "workload": {"input_tokens": 1024, "output_tokens": 256, "requests_per_s": 40.0},
    "limits": {"ttft_s": 0.6, "tpot_s": 0.03, "percentile": "p95"},
    "search": {
        "accelerators": ["nvidia-h100-sxm-80gb", "nvidia-l40s-48gb"],
        "regions": ["aws/us-east-1"],
        "precisions": ["bf16"],
        "kv_caches": ["bf16"],
        "max_accelerators": 32,
        "placement": "anywhere",
    },
    "usd_per_accelerator_hour": {"nvidia-h100-sxm-80gb": 4.0, "nvidia-l40s-48gb": 1.5},
    "list_prices": False,
}


def asked(requests_per_s=40.0, percentile="p95", reserve_ratio=0.2):
    return RecommendationRequest.model_validate(
        ASKED
        | {"workload": ASKED["workload"] | {"requests_per_s": requests_per_s}}
        | {"limits": ASKED["limits"] | {"percentile": percentile}}
        | {"search": ASKED["search"] | {"reserve_ratio": reserve_ratio}}
    )


def cheapest(answer):
    return next(one for one in answer["choices"] if "cheapest" in one["priorities"])


@pytest.fixture(scope="module")
def answer(packaged_snapshot):
    return recommendation_answer(asked(), packaged_snapshot)


@pytest.mark.parametrize("percentile", ["mean", "p95"])
def test_replicas_are_what_the_goodput_of_one_asks_for(packaged_snapshot, percentile):
    search = resolve_search(asked(percentile=percentile), packaged_snapshot)
    (rows,) = search_candidates(search).by_model
    suffix = "" if percentile == "mean" else f"_{percentile}"
    counted = 0
    for offer in range(2):
        for layout, parallelism in enumerate(search.spaces[0].layouts[:3]):
            mine = (rows.offer == offer) & (rows.layout == layout) & (rows.missing_replicas == 0.0)
            kept = mine & (rows.held_ttft_s <= 0.6) & (rows.held_tpot_s <= 0.03)
            estimate = inference_estimate(
                InferenceRequest.model_validate(
                    {
                        "model": ASKED["model"],
                        "accelerator": search.accelerators[offer].id,
                        "parallelism": {
                            "tensor": parallelism.tensor,
                            "pipeline": parallelism.pipeline,
                        },
                        "region": "aws/us-east-1",
                        "workload": ASKED["workload"] | {"requests_per_s": 1.0},
                        "limits": {f"ttft{suffix}_s": 0.6, f"tpot{suffix}_s": 0.03},
                    }
                ),
                packaged_snapshot,
            )
            goodput = estimate["goodput"]["requests_per_s"]["value"]
            needed = ceil(40.0 / 0.8 / goodput) if goodput else None
            within = needed and needed * parallelism.replica_accelerators <= 32
            assert kept.any() == bool(within), (offer, parallelism)
            if within:
                assert rows.replicas[kept].min() == needed, (offer, parallelism)
                counted += 1
    assert counted >= 3


def test_choices_keep_the_percentile_with_the_reserve(packaged_snapshot, answer):
    assert answer["limits"]["percentile"] == "p95"
    assert answer["searched"]["reserve_ratio"] == 0.2
    for choice in answer["choices"]:
        load = choice["estimate"]["latency"]["load"]
        held = {row["name"]: row for row in choice["limits"]}
        for name in ("ttft_s", "tpot_s"):
            assert held[name]["value"] == load[name]["p95"]["value"]
            assert held[name]["verdict"] == "pass"
        # What holds the limits is a quarter more than what is asked.
        body = {**choice["request"], "limits": {"ttft_p95_s": 0.6, "tpot_p95_s": 0.03}}
        again = inference_estimate(InferenceRequest.model_validate(body), packaged_snapshot)
        assert again["goodput"]["requests_per_s"]["value"] >= 40.0 / 0.8 * 0.999
        assert {**again, "goodput": None}["latency"] == choice["estimate"]["latency"]


def test_a_higher_rate_a_higher_percentile_and_more_reserve_cost_no_less(packaged_snapshot, answer):
    def usd(**changes):
        found = recommendation_answer(asked(**changes), packaged_snapshot)
        return cheapest(found)["candidate"]["usd_per_hour"]

    base = cheapest(answer)["candidate"]["usd_per_hour"]
    rates = [usd(requests_per_s=rate) for rate in (0.5, 4.0)]
    assert rates == sorted(rates)
    assert rates[-1] <= base <= usd(requests_per_s=60.0)
    assert usd(percentile="mean") <= base <= usd(percentile="p99")
    assert usd(reserve_ratio=0.0) <= base <= usd(reserve_ratio=0.5)


def test_percentiles_need_arrivals():
    with pytest.raises(ValueError, match="requests_per_s"):
        RecommendationRequest.model_validate(
            ASKED | {"workload": {"input_tokens": 512, "output_tokens": 64, "concurrency": 4}}
        )


def test_what_does_not_wait_within_limits_says_what_would_have_to_change(packaged_snapshot):
    body = ASKED | {"limits": {"ttft_s": 0.001, "percentile": "p99"}}
    found = recommendation_answer(RecommendationRequest.model_validate(body), packaged_snapshot)
    assert found["choices"] == []
    changes = {one["limit"] for miss in found["least_violating"] for one in miss["must_change"]}
    assert "ttft_s" in changes


def test_a_rate_that_too_few_accelerators_carry_says_how_many_would(packaged_snapshot):
    found = recommendation_answer(asked(requests_per_s=5000.0), packaged_snapshot)
    assert found["choices"] == []
    assert {one["limit"] for one in found["excluded"]} >= {"max_accelerators"}
    nearest = found["least_violating"][0]
    changes = {one["limit"]: one for one in nearest["must_change"]}
    assert changes["max_accelerators"]["value"] == nearest["accelerator_count"] > 32
    assert "search.max_accelerators were " in nearest["in_words"]
    assert "divide the load" not in nearest["in_words"]
    # What no search takes is said with how far one goes.
    beyond = recommendation_answer(asked(requests_per_s=1e6), packaged_snapshot)
    assert "(a search takes 4096 at most: divide the load)" in str(beyond["least_violating"])
