"""Runs that are asked about without their micro-batch."""

from __future__ import annotations

import pytest

from service.estimation.training.estimate import training_latency_answer
from service.estimation.training.requests import LatencyTrainingRequest

GPT_2 = {"model": "openai-community/gpt2", "accelerator": "nvidia-a100-sxm-80gb"}
LLAMA = {"model": "meta-llama/Llama-3.1-8B", "accelerator": "nvidia-h100-sxm-80gb"}


@pytest.fixture
def told(packaged_snapshot):
    def told(model, **training):
        request = LatencyTrainingRequest.model_validate(
            model | {"accelerator_count": 8, "training": training}
        )
        found = training_latency_answer(request, packaged_snapshot)
        messages = [w["message"] for w in found["warnings"] if w["code"] == "micro_batches_of_one"]
        return found["tokens_per_s"]["value"], messages

    return told


def test_a_small_model_is_told_what_larger_micro_batches_reach(told):
    alone, messages = told(GPT_2, framework="llm.c", sequence_length=1024)
    (message,) = messages
    together, _ = told(GPT_2, framework="llm.c", sequence_length=1024, micro_batch_size=64)
    assert f"with 64, which fit, it is {together / alone:.1f} times that" in message


def test_nothing_is_told_where_it_would_change_little_or_was_said(told):
    assert told(GPT_2, framework="llm.c", sequence_length=1024, micro_batch_size=1)[1] == []
    assert told(GPT_2, framework="llm.c", sequence_length=1024, mfu_ratio=0.4)[1] == []
    assert told(LLAMA, framework="torchtitan", sequence_length=8192)[1] == []
