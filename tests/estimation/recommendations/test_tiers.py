"""Memory beside the machine in decisions: money and making count, what is empty is not bought."""

import pytest

from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest


def served(snapshot, usd_per_gb, **search):
    """A 70B model in 16 bit for four people on hardware of one's own."""
    expander = {"tier": "cxl-2.0-ddr5-direct", "units": 4, "price_usd_per_gb": usd_per_gb}
    body = {
        "model": "llama-3.1-70b",
        "workload": {"input_tokens": 512, "output_tokens": 128, "concurrency": 4},
        "limits": {"implied": False},
        "search": {
            "accelerators": ["nvidia-h200-sxm-141gb", "nvidia-l40s-48gb"],
            "regions": ["country/SE"],
            "where": "owned",
            "precisions": ["bf16"],
            "max_accelerators": 4,
            **search,
        },
        "serving": {"memory_tiers": [expander]},
    }
    answer = recommendation_answer(RecommendationRequest.model_validate(body), snapshot)
    return {name: one for one in answer["choices"] for name in one["priorities"]}


def test_a_choice_pays_for_the_memory_that_it_uses_and_for_no_other(packaged_snapshot):
    choices = served(packaged_snapshot, 20.0)
    assert choices["smallest"]["candidate"]["uses_memory_tiers"]
    assert not choices["cheapest"]["candidate"]["uses_memory_tiers"]
    for choice in choices.values():
        figures, estimate = choice["candidate"], choice["estimate"]
        owned = estimate["cost"]["owned"]
        used = figures["uses_memory_tiers"]
        assert ("memory_tiers_usd_per_hour" in owned) == used
        assert (
            "serving" in choice["request"] and "memory_tiers" in choice["request"]["serving"]
        ) == used
        # What candidates are ranked by is what estimates state, making of the memory included.
        cost = owned["usd_per_million_output_tokens"]["value"]
        carbon = estimate["impacts"]["per_1k_tokens"]["carbon"]["total_gco2e"]["value"]
        assert figures["metrics"]["cost"] == pytest.approx(cost)
        assert figures["metrics"]["carbon"] == pytest.approx(carbon)


def test_dearer_memory_is_ranked_as_dearer(packaged_snapshot):
    cheap, dear = (
        served(packaged_snapshot, usd, accelerators=["nvidia-l40s-48gb"], max_accelerators=2)
        for usd in (1.0, 2000.0)
    )
    cost = [one["cheapest"]["candidate"]["metrics"]["cost"] for one in (cheap, dear)]
    assert cost[1] > 10.0 * cost[0]


def run(snapshot, usd_per_gb):
    tier = {"tier": "cxl-2.0-ddr5-direct", "units": 8, "price_usd_per_gb": usd_per_gb}
    trained = {"tokens": 1e8, "sequence_length": 2048, "offload": True, "memory_tier": tier}
    body = {
        "model": "llama-3.1-70b",
        "training": {**trained, "host_memory_bytes": 1e9},
        "search": {
            "accelerators": ["nvidia-h100-sxm-80gb"],
            "regions": ["country/SE"],
            "where": "owned",
            "max_accelerators": 8,
        },
    }
    asked = TrainingRecommendationRequest.model_validate(body)
    return training_recommendation_answer(asked, snapshot)["choices"][0]


def test_runs_pay_for_their_tier_and_take_drives_where_it_is_too_dear(packaged_snapshot):
    choice = run(packaged_snapshot, 20.0)
    assert choice["candidate"]["training"]["offload_optimizer"] == "tier"
    owned = choice["estimate"]["cost"]["owned"]
    assert owned["memory_tiers_usd_per_hour"]["value"] > 0.0
    assert choice["candidate"]["metrics"]["cost"] == pytest.approx(owned["usd_run"]["value"])
    assert choice["candidate"]["usd_per_hour"] == pytest.approx(owned["usd_per_hour"]["value"])
    emitted = choice["estimate"]["impacts"]["run"]["carbon"]["total_gco2e"]["value"]
    assert choice["candidate"]["metrics"]["carbon"] == pytest.approx(emitted / 1000.0)
    dearer = run(packaged_snapshot, 2000.0)
    assert dearer["candidate"]["training"]["offload_optimizer"] == "nvme"
