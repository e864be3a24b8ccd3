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


def test_the_range_reaches_over_micro_batches_that_others_take(told):
    # llm.c's scripts take 64 sequences of 1,024 tokens, the most that are tried.
    open_, _ = told(GPT_2, framework="llm.c", sequence_length=512, count=1)
    taken, fewer = (
        told(GPT_2, framework="llm.c", sequence_length=512, count=1, micro_batch_size=size)[0]
        for size in (128, 64)
    )
    assert open_["value"] == taken["value"]
    assert open_["high"] == pytest.approx(taken["high"])
    assert fewer["low"] < open_["low"] <= taken["low"]


def test_the_range_reaches_further_where_a_micro_batch_decides_speed(told):
    """Weights are gathered for each micro-batch, so that a small one of few tokens is slow."""
    sharded = {"framework": "fms-fsdp", "activation_checkpointing": "full"}
    short, messages = told(LLAMA, **sharded, sequence_length=128)
    said, quiet = told(LLAMA, **sharded, sequence_length=128, micro_batch_size=2)
    assert short["value"] == said["value"]
    assert short["low"] < 0.8 * said["low"]
    assert short["high"] > 1.5 * said["high"]
    (message,) = _of("micro_batch_assumed", messages)
    assert "a size of 2 is assumed" in message
    faster = ("speed_left_open", "training.micro_batch_size")
    assert faster in messages
    assert _of("micro_batch_assumed", quiet) == []
    assert faster not in quiet


def test_no_other_speed_is_told_of_where_it_would_change_little_or_was_said(told):
    for model, asked in (
        (GPT_2, {"framework": "llm.c", "sequence_length": 1024, "micro_batch_size": 1}),
        (GPT_2, {"framework": "llm.c", "sequence_length": 1024, "mfu_ratio": 0.4}),
        (LLAMA, {"framework": "torchtitan", "sequence_length": 8192}),
    ):
        messages = told(model, **asked)[1]
        assert ("speed_left_open", "training.micro_batch_size") not in messages


def test_a_known_utilisation_leaves_nothing_open(told):
    speed, messages = told(LARGE, framework="transformers", mfu_ratio=0.4)
    assert speed["low"] == speed["value"] == speed["high"]
    assert _of("speed_left_open", messages) == []


def test_products_of_8_bit_are_open_where_people_run_them_and_nobody_says(told):
    divided = LLAMA | {"parallelism": {"tensor": 2, "data": 4}}
    run = {"framework": "megatron-lm", "micro_batch_size": 1, "gradient_dtype": "fp32"}

    def asked(model=divided, activations=None, **training):
        return told(model | {"precision": {"activations": activations}}, **run | training)

    open_, messages = asked()
    half, quiet = asked(activations="bf16")
    eighth, _ = asked(activations="fp8")
    said = ("speed_left_open", "precision.activations")
    assert said in messages
    assert open_["value"] == half["value"]
    assert open_["low"] == pytest.approx(half["low"])
    assert open_["high"] == pytest.approx(half["high"] * eighth["value"] / half["value"])
    assert said not in quiet
    # Hardware that multiplies nothing in 8 bit leaves nothing open, nor do frameworks whose users
    # compute in 16.
    for model, training in (
        (divided | {"accelerator": "nvidia-a100-sxm-80gb"}, {}),
        (LLAMA, {"framework": "torchtune", "zero_stage": 3}),
    ):
        assert said not in asked(model, **training)[1]


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


def test_messages_to_experts_on_other_machines_may_hide_or_not(told):
    """DeepSeek-V3 hid them behind computation, and half of NVIDIA's recipes on Hopper do."""
    routed = {"model": "deepseek-ai/DeepSeek-V3", "accelerator": "nvidia-h800-sxm-80gb"}
    far = routed | {"parallelism": {"pipeline": 16, "expert": 64, "data": 128}}
    run = {"framework": "megatron-lm", "sequence_length": 4096, "gradient_accumulation_steps": 64}
    said = ("speed_left_open", "training.expert_overlap_ratio")
    open_, messages = told(far, 2048, **run)
    hidden, quiet = told(far, 2048, **run, expert_overlap_ratio=1.0)
    assert said in messages
    assert said not in quiet
    assert open_["value"] < hidden["value"] < open_["high"]
    # Within a machine they are short.
    near = routed | {"parallelism": {"pipeline": 16, "expert": 8, "data": 128}}
    assert said not in told(near, 2048, **run)[1]
