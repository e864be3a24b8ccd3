"""What is asked of choices counts as it was sent: agents' tasks, numbers of accelerators, tiers."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from service.estimation.costs.estimate import offered_in, rents_in
from service.estimation.levels import measured_families
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.inference.space import resolve_search
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.recommendations.training.requests import TrainingSearchRequest

AGENT = {
    "model": "meta-llama/Llama-3.1-8B",
    "workload_kind": "agentic",
    "workload": {
        "input_tokens": 512,
        "output_tokens": 128,
        "requests_per_s": 1.0,
        "calls_per_task": 10,
        "tool_s": 2.0,
        "context_growth_tokens": 1000,
    },
    "search": {
        "accelerators": ["nvidia-l40s-48gb", "nvidia-h100-sxm-80gb"],
        "regions": ["aws/us-east-1"],
        "precisions": ["bf16"],
        "kv_caches": ["bf16"],
        "max_accelerators": 2,
    },
}


def test_tasks_of_agents_count_with_their_tools_and_growing_prompts(packaged_snapshot):
    answer = recommendation_answer(RecommendationRequest.model_validate(AGENT), packaged_snapshot)
    (best,) = [one for one in answer["choices"] if "balanced" in one["priorities"]]
    latency = best["estimate"]["latency"]
    assert best["candidate"]["metrics"]["latency"] == pytest.approx(latency["task_s"]["value"])
    # Nine waits for tools, and ten calls whose prompts are longer than the first.
    assert latency["task_s"]["value"] > 9 * 2.0 + 10 * latency["e2e_s"]["value"]
    assert best["request"]["workload"]["context_growth_tokens"] == 1000


def test_a_limit_on_tasks_counts_the_tools(packaged_snapshot):
    asked = AGENT | {"limits": {"task_s": 17.0}}
    answer = recommendation_answer(RecommendationRequest.model_validate(asked), packaged_snapshot)
    assert not answer["choices"]
    (limit,) = [one for one in answer["excluded"] if one["limit"] == "task_s"]
    assert limit["nearest_value"] > 18.0


def test_counts_contradict_only_a_limit_that_was_sent():
    named = TrainingSearchRequest.model_validate({"accelerator_counts": [16384, 8, 8]})
    assert named.tried_counts == [16384, 8]
    sent = {"accelerator_counts": [1024, 8], "max_accelerators": 64}
    assert TrainingSearchRequest.model_validate(sent).tried_counts == [8]
    assert TrainingSearchRequest(max_accelerators=9).tried_counts == [1, 2, 4, 8]
    with pytest.raises(ValidationError):
        TrainingSearchRequest.model_validate({"accelerator_counts": [0]})


def test_machines_of_a_providers_marketplace_are_not_its_own(packaged_snapshot):
    community = packaged_snapshot.find("instances", "runpod/1x-a40-pcie-48gb-community")
    assert community.document["marketplace"]
    region = packaged_snapshot.find("regions", "runpod/CA-MTL-1")
    own = [
        entry.value
        for entry in packaged_snapshot.instances.values()
        if entry.value.provider == "runpod" and not entry.document.get("marketplace")
    ]
    assert offered_in(packaged_snapshot, region) <= {one.accelerator for one in own}
    prices = {each.usd_per_hour for one in own for each in one.prices.get("on-demand", {}).values()}
    for rents in rents_in(packaged_snapshot, region).values():
        assert {usd for _, usd in rents} <= prices | {None}


def test_what_was_not_measured_is_searched_only_if_asked_for(packaged_snapshot):
    def searched(**search):
        asked = {"model": "meta-llama/Llama-3.1-8B", "search": search | {"max_accelerators": 1}}
        return resolve_search(RecommendationRequest.model_validate(asked), packaged_snapshot)

    usual, every = searched(), searched(include_unmeasured=True)
    measured = measured_families(packaged_snapshot)
    assert {entry.value.family for entry in usual.accelerators} <= measured
    left_out = {one.id for one in every.accelerators} - {one.id for one in usual.accelerators}
    assert left_out
    reasons = {one.reason: one for one in usual.context.not_searched}
    assert reasons["not_measured"].accelerators >= len(left_out)
    assert "not_measured" not in {one.reason for one in every.context.not_searched}
    named = searched(accelerators=[min(left_out)])
    assert [one.id for one in named.accelerators] == [min(left_out)]
