"""Operations that are achieved in a second, as trainers print them, and the batch of a step."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.training.estimate import training_latency_answer
from service.estimation.training.requests import LatencyTrainingRequest

#: The first run of BigScience's chronicles (tr11-176B-ml, chronicles-prequel.md, 2022).
BLOOM: dict[str, Any] = {
    "model": {
        "config": {
            "model_type": "bloom",
            "hidden_size": 14336,
            "n_layer": 72,
            "n_head": 64,
            "vocab_size": 250880,
            "torch_dtype": "bfloat16",
        }
    },
    "accelerator": "nvidia-a100-sxm-80gb",
    "parallelism": {"tensor": 8, "pipeline": 12, "data": 4},
}
TRAINED: dict[str, Any] = {
    "framework": "megatron-deepspeed",
    "sequence_length": 2048,
    "micro_batch_size": 1,
    "gradient_accumulation_steps": 512,
    "activation_checkpointing": "full",
    "attention": "eager",
    "sequence_parallel": False,
}
PEAK_TFLOPS = 312.0


def told(snapshot, **training: Any) -> dict[str, Any]:
    body = BLOOM | {"training": TRAINED | training}
    return training_latency_answer(LatencyTrainingRequest.model_validate(body), snapshot)


def test_hardware_operations_are_those_of_megatrons_formula(packaged_snapshot):
    # Narayanan et al., 2021, section 5.1: 96 B s l h² (1 + s / 6h + V / 16lh) with all layers
    # computed again and whole squares of scores, as kernels of that time multiplied them.
    answer = told(packaged_snapshot)
    layers, width, length, vocabulary = 72, 14336, 2048, 250880
    each = 96 * layers * width**2
    each *= 1 + length / (6 * width) + vocabulary / (16 * layers * width)
    rate = answer["tokens_per_s_per_accelerator"]["value"]
    achieved = answer["hardware_tflops_per_accelerator"]["value"]
    assert achieved == pytest.approx(rate * each / 1e12, rel=5e-3)


def test_achieved_operations_are_the_share_of_peak_that_is_used(packaged_snapshot):
    answer = told(packaged_snapshot)
    for name, ratio in (("model", "mfu_ratio"), ("hardware", "hfu_ratio")):
        achieved = answer[f"{name}_tflops_per_accelerator"]
        for end in ("value", "low", "high"):
            assert achieved[end] == pytest.approx(answer[ratio][end] * PEAK_TFLOPS)
    model, hardware = (
        answer[f"{n}_tflops_per_accelerator"]["value"] for n in ("model", "hardware")
    )
    assert model < hardware < PEAK_TFLOPS


def test_what_the_model_asks_for_does_not_depend_on_kernels(packaged_snapshot):
    # Kernels that multiply masked pairs do more, but no more of it is of use.
    unfused, fused = (told(packaged_snapshot, attention=one) for one in ("eager", "flash"))
    asked, computed = (
        [one["operations"][name] for one in (unfused, fused)]
        for name in ("model_flops_per_token", "hardware_flops_per_token")
    )
    assert asked[0] == pytest.approx(asked[1])
    assert computed[0] > computed[1]


def test_a_known_utilisation_says_what_is_achieved(packaged_snapshot):
    answer = told(packaged_snapshot, mfu_ratio=0.25)
    achieved = answer["model_tflops_per_accelerator"]
    assert list(achieved.values()) == pytest.approx([0.25 * PEAK_TFLOPS] * 3)


def test_a_global_batch_is_what_all_copies_take_in_a_step(packaged_snapshot):
    answer = told(packaged_snapshot)
    assert answer["global_batch_sequences"] == 512 * 4
    assert answer["global_batch_tokens"] == answer["tokens_per_step"] == 512 * 4 * 2048
