from __future__ import annotations

from typing import Any

import pytest

from service.core.memory.pruning import product_ratio, stored_ratio
from service.estimation.profile.estimate import memory_profile_answer
from service.estimation.profile.requests import MemoryProfileRequest

#: 32 layers of 4096 with 7.0e9 parameters.
SEVEN_BILLION = {
    "config": {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 63900,
        "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16",
    }
}


GPT_7B = {
    "config": {
        "model_type": "gpt2",
        "n_embd": 4096,
        "n_layer": 32,
        "n_head": 32,
        "vocab_size": 1000,
        "n_positions": 8192,
    }
}


@pytest.fixture(scope="module")
def asked(packaged_snapshot):
    def ask(**fields: Any) -> Any:
        body = {"model": SEVEN_BILLION, "accelerator": "nvidia-h100-sxm-80gb"} | fields
        return memory_profile_answer(MemoryProfileRequest.model_validate(body), packaged_snapshot)

    return ask


def test_training_takes_several_times_what_inference_takes(asked):
    answer = asked(training={"sequence_length": 2048, "attention": "eager"})
    parts = {part["name"]: part for part in answer["parts"]}
    assert parts["weights"]["training_bytes"]["value"] == pytest.approx(14e9, rel=0.005)
    assert parts["optimizer"]["training_bytes"]["value"] == pytest.approx(84e9, rel=0.005)
    assert parts["gradients"]["inference_bytes"] is None
    ratio = answer["training_over_inference_ratio"]
    totals = (answer["training_total_bytes"], answer["inference_total_bytes"])
    assert ratio["value"] == pytest.approx(totals[0]["value"] / totals[1]["value"])


def test_the_rule_of_thumb_needs_a_constant_of_30_for_32_gb(asked):
    told = asked(activation_constant=29.8)["activations"]
    # 29.8 · 32 layers · 4096 tokens · 4096 · 2 B.
    assert told["seed_constant_bytes"]["value"] == pytest.approx(32e9, rel=0.005)
    usual = asked()["activations"]["seed_constant_bytes"]
    assert (usual["low"], usual["high"]) == (
        pytest.approx(10.74e9, rel=0.005),
        pytest.approx(21.47e9, rel=0.005),
    )
    # 34 bytes a token and feature with dropout, 17 elements of 16 bit; the head's input beside.
    kept = asked(model=GPT_7B, training={"dropout": True})["activations"]
    assert kept["estimated_constant"]["value"] == pytest.approx(17.0, rel=0.005)
    scaled = told["estimated_constant"]["value"] / told["activation_constant"]["value"]
    same = told["estimated_bytes"]["value"] / told["seed_constant_bytes"]["value"]
    assert scaled == pytest.approx(same)


def test_pages_waste_half_of_one_and_reservations_most(asked):
    body = {"model": "meta-llama/Llama-2-13b-hf", "reserved_tokens": 4096}
    load = {"input_tokens": 2000, "output_tokens": 56, "concurrency": 4}
    told = asked(**body, workload=load)["cache_reservation"]
    # Eight tokens of the last page at 0.819 MB each.
    waste = told["paged_bytes_per_sequence"] - told["used_bytes_per_sequence"]
    assert waste == pytest.approx(6.6e6, rel=0.01)
    assert told["reserved_waste_ratio"] == pytest.approx(1.0 - 2056 / 4096)
    assert told["saved_bytes"] == pytest.approx(4 * (4096 - 2064) * 0.8192e6)
    lengths = {"tokens": [200, 1000, 3000], "shares": [5, 3, 1]}
    spread = asked(**body, workload=load | {"input_tokens": lengths})["cache_reservation"]
    assert 0.6 < spread["reserved_waste_ratio"] < 0.8


@pytest.mark.parametrize(
    ("structure", "sparsity", "bits", "stored"),
    [
        ("structured", 0.3, 16.0, 0.7),
        ("2:4", 0.5, 16.0, 0.5625),
        ("2:4", 0.5, 8.0, 0.625),
        # An index of 16 bits saves nothing at half, a bitmap does.
        ("unstructured", 0.5, 16.0, 0.5625),
        ("unstructured", 0.95, 16.0, 0.1),
        ("unstructured", 0.0, 16.0, 1.0),
    ],
)
def test_what_zeros_save(structure, sparsity, bits, stored):
    assert stored_ratio(structure, sparsity, bits) == pytest.approx(stored)


def test_only_some_matrix_units_skip_two_of_four():
    assert product_ratio("2:4", 0.5, "nvidia-hopper") == 0.5
    assert product_ratio("2:4", 0.5, "apple-silicon") == 1.0
    assert product_ratio("unstructured", 0.9, "nvidia-hopper") == 1.0


def test_pruning_tells_what_an_accelerator_gains(asked):
    pairs = asked(pruning={"structure": "2:4"})
    assert 0.5625 < pairs["pruning"]["weights_ratio"] < 0.65
    assert pairs["pruning"]["step_bytes_ratio"] < 0.7
    anywhere = asked(pruning={"structure": "unstructured", "sparsity_ratio": 0.7})
    assert anywhere["pruning"]["step_bytes_ratio"] == 1.0
    assert "zeros_not_skipped" in {warning["code"] for warning in anywhere["warnings"]}


def test_encoders_reserve_nothing(asked):
    assert asked(model="BAAI/bge-large-en-v1.5")["cache_reservation"] is None
