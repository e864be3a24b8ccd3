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


@pytest.mark.parametrize(
    ("ranks", "queries", "keys"),
    [
        (24, 48, 24),  # each of eight is copied to three ranks
        (32, 32, 32),
        (12, 36, 36),  # ranks share none of eight evenly, so that each query has its own
    ],
)
def test_query_heads_are_filled_up_and_keys_are_copied(ranks, queries, keys):
    mixer = attention(LLAMA_3_8B, ranks)
    shapes = {one.name: (one.input_features, one.output_features) for one in mixer.tensors}
    assert (mixer.query_heads, mixer.kv_heads) == (queries, keys)
    assert shapes["q_proj"] == (4096, queries * 128)
    assert shapes["k_proj"] == shapes["v_proj"] == (4096, keys * 128)
    assert shapes["o_proj"] == (queries * 128, 4096)


def test_ranks_whose_queries_share_a_head_hold_it_once():
    shape = {"num_attention_heads": 72, "num_key_value_heads": 24, "head_dim": 128}
    mixer = attention(LLAMA_3_8B | shape, 32)
    assert (mixer.query_heads, mixer.kv_heads) == (96, 32)


def test_a_key_head_for_each_query_head_is_filled_up_alike():
    mixer = attention(LLAMA_3_8B | {"num_key_value_heads": 32}, 12)
    shapes = {one.name: (one.input_features, one.output_features) for one in mixer.tensors}
    assert (mixer.query_heads, mixer.kv_heads) == (36, 36)
    assert shapes["k_proj"] == shapes["v_proj"] == shapes["q_proj"] == (4096, 36 * 128)


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_nothing_is_added_where_the_ranks_divide_the_heads(ranks):
    model = parse_config(LLAMA_3_8B)
    assert with_padded_heads(model, ranks) is model
