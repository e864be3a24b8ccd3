"""Parts of which a token uses some: blocks of keys, experts that compute, gates beside them."""

from typing import Any

import pytest

from service.core.architecture.config import ConfigNotUnderstood, parse_config
from service.core.architecture.model import Attention, MixtureOfExperts, StateMixer
from service.core.architecture.tensors import TensorClass
from service.core.deployment import Parallelism
from service.core.memory.kv_cache import INDEX_KEY_BYTES, cache_layout
from service.core.number_formats import NUMBER_FORMATS
from tests.core.architecture.published_models import sizes

MARKED = [0, 1, 1, 0]


def minimax(**rest: Any) -> dict[str, Any]:
    section = {
        "sparse_attention_freq": MARKED,
        "sparse_block_size": 64,
        "sparse_topk_blocks": 8,
        "sparse_index_dim": 32,
        "sparse_num_index_heads": 2,
    }
    plain = sizes("minimax_m3", 128, 4, 8, 1000, num_key_value_heads=2, intermediate_size=64)
    widths = {"dense_intermediate_size": 256, "shared_intermediate_size": 64, "head_dim": 16}
    kinds = {"moe_layer_freq": [0, 1, 1, 1], "sparse_attention_config": section}
    return {**plain, **widths, **kinds, **rest}


def attentions(config: dict[str, Any]) -> list[tuple[int, Attention]]:
    groups = parse_config(config).groups
    return [(group.count, group.mixer) for group in groups if isinstance(group.mixer, Attention)]


def test_marked_layers_attend_to_chosen_blocks_and_keep_a_key_to_choose_by():
    chosen = sum(count for count, mixer in attentions(minimax()) if mixer.chosen_tokens == 8 * 64)
    whole = sum(count for count, mixer in attentions(minimax()) if mixer.chosen_tokens is None)
    assert (chosen, whole) == (2, 2)


def test_keys_to_choose_by_are_cached_whole_on_each_rank():
    def bytes_per_token(ranks: int, config: dict[str, Any]) -> float:
        bf16 = NUMBER_FORMATS["bf16"]
        layout = cache_layout(parse_config(config), bf16, Parallelism(tensor=ranks))
        return layout.full_bytes_per_token

    unmarked = minimax(sparse_attention_config=None)
    for ranks in (1, 2):
        more = bytes_per_token(ranks, minimax()) - bytes_per_token(ranks, unmarked)
        assert more == pytest.approx(2 * 32 * INDEX_KEY_BYTES)


@pytest.mark.parametrize("marked", [[0, 1], [0, 1, 2, 0], "all"])
def test_marks_that_make_no_sense_are_refused(marked):
    config = minimax(sparse_attention_config={"sparse_attention_freq": marked})
    with pytest.raises(ConfigNotUnderstood, match="sparse_attention"):
        parse_config(config)


def longcat(**rest: Any) -> dict[str, Any]:
    return {
        "model_type": "longcat_flash",
        "hidden_size": 64,
        "ffn_hidden_size": 128,
        "expert_ffn_hidden_size": 32,
        "num_layers": 3,
        "num_attention_heads": 4,
        "q_lora_rank": 16,
        "kv_lora_rank": 8,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
        "n_routed_experts": 8,
        "zero_expert_num": 4,
        "moe_topk": 6,
        "vocab_size": 1000,
        **rest,
    }


def test_experts_that_compute_nothing_are_routed_to_and_hold_no_weights():
    with_idle, without = parse_config(longcat()), parse_config(longcat(zero_expert_num=0))
    assert with_idle.layer_count == without.layer_count == 6
    # The router's rows and biases of the idle ones, in each pair of layers.
    assert with_idle.total_parameters - without.total_parameters == 3 * 4 * (64 + 1)
    used = [
        group.feed_forward.experts_per_token
        for group in with_idle.groups
        if isinstance(group.feed_forward, MixtureOfExperts)
    ]
    assert used == [4]


def test_saved_anew_the_layers_are_counted_in_pairs_still():
    assert parse_config(longcat(num_hidden_layers=6)).layer_count == 6


def test_grok_2_states_the_name_of_another_kind():
    config = sizes(
        "git",
        64,
        2,
        4,
        1000,
        architectures=["Grok1ForCausalLM"],
        intermediate_size=128,
        moe_intermediate_size=32,
        num_local_experts=8,
        residual_moe=True,
    )
    found = parse_config(config)
    assert found.model_type == "grok-2"
    assert not found.tied_embeddings
    shared = [
        group.feed_forward.shared_intermediate_size
        for group in found.groups
        if isinstance(group.feed_forward, MixtureOfExperts)
    ]
    assert shared == [128]


def test_ling_2_5_is_told_apart_from_ling_3():
    config = sizes("bailing_hybrid", 64, 4, 4, 1000, intermediate_size=128)
    with pytest.raises(ConfigNotUnderstood, match=r"only Ling 3\.0"):
        parse_config(config)


def kimi(**rest: Any) -> dict[str, Any]:
    return sizes(
        "kimi_linear",
        64,
        4,
        4,
        1000,
        intermediate_size=128,
        moe_intermediate_size=32,
        num_experts=8,
        kv_lora_rank=16,
        qk_nope_head_dim=16,
        qk_rope_head_dim=8,
        v_head_dim=16,
        linear_attn_config={"full_attn_layers": [4], "head_dim": 16, "num_heads": 4},
        **rest,
    )


def test_kimi_k3_gates_its_latent_attention():
    gated, plain = parse_config(kimi(mla_use_output_gate=True)), parse_config(kimi())
    assert gated.total_parameters - plain.total_parameters == 64 * 4 * 16


def test_four_bits_packed_with_powers_of_two_leave_linear_attention_alone():
    packed = {
        "quant_method": "compressed-tensors",
        "format": "mxfp4-pack-quantized",
        "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*", "lm_head"],
        "config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 4}}},
    }
    found = parse_config(kimi(quantization_config=packed))
    assert any(isinstance(group.mixer, StateMixer) for group in found.groups)
    assert found.native_format == "mxfp4"
    assert found.native_number_format is not None
    left = {TensorClass.STATE, TensorClass.ATTENTION, TensorClass.SHARED_EXPERT}
    assert not left & found.native_number_format.quantised_classes
    assert TensorClass.EXPERT in found.native_number_format.quantised_classes
