"""How a model is divided where a request leaves that to a framework made for it."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.training.choices import training_memory_choices
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest

H100 = "nvidia-h100-sxm-80gb"
LARGE = {"model": "meta-llama/Llama-3.1-70B", "accelerator": H100}
ROUTED = {"model": "mistralai/Mixtral-8x7B-v0.1", "accelerator": H100}
LARGEST = {"model": "meta-llama/Llama-3.1-405B", "accelerator": H100}


@pytest.fixture(scope="module")
def ask(packaged_snapshot):
    def answered(asked: dict[str, Any], count: int, layout: Any = None, **training: Any) -> Any:
        body = asked | {"accelerator_count": count, "training": training, "parallelism": layout}
        return training_estimate(EstimateTrainingRequest.model_validate(body), packaged_snapshot)

    return answered


def degrees(answer: Any) -> dict[str, int]:
    told = answer["deployment"]["parallelism"]
    return {name: degree for name, degree in told.items() if degree > 1}


def codes(answer: Any) -> dict[str, str]:
    return {warning["code"]: warning["message"] for warning in answer["warnings"]}


def test_the_fastest_layout_is_taken_where_copies_do_not_fit(ask):
    asked = {"framework": "megatron-bridge", "sequence_length": 4096}
    found = ask(LARGE, 64, **asked)
    assert found["memory"]["fits"]
    assert 2 <= degrees(found)["tensor"] <= 8
    assert "tensor" in codes(found)["layout_assumed"]
    others = [
        ask(LARGE, 64, {"tensor": tensor, "pipeline": pipeline}, **asked)
        for tensor, pipeline in ((8, 1), (8, 2), (4, 8), (1, 8))
    ]
    rates = [one["latency"]["tokens_per_s"]["value"] for one in others if one["memory"]["fits"]]
    assert len(rates) >= 2
    assert found["latency"]["tokens_per_s"]["value"] >= max(rates)


def test_matrices_are_not_divided_further_than_anybody_does(ask):
    # 72 accelerators share fast links.
    wide = {"model": "meta-llama/Llama-3.1-405B", "accelerator": "nvidia-gb200-186gb"}
    found = ask(wide, 64, framework="megatron-bridge", sequence_length=8192)
    assert degrees(found)["tensor"] <= 8


def test_whole_copies_that_would_recompute_everything_give_way_to_a_division(ask):
    asked = {"framework": "megatron-bridge", "sequence_length": 8192}
    model = {"model": "meta-llama/Llama-3.1-8B", "accelerator": H100}
    found = ask(model, 8, **asked)
    copies = ask(model, 8, {"data": 8}, **asked)
    assert copies["deployment"]["training"]["activation_checkpointing"] == "full"
    assert found["deployment"]["training"]["activation_checkpointing"] != "full"
    assert degrees(found)["tensor"] == 2


def test_an_assumed_layout_is_estimated_as_if_it_had_been_said(ask):
    asked = {"framework": "nemo", "sequence_length": 4096}
    bare = ask(ROUTED, 64, **asked)
    said = ask(ROUTED, 64, bare["deployment"]["parallelism"], **asked)
    assert "layout_assumed" not in codes(said)
    for part, figure in (("memory", "total_bytes"), ("latency", "step_s")):
        assert bare[part][figure] == said[part][figure]


def test_experts_are_divided_before_tensors(ask):
    found = degrees(ask(ROUTED, 64, framework="nemo", sequence_length=4096))
    assert found["expert"] == 8


def test_layers_are_divided_where_micro_batches_fill_a_pipeline(ask):
    asked = {"framework": "megatron-lm", "sequence_length": 4096}
    alone = ask(LARGEST, 512, gradient_accumulation_steps=1, **asked)
    # One micro-batch fills no pipeline, without which nothing fits: that is told of the nearest.
    assert not alone["memory"]["fits"]
    assert degrees(alone) == {"tensor": 8, "data": 64}
    filled = ask(LARGEST, 512, gradient_accumulation_steps=64, **asked)
    assert filled["memory"]["fits"]
    assert degrees(filled)["tensor"] == 8
    assert 1 < degrees(filled)["pipeline"] <= 64


def test_experts_that_no_accelerator_holds_are_divided_where_no_framework_is_named(ask):
    model = {"model": "deepseek-ai/DeepSeek-V3", "accelerator": H100}
    bare = ask(model, 512)
    assert bare["deployment"]["training"]["framework"] == "megatron-lm"
    assert "framework_assumed" in codes(bare)
    assert degrees(bare)["expert"] > 1
    named = ask(model, 512, framework="megatron-lm")
    # Without a name its schedule is open, too.
    assert bare["latency"]["step_s"]["value"] == named["latency"]["step_s"]["value"]
    # A dense model is as often sharded, and adapters train beside a base that is.
    assert "framework_assumed" not in codes(ask(LARGE, 512))
    assert "framework_assumed" not in codes(ask(model, 512, method="qlora"))


def test_large_models_are_divided_as_torchtitan_configures_them(ask):
    """Its configurations of Llama 3 70B and 405B have tensor parallelism beside sharding."""
    found = ask(LARGEST, 512, framework="torchtitan", sequence_length=8192)
    assert found["memory"]["fits"]
    assert degrees(found)["tensor"] == 8
    assert "layout_assumed" in codes(found)
    small = ask(LARGEST | {"model": "meta-llama/Llama-3.1-8B"}, 8, framework="torchtitan")
    assert degrees(small) == {"data": 8}


def test_experts_are_divided_by_what_divides_the_accelerators(ask):
    """256 experts cannot be dealt out evenly to all 72 accelerators of a rack."""
    rack = {"model": "deepseek-ai/DeepSeek-V3", "accelerator": "nvidia-gb200-186gb"}
    found = degrees(ask(rack, 72, framework="nemo", sequence_length=4096))
    assert found["expert"] > 1
    assert 72 % found["expert"] == 0


def test_a_batch_that_ranks_do_not_share_leaves_other_layouts(ask):
    """Layouts of more accelerators than there are share no batch."""
    found = ask(LARGE, 24, framework="nemo", sequence_length=4096, global_batch_size=96)
    assert 24 % degrees(found)["tensor"] == 0


def test_other_frameworks_and_stated_layouts_keep_whole_copies(ask):
    assert degrees(ask(LARGE, 64, framework="fsdp")) == {"data": 64}
    assert degrees(ask(LARGE, 64, {"data": 64}, framework="megatron-lm")) == {"data": 64}
    # One accelerator divides nothing.
    assert degrees(ask(LARGE, 1, framework="megatron-lm")) == {}


def test_ways_to_recompute_are_compared_in_one_layout(packaged_snapshot):
    asked = LARGE | {"accelerator_count": 64, "training": {"framework": "nemo"}}
    request = EstimateTrainingRequest.model_validate(asked)
    taken = training_estimate(request, packaged_snapshot)["memory"]["total_bytes"]["value"]
    found = {
        (one["zero_stage"], one["activation_checkpointing"]): one["memory"]["total_bytes"]["value"]
        for one in training_memory_choices(request, packaged_snapshot)
        if one["memory"] is not None
    }
    assert found[1, "none"] == taken
    for stage in {stage for stage, _ in found}:
        assert found[stage, "full"] < found[stage, "none"]


def test_experts_are_divided_where_that_is_faster_though_copies_fit(ask):
    """Copies on 288 GB hold all experts, each of which gets few tokens of its own."""
    large = {"model": "Qwen/Qwen3-30B-A3B", "accelerator": "nvidia-gb300-288gb"}
    asked = {"framework": "megatron-bridge", "sequence_length": 4096}
    copies = ask(large, 8, {"data": 8}, **asked)
    assert copies["memory"]["fits"]
    found = ask(large, 8, **asked)
    assert degrees(found)["expert"] == 8
    rates = [one["latency"]["tokens_per_s"]["value"] for one in (found, copies)]
    assert rates[0] > rates[1]


def test_long_sequences_are_shared_among_ranks(ask):
    """No accelerator holds the activations of 131,072 tokens without recomputing all layers."""
    found = ask(LARGE, 512, framework="megatron-lm", sequence_length=131_072)
    assert found["memory"]["fits"]
    assert degrees(found)["context"] > 1
    assert 131_072 % degrees(found)["context"] == 0
    assert "context" not in degrees(ask(LARGE, 512, framework="megatron-lm", sequence_length=8192))


def test_what_copies_leave_no_room_for_is_divided_without_a_framework(ask):
    bare = ask(LARGE, 64, sequence_length=131_072)
    assert bare["memory"]["fits"]
    assert "framework_assumed" in codes(bare)
    # Who tells what ranks divide has copies of the model.
    assert "framework_assumed" not in codes(ask(LARGE, 64, sequence_length=131_072, zero_stage=3))
