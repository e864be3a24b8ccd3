"""Speed of runs that are asked about without what decides it."""

from __future__ import annotations

import pytest

from service.estimation.training.estimate import training_latency_answer
from service.estimation.training.requests import LatencyTrainingRequest

GPT_2 = {"model": "openai-community/gpt2", "accelerator": "nvidia-a100-sxm-80gb"}
LLAMA = {"model": "meta-llama/Llama-3.1-8B", "accelerator": "nvidia-h100-sxm-80gb"}
LARGE = {"model": "meta-llama/Llama-3.1-70B", "accelerator": "nvidia-h100-sxm-80gb"}


@pytest.fixture
def told(packaged_snapshot):
    def told(model, count=8, **training):
        request = LatencyTrainingRequest.model_validate(
            model | {"accelerator_count": count, "training": training}
        )
        found = training_latency_answer(request, packaged_snapshot)
        return found["tokens_per_s"], {
            (w["code"], w["pointer"]): w["message"] for w in found["warnings"]
        }

    return told


def _of(code, messages):
    return [message for (found, _), message in messages.items() if found == code]


def test_the_range_reaches_up_to_micro_batches_that_fit(told):
    alone, messages = told(GPT_2, framework="llm.c", sequence_length=1024)
    together, _ = told(GPT_2, framework="llm.c", sequence_length=1024, micro_batch_size=64)
    said, _ = told(GPT_2, framework="llm.c", sequence_length=1024, micro_batch_size=1)
    assert alone["value"] == said["value"]
    assert alone["low"] == pytest.approx(said["low"])
    gain = together["value"] / alone["value"]
    assert alone["high"] == pytest.approx(said["high"] * gain)
    (message,) = _of("micro_batches_of_one", messages)
    assert f"it is {gain:.1f} times as fast" in message


def test_nothing_is_told_where_it_would_change_little_or_was_said(told):
    for model, asked in (
        (GPT_2, {"framework": "llm.c", "sequence_length": 1024, "micro_batch_size": 1}),
        (GPT_2, {"framework": "llm.c", "sequence_length": 1024, "mfu_ratio": 0.4}),
        (LLAMA, {"framework": "torchtitan", "sequence_length": 8192}),
    ):
        assert _of("micro_batches_of_one", told(model, **asked)[1]) == []


def test_a_known_utilisation_leaves_nothing_open(told):
    speed, messages = told(LARGE, framework="transformers", mfu_ratio=0.4)
    assert speed["low"] == speed["value"] == speed["high"]
    assert _of("speed_left_open", messages) == []


def test_a_run_that_cannot_fit_as_taken_may_recompute_and_divide(told):
    def asked(**training):
        return told(LARGE, count=64, sequence_length=8192, micro_batch_size=1, **training)

    usual, messages = asked()
    said, quiet = asked(activation_checkpointing="none", zero_stage=0)
    again, _ = asked(activation_checkpointing="full", zero_stage=0)
    assert usual["value"] == said["value"]
    assert usual["low"] <= said["low"] * again["value"] / said["value"] * 1.001
    assert usual["high"] >= said["high"]
    assert ("speed_left_open", "training.activation_checkpointing") in messages
    assert _of("speed_left_open", quiet) == []


def test_speed_reaches_over_the_settings_that_memory_reaches_over(told):
    adapters = {"framework": "peft", "method": "lora", "micro_batch_size": 4}
    open_, messages = told(LLAMA, count=1, **adapters)
    assert ("speed_left_open", "training.lora_targets") in messages
    few, _ = told(LLAMA, count=1, **adapters, lora_targets="q_proj,v_proj")
    assert open_["low"] < few["value"] < open_["high"]
    named, quiet = told(LLAMA, count=1, **adapters, lora_targets="all-linear")
    assert named["value"] == open_["value"]
    assert named["high"] / named["low"] < open_["high"] / open_["low"]
    assert ("speed_left_open", "training.lora_targets") not in quiet
