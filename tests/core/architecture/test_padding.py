"""Heads that engines add so that tensor parallelism divides them."""

from __future__ import annotations

import pytest

from service.core.architecture.config import parse_config
from service.core.architecture.model import Attention
from service.core.architecture.padding import with_padded_heads

LLAMA_3_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


def attention(config: dict[str, object], ranks: int) -> Attention:
    mixer = with_padded_heads(parse_config(config), ranks).groups[0].mixer
    assert isinstance(mixer, Attention)
    return mixer


def test_query_heads_are_filled_up_and_keys_are_not():
    mixer = attention(LLAMA_3_8B, 12)
    shapes = {one.name: (one.input_features, one.output_features) for one in mixer.tensors}
    assert (mixer.query_heads, mixer.kv_heads) == (36, 8)
    assert shapes["q_proj"] == (4096, 36 * 128)
    assert shapes["k_proj"] == shapes["v_proj"] == (4096, 8 * 128)
    assert shapes["o_proj"] == (36 * 128, 4096)


def test_a_key_head_for_each_query_head_is_filled_up_alike():
    mixer = attention(LLAMA_3_8B | {"num_key_value_heads": 32}, 12)
    shapes = {one.name: (one.input_features, one.output_features) for one in mixer.tensors}
    assert (mixer.query_heads, mixer.kv_heads) == (36, 36)
    assert shapes["k_proj"] == shapes["v_proj"] == shapes["q_proj"] == (4096, 36 * 128)


@pytest.mark.parametrize("ranks", [1, 2, 8, 32])
def test_nothing_is_added_where_the_ranks_divide_the_heads(ranks):
    model = parse_config(LLAMA_3_8B)
    assert with_padded_heads(model, ranks) is model
