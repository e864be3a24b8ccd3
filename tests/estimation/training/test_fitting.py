"""What is done to make a run fit where a request does not say."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest

H100 = "nvidia-h100-sxm-80gb"
SMALL = {"model": "meta-llama/Llama-3.1-8B", "accelerator": H100}
LARGE = {"model": "meta-llama/Llama-3.1-70B", "accelerator": H100}


@pytest.fixture(scope="module")
def ask(packaged_snapshot):
    def answered(asked: dict[str, Any], count: int = 8, **training: Any) -> Any:
        body = asked | {"accelerator_count": count, "training": training}
        return training_estimate(EstimateTrainingRequest.model_validate(body), packaged_snapshot)

    return answered


def done(answer: Any) -> tuple[int, str]:
    told = answer["deployment"]["training"]
    return told["zero_stage"], told["activation_checkpointing"]


def codes(answer: Any) -> dict[str, str]:
    return {warning["code"]: warning["message"] for warning in answer["warnings"]}


def test_states_are_divided_before_layers_are_recomputed(ask):
    # Weights, gradients and states of 8 billion parameters take 128 GB.
    bare = ask(SMALL, sequence_length=2048, framework="deepspeed")
    assert done(bare) == (1, "none")
    assert bare["memory"]["fits"]
    assert "ZeRO stage 1" in codes(bare)["made_to_fit"]
    assert done(ask(SMALL, 1, framework="deepspeed")) == (0, "none")


def test_what_is_done_is_estimated_as_if_it_had_been_said(ask):
    asked = {"sequence_length": 8192, "framework": "deepspeed", "micro_batch_size": 1}
    bare = ask(LARGE, 64, **asked)
    stage, recomputed = done(bare)
    assert recomputed == "full"
    said = ask(LARGE, 64, **asked, zero_stage=stage, activation_checkpointing=recomputed)
    assert "made_to_fit" not in codes(said)
    for part, figure in (("memory", "total_bytes"), ("latency", "step_s")):
        assert bare[part][figure]["value"] == said[part][figure]["value"]


def test_what_a_request_says_is_done_even_if_it_does_not_fit(ask):
    told = ask(LARGE, 64, zero_stage=0, activation_checkpointing="none")
    assert done(told) == (0, "none")
    assert not told["memory"]["fits"]
    # What is said of one leaves the other open.
    assert done(ask(LARGE, 64, activation_checkpointing="none"))[1] == "none"
    assert done(ask(LARGE, 64, zero_stage=3, sequence_length=8192)) == (3, "full")


def test_states_are_divided_even_if_that_is_not_enough(ask):
    """A base of 4 bits on 24 GB: copies lack more than sharded ones, which nearly fit."""
    card = {"model": "meta-llama/Llama-3.1-70B", "accelerator": "nvidia-rtx-4090-24gb"}
    found = ask(card, 8, method="qlora")
    assert done(found)[0] == 3
    copies = ask(card, 8, method="qlora", zero_stage=0)
    assert found["memory"]["total_bytes"]["value"] < copies["memory"]["total_bytes"]["value"] / 1.5
    if not found["memory"]["fits"]:
        assert "nearest to fitting" in codes(found)["made_to_fit"]


def test_what_lacks_far_more_than_estimates_miss_is_recomputed(ask):
    """Half of the layers' activations would suffice, but without any it cannot have run."""
    small = {"model": "meta-llama/Llama-2-7b-hf", "accelerator": "nvidia-a100-sxm-40gb"}
    told = {"framework": "fsdp", "zero_stage": 3, "sequence_length": 16384, "micro_batch_size": 1}
    kept = ask(small, 8, **told, activation_checkpointing="none")
    assert kept["memory"]["total_bytes"]["value"] > 1.25 * kept["memory"]["capacity_bytes"]
    found = ask(small, 8, **told)
    assert done(found) == (3, "full")


def test_what_nothing_makes_fit_is_left_as_it_is(ask):
    hopeless = ask(LARGE, 1)
    assert done(hopeless) == (0, "none")
    assert not hopeless["memory"]["fits"]
    assert "made_to_fit" not in codes(hopeless)


def test_longer_sequences_are_recomputed_once_half_of_the_layers_must_be(ask):
    lengths = (2048, 4096, 8192, 12288, 16384, 24576)
    asked = {"framework": "torchtitan", "activation_checkpointing": None, "zero_stage": 3}
    copies = SMALL | {"parallelism": {"data": 8}}
    found = [ask(copies, 8, **asked | {"sequence_length": one}) for one in lengths]
    whole = [done(one)[1] == "full" for one in found]
    assert whole == sorted(whole)
    assert {whole[0], whole[-1]} == {False, True}
    # Where a smaller part suffices, the range reaches down to a run that recomputes all of them.
    for one, length in zip(found, lengths, strict=True):
        if one["memory"]["fits"]:
            continue
        slow = ask(
            copies, 8, **asked | {"activation_checkpointing": "full", "sequence_length": length}
        )
        assert one["latency"]["tokens_per_s"]["low"] <= slow["latency"]["tokens_per_s"]["value"]


def test_a_frozen_base_in_8_bit_is_not_held_twice(ask):
    # In 16 bit with copies in 8 for products, it does not fit; in 8 bit alone it does, and nothing
    # need be recomputed.
    adapters = LARGE | {
        "parallelism": {"tensor": 4, "data": 2},
        "precision": {"weights": "bf16", "activations": "fp8"},
    }
    found = ask(adapters, method="lora", framework="megatron-lm", sequence_length=8192)
    assert done(found)[1] == "none"


def test_some_layers_are_recomputed_before_all_are(ask):
    # Without recomputation it lacks memory, and with all layers recomputed half is left over.
    layout = LARGE | {"parallelism": {"tensor": 8, "data": 8}}
    asked = {"framework": "megatron-lm", "zero_stage": 1, "micro_batch_size": 2}
    asked |= {"sequence_length": 8192, "gradient_dtype": "fp32"}
    found = ask(layout, 64, **asked)
    some = found["deployment"]["training"]["recomputed_layers"]
    assert done(found) == (1, "full")
    assert 1 <= some < 80
    assert found["memory"]["fits"]
    assert "of all layers" in codes(found)["made_to_fit"]
    # One layer fewer does not fit, and all of them take less memory and more time.
    fewer = asked | {"activation_checkpointing": "full", "recomputed_layers": some - 1}
    assert not ask(layout, 64, **fewer)["memory"]["fits"]
    whole = ask(layout, 64, **asked, activation_checkpointing="full")
    none = ask(layout, 64, **asked, activation_checkpointing="none")
    rates = [one["latency"]["tokens_per_s"]["value"] for one in (whole, found, none)]
    assert rates == sorted(rates)
    # Whoever recomputes all layers is in the range; memory of none of them, which is not there,
    # widens nothing: less than a run's own uncertainty lies beyond what there is.
    low, high = (found["memory"]["total_bytes"][end] for end in ("low", "high"))
    assert low <= whole["memory"]["total_bytes"]["value"]
    own = ask(layout, 64, **asked, activation_checkpointing="full", recomputed_layers=some)
    assert high == pytest.approx(own["memory"]["total_bytes"]["high"])
    assert found["latency"]["tokens_per_s"]["low"] <= rates[0]


def test_what_costs_no_time_is_held_narrower_before_layers_are_recomputed(ask):
    layout = SMALL | {"parallelism": {"data": 8}}
    asked = {"framework": "megatron-lm", "sequence_length": 4096, "zero_stage": 1}
    found = ask(layout, 8, **asked)
    assert done(found) == (1, "none")
    assert found["deployment"]["training"]["gradient_dtype"] == "bf16"
    assert "gradients in 16 bit" in codes(found)["made_to_fit"]
    wide = ask(layout, 8, **asked, gradient_dtype="fp32")
    assert wide["deployment"]["training"]["recomputed_layers"]


def test_modules_are_recomputed_of_models_that_have_cheap_ones(ask):
    routed = {"model": "mistralai/Mixtral-8x7B-v0.1", "accelerator": H100}
    layout = routed | {"parallelism": {"tensor": 2, "pipeline": 4, "expert": 8, "data": 8}}
    asked = {"framework": "megatron-lm", "zero_stage": 1, "gradient_accumulation_steps": 16}
    lengths = (4096, 6144, 8192, 12288, 16384)
    found = [done(ask(layout, 64, **asked, sequence_length=one))[1] for one in lengths]
    ranks = {"none": 0, "selective-modules": 1, "full": 2}
    assert [ranks[one] for one in found] == sorted(ranks[one] for one in found)
    assert "selective-modules" in found


def test_trainers_that_recompute_nothing_in_part_recompute_all(ask):
    asked = {"framework": "transformers", "zero_stage": 3, "micro_batch_size": 1}
    found = [ask(SMALL, 8, **asked, sequence_length=one) for one in (2048, 12288)]
    assert not any("recomputed_layers" in one["deployment"]["training"] for one in found)
    assert [done(one)[1] for one in found][-1] == "full"
