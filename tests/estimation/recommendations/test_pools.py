"""Replicas divided into pools for prompts and for decoding, inside the search."""

import numpy as np
import pytest

from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.inference.search import search_candidates
from service.estimation.recommendations.inference.space import resolve_search
from service.estimation.recommendations.requests import RecommendationRequest

MODEL = "meta-llama/Llama-3.1-70B"


def asked(load, **changes):
    return RecommendationRequest.model_validate(
        {
            "model": MODEL,
            "workload": {"input_tokens": 8000, "output_tokens": 256, **load},
            "limits": {"ttft_s": 3.0, "tpot_s": 0.03},
            "search": {
                "accelerators": ["nvidia-h100-sxm-80gb", "nvidia-h200-sxm-141gb"],
                "regions": ["aws/us-east-1"],
                "placement": "anywhere",
                "precisions": ["fp8"],
                "disaggregated": True,
            },
        }
        | changes
    )


LOADS = ({"requests_per_s": 4.0}, {"concurrency": 48}, {})


@pytest.mark.parametrize("load", LOADS)
def test_each_divided_candidate_is_what_a_single_estimate_says(packaged_snapshot, load):
    search = resolve_search(asked(load), packaged_snapshot)
    (rows,) = search_candidates(search).by_model
    pooled = np.flatnonzero(rows.pooled)
    assert len(pooled) >= 4
    for row in pooled:
        layout = search.spaces[0].layouts[rows.layout[row]]
        precision = search.spaces[0].precisions[rows.precision[row]]
        in_flight = round(float(rows.concurrency_per_replica[row] * rows.replicas[row]))
        estimate = inference_estimate(
            InferenceRequest.model_validate(
                {
                    "model": MODEL,
                    "accelerator": search.accelerators[rows.offer[row]].id,
                    "accelerator_count": int(rows.accelerators[row]),
                    "precision": {
                        "weights": precision.weights.id,
                        "kv_cache": precision.kv_cache.id,
                    },
                    "parallelism": {
                        "tensor": layout.tensor,
                        "pipeline": layout.pipeline,
                        "expert": layout.expert,
                        "data": int(rows.replicas[row]),
                    },
                    "region": "aws/us-east-1",
                    "workload": {
                        "input_tokens": 8000,
                        "output_tokens": 256,
                        "concurrency": in_flight,
                        **load,
                    },
                    "serving": {"disaggregated": {}},
                }
            ),
            packaged_snapshot,
        )
        latency = estimate["latency"]
        # An estimate tells what pools that keep up do; far below saturation all of them do.
        near = "requests_per_s" in load
        told_s = latency["ttft_s"]["value"]
        assert rows.ttft_s[row] == pytest.approx(told_s, rel=1e-3 if near else 1e-9)
        assert rows.tpot_s[row] == pytest.approx(latency["tpot_s"]["value"], rel=1e-9)
        it_wh = estimate["energy"]["it_energy_per_request_wh"]["value"]
        assert rows.it_wh[row] == pytest.approx(it_wh, rel=1e-9)


def test_a_divided_choice_is_its_own_request(packaged_snapshot):
    chosen = [
        choice
        for load in LOADS
        for choice in recommendation_answer(asked(load), packaged_snapshot)["choices"]
        if choice["candidate"]["disaggregated"]
    ]
    assert chosen
    for choice in chosen:
        assert choice["request"]["serving"]["disaggregated"] is not None
        again = inference_estimate(
            InferenceRequest.model_validate(choice["request"]), packaged_snapshot
        )
        assert again["latency"] == choice["estimate"]["latency"]
        assert choice["candidate"]["tpot_s"] == again["latency"]["tpot_s"]["value"]
        assert any("disaggregated serving" in note for note in choice["start"]["notes"])


def test_pools_that_are_tried_take_no_undivided_candidate_away(packaged_snapshot):
    plain = asked({"concurrency": 48})
    search = plain.search.model_copy(update={"disaggregated": False})
    without = resolve_search(plain.model_copy(update={"search": search}), packaged_snapshot)
    beside = resolve_search(plain, packaged_snapshot)
    (few,), (many,) = search_candidates(without).by_model, search_candidates(beside).by_model
    assert not few.pooled.any()
    kept = many.chosen(np.flatnonzero(~many.pooled))
    assert np.array_equal(kept.e2e_s, few.e2e_s)


def test_the_best_pools_are_those_of_brute_force(packaged_snapshot):
    accelerator, most = "nvidia-h100-sxm-80gb", 16
    search = {
        "accelerators": [accelerator],
        "regions": ["aws/us-east-1"],
        "placement": "anywhere",
        "precisions": ["fp8"],
        "kv_caches": ["bf16"],
        "disaggregated": True,
        "max_accelerators": most,
    }
    resolved = resolve_search(asked({"requests_per_s": 4.0}, search=search), packaged_snapshot)
    (rows,) = search_candidates(resolved).by_model
    keeps = rows.pooled & (rows.missing_replicas <= 0.0) & (rows.ttft_s <= 3.0)
    found = {
        (resolved.spaces[0].layouts[rows.layout[row]].tensor, int(rows.replicas[row]))
        for row in np.flatnonzero(keeps)
    }

    def latency_of(tensor, replicas, rate):
        return inference_estimate(
            InferenceRequest.model_validate(
                {
                    "model": MODEL,
                    "accelerator": accelerator,
                    "accelerator_count": tensor * replicas,
                    "precision": {"weights": "fp8", "kv_cache": "bf16"},
                    "parallelism": {"tensor": tensor, "data": replicas},
                    "region": "aws/us-east-1",
                    "workload": {
                        "input_tokens": 8000,
                        "output_tokens": 256,
                        "requests_per_s": rate,
                    },
                    "serving": {"disaggregated": {}},
                }
            ),
            packaged_snapshot,
        )["latency"]

    # A fifth of what holds the limits stays free: they are kept at 5 requests a second, too.
    fewest = {}
    for tensor in (2, 4, 8):
        for replicas in range(2, most // tensor + 1):
            latency = latency_of(tensor, replicas, 5.0)
            first, each = latency["ttft_s"], latency["tpot_s"]
            if first is not None and first["value"] <= 3.0 and each["value"] <= 0.03:
                fewest.setdefault(tensor, replicas)
    best = min(tensor * replicas for tensor, replicas in fewest.items())
    assert found
    assert found <= set(fewest.items())
    assert min(tensor * replicas for tensor, replicas in found) == best
