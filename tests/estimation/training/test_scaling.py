"""Scaling of 8-bit operands, and refusals that say what frameworks and hardware have instead."""

from __future__ import annotations

from typing import Any

import pytest

from service.core.performance.training.scaling import narrowing_ratio, scales_sums
from service.estimation.rejection import Rejected
from service.estimation.training.estimate import training_latency_answer
from service.estimation.training.requests import LatencyTrainingRequest

H100, B200, A100 = "nvidia-h100-sxm-80gb", "nvidia-b200-sxm-180gb", "nvidia-a100-sxm-80gb"
FP8 = {"weights": "bf16", "activations": "fp8"}


@pytest.fixture(scope="module")
def ask(packaged_snapshot):
    def answered(accelerator: str = H100, precision: Any = FP8, **training: Any) -> Any:
        body = {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": accelerator,
            "accelerator_count": 8,
            "precision": precision,
            "training": {"zero_stage": 3, "sequence_length": 8192, **training},
        }
        return training_latency_answer(
            LatencyTrainingRequest.model_validate(body), packaged_snapshot
        )

    return answered


def refused(ask: Any, *given: Any, **training: Any) -> tuple[str, str]:
    with pytest.raises(Rejected) as rejected:
        ask(*given, **training)
    [error] = rejected.value.errors
    return error.pointer, error.detail


def test_scales_of_rows_cost_time_and_scales_of_blocks_spare_a_reading(ask):
    tensorwise, rowwise, delayed = (
        ask(framework="torchtitan", fp8_recipe="tensorwise"),
        ask(framework="torchtitan", fp8_recipe="rowwise"),
        ask(framework="megatron-lm", fp8_recipe="delayed"),
    )
    current = ask(framework="megatron-lm", fp8_recipe="tensorwise")
    # torchtitan, performance.md, 2024: Llama 3.1 8B on eight H100, 5,078 and 3,709 tokens a second.
    slower = rowwise["step_s"]["value"] / tensorwise["step_s"]["value"]
    assert slower == pytest.approx(5078 / 3709, rel=0.2)
    assert delayed["parts"]["elementwise_s"] < current["parts"]["elementwise_s"]
    assert delayed["parts"]["matrix_products_s"] == current["parts"]["matrix_products_s"]


def test_operands_are_scaled_by_blocks_where_hardware_does_unless_told(ask):
    """Transformer Engine takes MXFP8 on Blackwell if no recipe is named, as Megatron's users do."""
    for framework, before in (("megatron-lm", "delayed"), ("megatron-bridge", "tensorwise")):
        for accelerator, recipe in ((B200, "mxfp8"), (H100, before)):
            bare = ask(accelerator, framework=framework)
            said = ask(accelerator, framework=framework, fp8_recipe=recipe)
            assert bare["step_s"] == said["step_s"]
    # torchtitan's own are of whole tensors on any hardware.
    bare, said = (
        ask(B200, framework="torchtitan", **more) for more in ({}, {"fp8_recipe": "tensorwise"})
    )
    assert bare["step_s"] == said["step_s"]


def test_gradients_of_weights_need_operands_both_ways():
    assert narrowing_ratio(None, transposed=True) == narrowing_ratio("tensorwise", transposed=True)
    # Read twice and written once, in place of twice: 5 bytes of 6.
    assert narrowing_ratio("tensorwise", transposed=False) == pytest.approx(5 / 6)
    assert narrowing_ratio("mxfp8", transposed=True) == pytest.approx((2 + 2 * 33 / 32) / 6)


def test_blocks_are_scaled_by_matrix_units_that_can(packaged_snapshot):
    accelerators = packaged_snapshot.accelerators
    assert scales_sums("blockwise", accelerators[H100].value)
    assert not scales_sums("blockwise", accelerators[B200].value)
    assert scales_sums("rowwise", accelerators[B200].value)
    assert not scales_sums("mxfp8", accelerators[B200].value)


def test_what_hardware_does_not_multiply_is_refused_with_what_it_does(ask):
    pointer, detail = refused(ask, A100)
    assert pointer == "/precision/activations"
    assert "nvidia-a100-sxm-80gb cannot multiply fp8 operands, but bf16" in detail
    pointer, detail = refused(ask, H100, {"weights": "bf16", "activations": "nvfp4"})
    assert pointer == "/precision/activations"
    assert "fp8" in detail
    pointer, detail = refused(ask, H100, fp8_recipe="mxfp8")
    assert pointer == "/training/fp8_recipe"
    assert "blockwise" in detail
    assert ask(B200, fp8_recipe="mxfp8")["tokens_per_s"]["value"] > 0
    pointer, _ = refused(ask, H100, {"weights": "bf16"}, fp8_recipe="delayed")
    assert pointer == "/training/fp8_recipe"


@pytest.mark.parametrize(
    ("framework", "training", "pointer", "instead"),
    [
        ("torchtitan", {"zero_stage": 1}, "/training/zero_stage", "0, 2, 3"),
        ("torchtune", {"zero_stage": 2}, "/training/zero_stage", "0, 3"),
        (
            "torchtitan",
            {"fp8_recipe": "delayed"},
            "/training/fp8_recipe",
            "mxfp8, rowwise, tensorwise",
        ),
        (
            "megatron-lm",
            {"fp8_recipe": "rowwise"},
            "/training/fp8_recipe",
            "blockwise, delayed, mxfp8, tensorwise",
        ),
    ],
)
def test_what_a_framework_does_not_have_is_refused_with_what_it_has(
    ask, framework, training, pointer, instead
):
    found, detail = refused(ask, framework=framework, **training)
    assert found == pointer
    assert instead in detail


@pytest.mark.parametrize(
    ("framework", "setting", "pointer", "instead"),
    [
        ("litgpt", {"method": "lora", "adapter": "ia3"}, "/training/adapter", "lora"),
        ("nemo", {"method": "lora", "adapter": "vera"}, "/training/adapter", "dora, lora"),
        ("torchtitan", {"method": "lora", "adapter": "ia3"}, "/training/adapter", "lora"),
        ("maxtext", {"method": "lora", "adapter": "ia3"}, "/training/adapter", "lora"),
        ("torchtitan", {"method": "qlora"}, "/training/method", "full, lora"),
        ("torchtitan", {"optimizer": "paged-adamw-8bit"}, "/training/optimizer", "adamw"),
        ("torchtune", {"offload": {"optimizer": "nvme"}}, "/training/offload/optimizer", "cpu or"),
        ("llm.c", {"offload": {"activations": "cpu"}}, "/training/offload/activations", "none"),
    ],
)
def test_a_recipe_that_a_framework_lacks_says_which_setting_and_what_there_is(
    ask, framework, setting, pointer, instead
):
    bf16 = {"weights": "bf16"}
    settings = {"framework": framework, "zero_stage": 0, **setting}
    found, detail = refused(ask, H100, bf16, **settings)
    assert found == pointer
    assert instead in detail


def test_frozen_weights_have_the_formats_that_a_framework_freezes(ask):
    gptq = {"weights": "gptq-int4"}
    pointer, detail = refused(ask, H100, gptq, framework="unsloth", method="qlora", zero_stage=0)
    assert pointer == "/precision/weights"
    assert "bnb-*" in detail
    pointer, detail = refused(ask, H100, gptq, framework="maxtext", method="qlora", zero_stage=0)
    assert pointer == "/precision/weights"
    assert "bnb-nf4" in detail
    assert ask(H100, gptq, framework="peft", method="qlora", zero_stage=0)["step_s"]["value"] > 0


@pytest.mark.parametrize(
    ("accelerator", "activations", "told"),
    [
        ("nvidia-v100-sxm-32gb", "bf16", True),
        ("nvidia-v100-sxm-32gb", "fp16", False),
        ("apple-m3-max-128gb", "bf16", False),
        (A100, "bf16", False),
    ],
)
def test_products_that_run_in_another_format_are_told(ask, accelerator, activations, told):
    codes = {
        warning["code"] for warning in ask(accelerator, {"activations": activations})["warnings"]
    }
    assert ("products_in_another_format" in codes) == told


def test_attention_in_8_bit_needs_a_framework_and_hardware_that_have_it(ask):
    fast = ask(framework="megatron-lm", attention="flash-fp8")["step_s"]["value"]
    assert fast < ask(framework="megatron-lm")["step_s"]["value"]
    pointer, detail = refused(ask, H100, framework="torchtitan", attention="flash-fp8")
    assert pointer == "/training/attention"
    assert "torchtitan" in detail
    bf16 = {"weights": "bf16"}
    pointer, detail = refused(ask, A100, bf16, framework="megatron-lm", attention="flash-fp8")
    assert pointer == "/training/attention"
    assert A100 in detail
