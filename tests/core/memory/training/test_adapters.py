"""Adapters against counts by hand and those that PEFT prints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.deployment import Deployment, Parallelism, Precision
from service.core.memory.training.activations import layer_savings
from service.core.memory.training.adapters import adapter_parameters
from service.core.memory.training.memory import training_memory
from service.core.memory.training.settings import MicroBatch, TrainingSettings
from service.core.memory.training.state import stage_state, trained_parameters
from service.core.number_formats import NUMBER_FORMATS
from tests.core.calibrations import packaged_training_overheads
from tests.core.memory.memory_models import LLAMA_2_7B, LLAMA_3_8B, accelerator

BF16 = NUMBER_FORMATS["bf16"]
PRECISION = Precision(BF16, BF16, BF16)
SINGLE = Parallelism()
HIDDEN, WIDE, LAYERS = 4096, 11008, 32
QUERIES_AND_VALUES = TrainingSettings(method="lora", lora_targets=("q_proj", "v_proj"))


@pytest.mark.parametrize(
    ("adapter", "changes", "parameters"),
    [
        ("lora", {}, 8_388_608),
        ("rslora", {}, 8_388_608),
        # A magnitude for each output of each matrix.
        ("dora", {}, 8_388_608 + LAYERS * 2 * HIDDEN),
        ("lora-fa", {}, 4_194_304),
        # A singular value for each rank.
        ("adalora", {}, 8_388_608 + LAYERS * 2 * 16),
        ("vera", {"lora_rank": 256}, LAYERS * 2 * (256 + HIDDEN)),
        # "trainable params: 614,400" of Llama 2 7B in PEFT.
        ("ia3", {"lora_targets": ("k_proj", "v_proj", "down_proj")}, 614_400),
        # 1,024 blocks of 4 × 4, and a scale for each output.
        ("boft", {}, LAYERS * 2 * (HIDDEN * 4 + HIDDEN)),
        ("boft", {"boft_block_size": 8, "boft_factors": 2}, LAYERS * 2 * (HIDDEN * 16 + HIDDEN)),
        ("prompt", {}, 20 * HIDDEN),
        ("prefix", {}, LAYERS * 20 * 2 * HIDDEN),
        # Two norms a layer and the last one.
        ("norms", {}, (2 * LAYERS + 1) * HIDDEN),
    ],
)
def test_trained_parameters(adapter, changes, parameters):
    settings = replace(QUERIES_AND_VALUES, adapter=adapter, **changes)
    assert trained_parameters(LLAMA_2_7B, settings) == parameters
    state = stage_state(LLAMA_2_7B, PRECISION, SINGLE, settings, 0)
    assert state.trainable_elements == parameters
    assert state.gradients_bytes == 2 * parameters
    # Adam's moments and a master copy; AdaLoRA ranks by three tensors like the adapters.
    ranking = 3 * 2 if adapter == "adalora" else 0
    assert state.optimizer_bytes == (12 + ranking) * parameters


def test_prefixes_are_as_wide_as_keys_and_values():
    settings = TrainingSettings(method="lora", adapter="prefix", virtual_tokens=10)
    assert adapter_parameters(LLAMA_3_8B, settings) == 32 * 10 * 2 * 8 * 128


def test_what_is_frozen_is_held_without_gradients():
    plain = stage_state(LLAMA_2_7B, PRECISION, SINGLE, QUERIES_AND_VALUES, 0)
    halved = replace(QUERIES_AND_VALUES, adapter="lora-fa")
    frozen = stage_state(LLAMA_2_7B, PRECISION, SINGLE, halved, 0)
    assert frozen.weights_bytes == plain.weights_bytes
    assert frozen.gradients_bytes == plain.gradients_bytes / 2
    shared = replace(QUERIES_AND_VALUES, adapter="vera", lora_rank=256)
    vera = stage_state(LLAMA_2_7B, PRECISION, SINGLE, shared, 0)
    own = 2 * trained_parameters(LLAMA_2_7B, shared)
    random = 2 * 256 * (HIDDEN + HIDDEN)
    assert vera.weights_bytes == 2 * LLAMA_2_7B.total_parameters + own + random


def test_adapters_have_a_format_of_their_own():
    wide = replace(QUERIES_AND_VALUES, adapter_bytes=4.0)
    state = stage_state(LLAMA_2_7B, PRECISION, SINGLE, wide, 0)
    assert state.weights_bytes == 2 * LLAMA_2_7B.total_parameters + 4 * 8_388_608
    # In 32 bit there is no other master copy.
    assert state.optimizer_bytes == 8 * 8_388_608


@pytest.mark.parametrize(
    ("changes", "elements"),
    [
        # The input of the first norm's matrices, and two products of low rank.
        ({}, HIDDEN + 2 * 16),
        ({"adapter": "lora-fa"}, 2 * 16),
        # The results that vectors scale, of low rank and of each output.
        ({"adapter": "vera", "lora_rank": 64}, 2 * 64 + 2 * HIDDEN),
        # What magnitudes scale: results of matrices and of their updates.
        ({"adapter": "dora"}, HIDDEN + 2 * 16 + 2 * 2 * HIDDEN),
        ({"adapter": "ia3"}, 2 * HIDDEN),
        ({"adapter": "ia3", "lora_targets": ("down_proj",)}, WIDE),
        ({"adapter": "boft"}, HIDDEN),
        # An input of its own for each matrix, and a mask of a byte an element.
        ({"adapter_dropout": True}, 2 * HIDDEN + 2 * 16 + 2 * HIDDEN / 2),
        ({"adapter": "norms"}, 0),
        ({"adapter": "prefix"}, 0),
    ],
)
def test_activations_that_adapters_keep(changes, elements):
    def kept(settings):
        [savings] = layer_savings(LLAMA_2_7B, SINGLE, settings)
        return savings.stored_bytes_per_token / 2

    nothing = kept(replace(QUERIES_AND_VALUES, adapter="prompt"))
    assert kept(replace(QUERIES_AND_VALUES, **changes)) - nothing == elements


def test_prompts_make_sequences_longer():
    def memory(adapter, tokens):
        settings = replace(QUERIES_AND_VALUES, adapter=adapter, virtual_tokens=100)
        deployment = Deployment(LLAMA_2_7B, PRECISION, accelerator(80e9), SINGLE)
        overheads = packaged_training_overheads()
        return training_memory(deployment, MicroBatch(1, tokens), settings, overheads)

    prompted, longer = memory("prompt", 900), memory("norms", 1000)
    assert prompted.stored_activations_bytes == longer.stored_activations_bytes
    assert prompted.moments.logits_bytes == longer.moments.logits_bytes


def _memory(**changes):
    settings = replace(QUERIES_AND_VALUES, **changes)
    deployment = Deployment(LLAMA_2_7B, PRECISION, accelerator(80e9), SINGLE)
    return training_memory(deployment, MicroBatch(1, 512), settings, packaged_training_overheads())


@pytest.mark.parametrize("factors", [1, 2])
def test_boft_holds_a_permutation_of_each_factor_in_32_bit(factors):
    kept = _memory(adapter="boft", boft_block_size=8, boft_factors=factors)
    plain = _memory(adapter="ia3")
    own = 2 * (trained_parameters(LLAMA_2_7B, kept.settings))
    base = plain.weights_bytes.value - 2 * trained_parameters(LLAMA_2_7B, plain.settings)
    # 4,096 × 4,096 for queries and for values of each layer: 67 MB each, divided by nothing.
    permutations = LAYERS * 2 * factors * 4 * HIDDEN**2
    assert kept.weights_bytes.value == pytest.approx(base + own + permutations)
    sharded = stage_state(
        LLAMA_2_7B, PRECISION, Parallelism(data=8), replace(kept.settings, zero_stage=3), 0
    )
    assert sharded.fixed_bytes == permutations


def test_boft_keeps_turned_matrices_of_every_layer_unless_layers_are_recomputed():
    def turned(**changes):
        return _memory(adapter="boft", **changes).communication_parts_bytes["rotated_weights"]

    # An identity of each matrix's inputs, the turned matrix, and the scaled one, in 16 bit.
    layer = 2 * 3 * HIDDEN**2 * 2
    assert turned() == LAYERS * layer
    assert turned(activation_checkpointing="full") == layer
    # Each of two factors, their product, and an identity.
    assert turned(boft_factors=2) == LAYERS * 2 * (2 + 2 * 2) * HIDDEN**2 * 2


def test_the_norm_of_dora_takes_an_identity_and_three_copies_of_the_largest_matrix():
    found = _memory(adapter="dora", lora_targets=("q_proj", "down_proj"))
    assert found.communication_parts_bytes == {"normed_matrix": 2 * (WIDE**2 + 3 * WIDE * HIDDEN)}
    assert _memory().communication_parts_bytes == {}
