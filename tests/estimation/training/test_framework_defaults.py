"""What a framework does where nobody says, and what is not known where nobody names one."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.training.estimate import training_latency_answer
from service.estimation.training.requests import LatencyTrainingRequest

DIVIDED = {"parallelism": {"tensor": 4, "pipeline": 2}, "accelerator_count": 8}
SHARDED = {"accelerator_count": 8}


@pytest.fixture(scope="module")
def ask(packaged_snapshot):
    def answered(training: dict[str, Any], **asked: Any) -> Any:
        body = {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": "nvidia-h100-sxm-80gb",
            "training": training,
        }
        request = LatencyTrainingRequest.model_validate(body | asked)
        return training_latency_answer(request, packaged_snapshot)

    return answered


def step(answer):
    return answer["step_s"]


def codes(answer):
    return {warning["code"] for warning in answer["warnings"]}


def test_deepspeed_leaves_layers_to_megatron(ask):
    divided = ask({"framework": "deepspeed"}, **DIVIDED)
    named = ask({"framework": "megatron-deepspeed"}, **DIVIDED)
    assert step(divided) == step(named)
    assert "framework_divides" in codes(divided) - codes(named)
    sharded = ask({"framework": "deepspeed", "zero_stage": 3}, **SHARDED)
    assert "framework_divides" not in codes(sharded)
    assert step(sharded) != step(
        ask({"framework": "megatron-deepspeed", "zero_stage": 3}, **SHARDED)
    )


def test_versions_of_deepspeed_are_none_of_megatron(ask):
    assert step(ask({"framework": "deepspeed", "framework_version": "0.14.2"}, **DIVIDED)) == step(
        ask({"framework": "deepspeed"}, **DIVIDED)
    )


def test_operands_are_scaled_as_the_framework_does(ask):
    def fp8(**training):
        return step(ask(training, precision={"activations": "fp8"}, **SHARDED))["value"]

    megatron = {"framework": "megatron-lm"}
    assert fp8(**megatron) == fp8(**megatron, fp8_recipe="delayed")
    assert fp8(**megatron) < fp8(**megatron, fp8_recipe="tensorwise")
    titan = {"framework": "torchtitan", "zero_stage": 3}
    assert fp8(**titan) == fp8(**titan, fp8_recipe="tensorwise")


def test_an_unnamed_framework_is_less_certain(ask):
    def width(**training):
        found = step(ask({"zero_stage": 3} | training, **SHARDED))
        return found["high"] / found["low"]

    assert width() > 1.1 * width(framework="torchtitan")
