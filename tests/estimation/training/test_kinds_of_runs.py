"""Kinds of runs that nobody timed: answers say so."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.training.estimate import training_latency_answer
from service.estimation.training.requests import LatencyTrainingRequest

DENSE, EXPERTS = "meta-llama/Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1"


def warned(snapshot, model: str, layout: dict[str, int], **training: Any) -> list[str]:
    body = {
        "model": model,
        "accelerator": "nvidia-h100-sxm-80gb",
        "parallelism": layout,
        "training": training,
    }
    answer = training_latency_answer(LatencyTrainingRequest.model_validate(body), snapshot)
    return [
        one["message"] for one in answer["warnings"] if one["code"] == "kind_of_run_not_measured"
    ]


@pytest.mark.parametrize(
    ("model", "framework", "method"),
    [
        # Everybody trains dense models whole, Megatron and MaxText experts as well, and trainers
        # of Hugging Face adapters.
        (DENSE, "torchtitan", "full"),
        (DENSE, "transformers", "lora"),
        (EXPERTS, "megatron-lm", "full"),
        # Where no framework is named, it may be one of those that were measured.
        (EXPERTS, "default", "full"),
    ],
)
def test_kinds_that_were_timed_are_not_warned_of(packaged_snapshot, model, framework, method):
    assert not warned(packaged_snapshot, model, {"data": 8}, framework=framework, method=method)


@pytest.mark.parametrize(
    ("model", "framework", "method", "words"),
    [
        (EXPERTS, "torchtitan", "full", "all weights of a model with routed experts by torchtitan"),
        (DENSE, "megatron-lm", "lora", "LoRA of a dense model by megatron-lm"),
        (EXPERTS, "default", "lora", "LoRA of a model with routed experts by any framework"),
    ],
)
def test_kinds_that_nobody_timed_are_told(packaged_snapshot, model, framework, method, words):
    (message,) = warned(packaged_snapshot, model, {"data": 8}, framework=framework, method=method)
    assert words in message
