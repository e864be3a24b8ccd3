"""Hardware of one's own, rules and sites: where it may stand, what it costs, what is left out."""

from __future__ import annotations

import re

import pytest

from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest
from service.estimation.rejection import Rejected

EDGE = {
    "model": "meta-llama/Llama-3.1-8B",
    "workload_kind": "edge",
    "workload": {"input_tokens": 512, "output_tokens": 128, "concurrency": 1},
    "search": {"max_accelerators": 1},
}
OWN = {
    "model": "meta-llama/Llama-3.1-8B",
    "workload_kind": "batch-inference",
    "workload": {"input_tokens": 512, "output_tokens": 128, "requests_per_s": 1.0},
    "search": {
        "accelerators": ["nvidia-rtx-4090-24gb", "nvidia-quadro-rtx-8000-48gb"],
        "regions": ["country/DE", "country/SE"],
        "where": ["workstation"],
        "precisions": ["bf16"],
        "kv_caches": ["bf16"],
        "max_accelerators": 2,
    },
    "ownership": {
        "purchase_usd_per_accelerator": {"nvidia-rtx-4090-24gb": 4000.0},
        "amortisation_years": 4.0,
    },
}


def answered(snapshot, body, **changes):
    return recommendation_answer(RecommendationRequest.model_validate(body | changes), snapshot)


@pytest.fixture(scope="module")
def edge(packaged_snapshot):
    return answered(packaged_snapshot, EDGE)


@pytest.fixture(scope="module")
def own(packaged_snapshot):
    return answered(packaged_snapshot, OWN)


def test_boards_are_bought_whole_and_what_idles_is_no_low_footprint(packaged_snapshot):
    """AMD sells boards of eight: one of them costs as much as all, and is not the smallest."""
    body = {
        "model": "meta-llama/Llama-3.1-8B",
        "workload": {"input_tokens": 1000, "output_tokens": 300, "concurrency": 4},
        "limits": {"ttft_s": 1.0, "tpot_s": 0.05},
        "search": {
            "accelerators": ["amd-mi300x-192gb"],
            "regions": ["country/FR"],
            "where": ["owned"],
            "max_accelerators": 8,
        },
    }
    answer = answered(packaged_snapshot, body)
    for choice in answer["choices"]:
        assert choice["estimate"]["cost"]["owned"]["accelerators"] == 8
        if {"lowest_carbon", "lowest_water"} & set(choice["priorities"]):
            assert choice["candidate"]["accelerator_count"] == 8


def test_a_rented_part_of_an_instance_is_no_low_footprint(packaged_snapshot):
    """AWS rents H200 by eights: what it draws beside the two in use is in no figure."""
    body = {
        "model": "meta-llama/Llama-3.1-70B",
        "workload": {"input_tokens": 1000, "output_tokens": 300, "requests_per_s": 1.0},
        "limits": {"ttft_s": 1.0, "tpot_s": 0.05},
        "search": {
            "accelerators": ["nvidia-h200-sxm-141gb"],
            "regions": ["aws/eu-north-1"],
            "max_accelerators": 8,
        },
    }
    answer = answered(packaged_snapshot, body)
    (lowest,) = [one for one in answer["choices"] if "lowest_carbon" in one["priorities"]]
    assert lowest["candidate"]["accelerator_count"] == 8


def test_the_edge_is_answered_with_devices_of_the_edge(edge, packaged_snapshot):
    assert edge["choices"]
    for one in edge["front"]:
        accelerator = packaged_snapshot.accelerators[one["accelerator"]].value
        assert accelerator.platform.kind in {"soc-board", "phone", "mini-pc", "laptop"}
        assert one["owned"]
    (implied,) = [one for one in edge["implied"] if one["field"] == "search.where"]
    assert implied["value"] == ["edge", "laptop"]
    assert "search.where" in implied["in_words"]
    assert "place_assumed" in {one["code"] for one in edge["warnings"]}
    assert {one["reason"] for one in edge["not_searched"]} == {"not_measured", "not_offered"}


def test_owning_costs_what_the_estimate_says(own):
    priced = [one for one in own["choices"] if one["candidate"]["usd_per_hour"] is not None]
    assert priced
    for choice in priced:
        candidate, owned = choice["candidate"], choice["estimate"]["cost"]["owned"]
        assert candidate["owned"]
        assert candidate["metrics"]["cost"] == pytest.approx(
            owned["usd_per_million_output_tokens"]["value"]
        )
        assert candidate["usd_per_hour"] == owned["usd_per_hour"]["value"]
        assert candidate["usd_per_month"] == pytest.approx(730.5 * candidate["usd_per_hour"])
        lost = candidate["accelerator_count"] * 4000.0 / (4.0 * 8766.0)
        assert owned["hardware_usd_per_hour"]["value"] == pytest.approx(lost)
        # What electricity costs depends on the place.
        assert candidate["usd_per_hour"] > lost
    unpriced = [one for one in own["front"] if one["accelerator"] == "nvidia-quadro-rtx-8000-48gb"]
    assert all(one["usd_per_hour"] is None and one["score_ratio"] is None for one in unpriced)


def test_a_budget_counts_the_electricity_of_ones_own(own, packaged_snapshot):
    cheapest = min(one["usd_per_hour"] for one in own["front"] if one["usd_per_hour"])
    lost = 4000.0 / (4.0 * 8766.0)
    assert lost < cheapest
    within = answered(packaged_snapshot, OWN, limits={"usd_per_hour": cheapest * 1.001})
    assert within["choices"]
    below = answered(packaged_snapshot, OWN, limits={"usd_per_month": lost * 730.5})
    assert not below["choices"]


@pytest.mark.parametrize(
    ("changes", "pointer", "named"),
    [
        ({"search": {"where": ["cloud"], "regions": ["country/DE"]}}, "/search/where", "regions"),
        (
            {"search": {"where": ["laptop"], "accelerators": ["nvidia-h100-sxm-80gb"]}},
            "/search/where",
            "accelerators",
        ),
        (
            {"limits": {"water_stress_ratio": 1e-9}, "search": {"regions": ["aws/eu-north-1"]}},
            "/limits/water_stress_ratio",
            "search.regions: aws/eu-north-1",
        ),
        (
            {
                "limits": {
                    "compliance": {"on": "2026-11-01", "require": "pass", "subject": "site"}
                },
                "search": {"regions": ["azure/germanywestcentral"]},
            },
            "/limits/compliance",
            "search.regions",
        ),
    ],
)
def test_contradictions_name_the_two_fields_sent(packaged_snapshot, changes, pointer, named):
    with pytest.raises(Rejected) as refused:
        answered(packaged_snapshot, EDGE | {"workload_kind": "batch-inference"}, **changes)
    (error,) = refused.value.errors
    assert error.pointer == pointer
    assert named in error.detail


SITE = {
    "model": "meta-llama/Llama-3.1-8B",
    "workload_kind": "sustainable",
    "workload": {"input_tokens": 512, "output_tokens": 128, "requests_per_s": 20.0},
    "search": {
        "accelerators": ["nvidia-l40s-48gb", "nvidia-h100-sxm-80gb"],
        "regions": ["nordics", "aws/us-east-1"],
        "precisions": ["bf16"],
        "kv_caches": ["bf16"],
        "max_accelerators": 8,
    },
}
NOISE = {"machine_sound_power_db": 85.0, "receptor_distance_m": 50.0}
LIMITS = {
    "water_stress_ratio": 0.2,
    "compliance": {"on": "2026-11-01", "subject": "site"},
    "site": {"facility_power_w": 20_000.0, "rack_kw": 5.0, "noise": NOISE | {"at_most_db": 60.0}},
}


def test_each_limit_of_a_site_removes_and_none_adds(packaged_snapshot):
    found = [answered(packaged_snapshot, SITE, limits={})]
    held: dict[str, object] = {}
    for name, value in LIMITS.items():
        held |= {name: value}
        found.append(answered(packaged_snapshot, SITE, limits=dict(held)))
    counts = [one["searched"]["candidates"] for one in found]
    assert counts == sorted(counts, reverse=True)
    last = found[-1]
    assert last["choices"]
    for choice in last["choices"]:
        rows = {row["name"]: row for row in choice["limits"]}
        assert {"compliance", "noise_db", "rack_kw", "facility_power_w"} <= set(rows)
        assert {row["verdict"] for row in rows.values()} == {"pass"}
        assert choice["request"]["compliance"]["on"] == "2026-11-01"
        assert choice["estimate"]["compliance"]["verdicts"]["fail"] == 0
    racks = [one for one in last["excluded"] if one["limit"] == "rack_kw"]
    assert racks
    assert racks[0]["nearest_value"] > racks[0]["threshold"]


def test_tightening_the_noise_that_is_heard_adds_no_survivor(packaged_snapshot):
    counts, levels = [], (60.0, 46.0, 30.0)
    for level in levels:
        limits = {"site": {"noise": NOISE | {"at_most_db": level}}}
        answer = answered(packaged_snapshot, SITE, limits=limits)
        counts.append(answer["searched"]["candidates"])
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == 0


def test_training_takes_the_same_limits(packaged_snapshot):
    body = {
        "model": "meta-llama/Llama-3.1-8B",
        "training": {"tokens": 1e8, "global_batch_size": 64},
        "limits": LIMITS | {"site": {"rack_kw": 50.0}, "usd_per_month": 1e6},
        "search": {
            "accelerators": ["nvidia-h100-sxm-80gb"],
            "regions": ["nordics", "country/SE"],
            "max_accelerators": 8,
        },
        "ownership": {
            "purchase_usd_per_accelerator": {"nvidia-h100-sxm-80gb": 30_000.0},
            "electricity_usd_per_kwh": 0.1,
        },
    }
    answer = training_recommendation_answer(
        TrainingRecommendationRequest.model_validate(body), packaged_snapshot
    )
    assert answer["choices"]
    for choice in answer["choices"]:
        rows = {row["name"]: row for row in choice["limits"]}
        assert {"compliance", "rack_kw", "usd_per_month", "water_stress_ratio"} <= set(rows)
        assert {row["verdict"] for row in rows.values()} == {"pass"}
        cost = choice["estimate"]["cost"]
        told = cost["owned" if choice["candidate"]["owned"] else "rented"]
        assert choice["candidate"]["metrics"]["cost"] == pytest.approx(told["usd_run"]["value"])
    assert {one["owned"] for one in answer["front"]} == {True, False}


def test_what_comes_closest_is_told_with_its_price_and_what_lets_it_in(packaged_snapshot):
    body = SITE | {"workload_kind": "batch-inference"}
    answer = answered(packaged_snapshot, body, limits={"usd_per_hour": 0.5})
    assert answer["choices"] == []
    near = answer["least_violating"][0]
    (change,) = near["must_change"]
    assert change["value"] == pytest.approx(near["usd_per_hour"])
    told = re.search(r"limits.usd_per_hour were ([0-9.]+) USD/h instead of 0.5", near["in_words"])
    assert told is not None
    assert float(told[1]) >= near["usd_per_hour"]
    relaxed = answered(packaged_snapshot, body, limits={"usd_per_hour": 2.0 * float(told[1])})
    assert relaxed["choices"]


def test_what_comes_closest_to_a_limit_on_carbon_emits_something(packaged_snapshot):
    answer = answered(packaged_snapshot, SITE, limits={"kgco2e_per_year": 1e-3})
    assert answer["choices"] == []
    for near in answer["least_violating"]:
        (change,) = [one for one in near["must_change"] if one["limit"] == "kgco2e_per_year"]
        assert change["value"] > 1e-3
        assert "limits.kgco2e_per_year were" in near["in_words"]
