from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.architecture.config import parse_config
from service.core.memory.checkpoint import (
    CheckpointNotUnderstood,
    stated_checkpoint_bytes,
    with_checkpoint,
)
from service.core.memory.weights import total_model_bytes
from service.core.number_formats import NUMBER_FORMATS

BF16 = NUMBER_FORMATS["bf16"]
LLAMA_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}
#: metadata.total_size of the index of meta-llama/Llama-3.1-8B.
PUBLISHED_BYTES = 16_060_522_496


def codes(architecture) -> list[str]:
    return [warning.code for warning in architecture.warnings]


def test_a_published_index_agrees_with_its_configuration():
    index = {"metadata": {"total_size": PUBLISHED_BYTES}, "weight_map": {"lm_head.weight": "a"}}
    stated = stated_checkpoint_bytes(index)
    assert stated == PUBLISHED_BYTES
    architecture = parse_config(LLAMA_8B)
    assert total_model_bytes(architecture, BF16) == pytest.approx(stated, rel=1e-6)
    assert with_checkpoint(architecture, BF16, stated) is architecture


def test_a_summary_by_type_counts_each_in_its_width():
    summary = {"parameters": {"BF16": 1_000, "F32": 10, "F8_E4M3": 100, "F4": 4}, "total": 1114}
    assert stated_checkpoint_bytes(summary) == 2_000 + 40 + 100 + 2


def test_what_the_configuration_does_not_name_is_counted_and_said():
    architecture = parse_config(LLAMA_8B)
    tower = 1.2e9
    found = with_checkpoint(architecture, BF16, PUBLISHED_BYTES + tower)
    assert total_model_bytes(found, BF16) == pytest.approx(PUBLISHED_BYTES + tower, rel=1e-6)
    assert codes(found)[-1] == "checkpoint_holds_more"


@pytest.mark.parametrize("ratio", [2.0, 0.5])
def test_another_format_is_said_and_not_counted(ratio: float):
    architecture = parse_config(LLAMA_8B)
    found = with_checkpoint(architecture, BF16, PUBLISHED_BYTES * ratio)
    assert total_model_bytes(found, BF16) == total_model_bytes(architecture, BF16)
    assert codes(found)[-1] == "checkpoint_disagrees"


def test_a_tied_table_that_is_there_twice_is_kept_once():
    architecture = parse_config(LLAMA_8B | {"tie_word_embeddings": True})
    expected = total_model_bytes(architecture, BF16)
    found = with_checkpoint(architecture, BF16, expected + 2.0 * 128256 * 4096)
    assert total_model_bytes(found, BF16) == expected
    assert codes(found)[-1] == "checkpoint_repeats_table"


@pytest.mark.parametrize(
    ("index", "pointer"),
    [
        ({}, ""),
        ({"metadata": {}}, ""),
        ({"metadata": {"total_size": "16"}}, "/metadata/total_size"),
        ({"metadata": {"total_size": True}}, "/metadata/total_size"),
        ({"metadata": {"total_size": -1}}, "/metadata/total_size"),
        ({"metadata": {"total_size": 1e30}}, "/metadata/total_size"),
        ({"parameters": {}}, ""),
        ({"parameters": {"Q7": 1}}, "/parameters"),
        ({"parameters": {"BF16": None}}, "/parameters/BF16"),
    ],
)
def test_metadata_without_a_size_are_refused_at_the_fault(index, pointer):
    with pytest.raises(CheckpointNotUnderstood) as refused:
        stated_checkpoint_bytes(index)
    assert refused.value.pointer == pointer


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["metadata", "parameters", "weight_map"]), JSON)
    | st.fixed_dictionaries({"metadata": st.fixed_dictionaries({"total_size": JSON})})
)
def test_hostile_metadata_are_a_size_or_a_refusal(index):
    try:
        assert 0.0 < stated_checkpoint_bytes(index) < float("inf")
    except CheckpointNotUnderstood:
        return
