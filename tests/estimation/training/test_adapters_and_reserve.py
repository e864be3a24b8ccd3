"""Time that adapters take beside their matrices, and memory that is to stay free."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.training.estimate import training_latency_answer, training_memory_answer
from service.estimation.training.requests import LatencyTrainingRequest, MemoryTrainingRequest

A100_BYTES_PER_S = 2.039e12
#: Elements of the matrices inside the layers of Llama 3.1 8B.
MATRICES = 8.03e9 - 2 * 128_256 * 4096


def body(training: dict[str, Any]) -> dict[str, Any]:
    settings = {
        "method": "lora",
        "activation_checkpointing": "full",
        "sequence_length": 2048,
        "micro_batch_size": 2,
    }
    return {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "nvidia-a100-sxm-80gb",
        "training": settings | training,
    }


@pytest.fixture(scope="module")
def parts(packaged_snapshot):
    def asked(**training: Any) -> dict[str, float]:
        request = LatencyTrainingRequest.model_validate(body(training))
        answer = training_latency_answer(request, packaged_snapshot)
        return dict(answer["parts"])

    return asked


def test_norms_of_dora_are_taken_on_every_use_of_a_matrix(parts):
    # Written, scaled, added and read: 14 bytes an element forward, and again where recomputed.
    added = {
        size: parts(adapter="dora", micro_batch_size=size)["elementwise_s"]
        - parts(micro_batch_size=size)["elementwise_s"]
        for size in (1, 8)
    }
    # Beside them results are scaled by vectors, in proportion to tokens.
    scaled = (added[8] - added[1]) / 7
    norms = added[1] - scaled
    # Streaming kernels reach 0.7 to 0.9 of the datasheet's bandwidth.
    assert 0.7 < 2 * 14 * MATRICES / norms / A100_BYTES_PER_S < 0.9
    once = parts(adapter="dora", activation_checkpointing="none")["elementwise_s"]
    plain = parts(activation_checkpointing="none")["elementwise_s"]
    # Of 7 elements more forward and 15 backward, those forward once; gradients are summed once.
    assert once - plain == pytest.approx(norms / 2 + 2 * scaled * 22 / 29, rel=2e-3)


def test_boft_multiplies_whole_matrices(parts):
    plain, turned = parts()["matrix_products_s"], parts(adapter="boft")["matrix_products_s"]
    # As many tokens more as matrices have inputs, 4,096 and 14,336 beside 4,096 of the batch, in
    # three passes; and gradients of whole matrices, of which LoRA needs none.
    tokens, inner, share = 2 * 2048, 14_336 / 4096, 4096 * 14_336 * 32 / MATRICES
    inputs = 4096 * (1 - share + share * inner)
    ratio = (4 + 3 * inputs / tokens) / 3
    assert turned / plain == pytest.approx(ratio, rel=0.06)


def test_ranks_and_virtual_tokens_take_time(parts):
    plain = parts()["matrix_products_s"]
    wide = parts(lora_rank=512)["matrix_products_s"]
    # A rank adds (inputs + outputs) per matrix and token, 4 passes beside 3 of the matrix.
    per_rank = 32 * (2 * 8192 + 2 * 5120 + 3 * (4096 + 14_336))
    expected = (512 - 16) * per_rank * 4 / (3 * (MATRICES + 128_256 * 4096))
    assert wide / plain - 1 == pytest.approx(expected, rel=0.05)
    assert parts(adapter="vera", lora_rank=512)["matrix_products_s"] == pytest.approx(wide)
    few, many = (parts(adapter="prompt", virtual_tokens=tokens) for tokens in (1, 2048))
    assert many["matrix_products_s"] / few["matrix_products_s"] == pytest.approx(2.0, rel=0.05)


def test_a_reserve_is_kept_free(packaged_snapshot):
    def asked(**training: Any) -> Any:
        request = MemoryTrainingRequest.model_validate(body(training))
        return training_memory_answer(request, packaged_snapshot)

    whole, kept = asked(), asked(memory_reserve_ratio=0.25)
    assert kept["total_bytes"] == whole["total_bytes"]
    capacity = whole["capacity_bytes"]
    assert kept["capacity_bytes"] == capacity
    assert whole["headroom_bytes"]["value"] - kept["headroom_bytes"]["value"] == pytest.approx(
        capacity / 4
    )
    assert whole["fits"]
    assert kept["max_micro_batch_size"]["value"] < whole["max_micro_batch_size"]["value"]
    short = asked(memory_reserve_ratio=0.9)
    assert not short["fits"]
    assert short["shortfall_bytes"]["value"] == pytest.approx(
        short["total_bytes"]["value"] - 0.1 * capacity
    )
    paged = asked(memory_reserve_ratio=0.9, method="full", optimizer="paged-adamw")
    assert paged["host_bytes"]["value"] == pytest.approx(8.03e9 * 12, rel=0.01)
