"""Configurations of any kind of model are computed, or refused with the reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.core.architecture.config import ConfigNotUnderstood, parse_config
from service.core.architecture.model import Attention, MixtureOfExperts, StateMixer
from tests.core.architecture.published_models import MODELS, sizes

#: Defaults of configuration classes of Hugging Face transformers 5.23, with the parameters of the
#: models that its modelling classes make of them.
REFERENCE: dict[str, Any] = json.loads(
    (Path(__file__).parent / "reference_configs.json").read_text()
)
#: A count may leave out buffers, such as the biases of routers.
TOLERANCE = 1e-3


def understood(config: dict[str, Any]) -> Any:
    found = parse_config(config)
    assert "unknown_model_type" not in {warning.code for warning in found.warnings}
    return found


def test_there_are_sixty_and_more():
    assert len(REFERENCE) >= 60


@pytest.mark.parametrize("model_type", REFERENCE)
def test_parameters_are_those_of_the_reference(model_type):
    case = REFERENCE[model_type]
    found = understood(case["config"])
    assert found.total_parameters == pytest.approx(case["parameters"], rel=TOLERANCE)


@pytest.mark.parametrize(
    ("model_type", "reason"),
    [
        ("rwkv6qwen2", "RWKV"),
        ("llada", "diffusion model of text"),
        ("dream", "diffusion model of text"),
        ("zamba2", "same block of attention"),
        ("xlstm", "linear recurrences"),
        ("retnet", "linear recurrences"),
        ("deepseek_v41", "compresses keys and values"),
        ("qwen4_exp", "compresses keys and values"),
        ("albert", "shares the weights of layers"),
        ("longformer", "encodes text"),
        ("xlnet", "encodes text"),
        ("electra", "encodes text"),
        ("wav2vec2", "reads or makes sound"),
        ("vits", "reads or makes sound"),
        ("seamless_m4t", "reads or makes sound"),
        ("clip", "sees images"),
        ("vit", "sees images"),
        ("sam", "sees images"),
        ("vision-encoder-decoder", "sees images"),
        ("timesfm", "series of numbers"),
        ("doge", "layers of a kind"),
        ("jetmoe", "layers of a kind"),
        ("longcat_flash_ngram", "layers of a kind"),
    ],
)
def test_kinds_that_are_not_computed_are_refused_as_such(model_type, reason):
    """Also where all sizes are there of which another kind could be made."""
    for config in (
        {"model_type": model_type},
        sizes(model_type, 64, 4, 4, 100, intermediate_size=128, is_encoder_decoder=True),
    ):
        with pytest.raises(ConfigNotUnderstood, match=reason) as fault:
            parse_config(config)
        assert fault.value.pointer == "/model_type"
        assert "missing" not in fault.value.reason


@pytest.mark.parametrize(
    ("config", "pointer", "reason"),
    [
        ({"_class_name": "FluxTransformer2DModel", "num_layers": 19}, "/_class_name", "diffusion"),
        ({"_diffusers_version": "0.30.0"}, "/_diffusers_version", "diffusion"),
        ({"peft_type": "LORA", "r": 16}, "/peft_type", "base model"),
        ({"tokenizer_class": "LlamaTokenizer"}, "/tokenizer_class", "tokenizer"),
        ({"metadata": {}, "weight_map": {}}, "/weight_map", "files of a checkpoint"),
        ({"hello": 1}, "/hidden_size", "as is model_type"),
        ({"model_type": "brand_new"}, "/hidden_size", "not a known kind of model"),
        ({"model_type": "led", "is_encoder_decoder": True}, "/is_encoder_decoder", "'led' is no"),
    ],
)
def test_other_files_and_kinds_are_told_apart(config, pointer, reason):
    with pytest.raises(ConfigNotUnderstood, match=reason) as fault:
        parse_config(config)
    assert fault.value.pointer == pointer


def test_a_language_model_inside_of_another_kind_does_not_hide_it():
    inner = MODELS["meta-llama/Llama-3.1-8B"][0]
    with pytest.raises(ConfigNotUnderstood, match="sees images"):
        parse_config({"model_type": "git", "text_config": inner, "vision_config": {}})


#: Layers of Llama-3.3-Nemotron-Super-49B-v1 in a row: how many, whether they have attention, and
#: the widths of their feed-forward parts over that of the hidden state.
NEMOTRON_RUNS = (
    *((1, True, 2.625), (5, True, 5.25), (2, False, 2.625), (3, True, 5.25), (1, False, 3.28125)),
    *((30, True, 5.25), (1, False, 1.3125), (2, False, 2.625), (1, False, 1.3125)),
    *((1, False, 5.25), (1, False, 1.3125), (1, False, 2.625), (3, False, 1.3125)),
    *((1, True, 5.25), (1, False, 1.3125), (2, False, 1.0), (1, False, 1.3125), (3, False, 1.0)),
    *((2, False, 1.3125), (2, False, 0.5), (2, False, 1.0), (2, False, 0.5), (1, False, 1.0)),
    *((2, False, 0.5), (9, True, 5.25)),
)


def nemotron() -> dict[str, Any]:
    blocks = [
        {
            "attention": {"no_op": not attends, "n_heads_in_group": 8 if attends else None},
            "ffn": {"no_op": False, "ffn_mult": multiple},
        }
        for count, attends, multiple in NEMOTRON_RUNS
        for _ in range(count)
    ]
    return {
        **sizes("nemotron-nas", 8192, 80, 64, 128256),
        "num_key_value_heads": None,
        "tie_word_embeddings": False,
        "block_configs": blocks,
    }


def test_searched_layers_have_sizes_of_their_own():
    found = understood(nemotron())
    assert found.total_parameters == 49_867_145_216
    assert found.layer_count == 80
    attending = [group for group in found.groups if isinstance(group.mixer, Attention)]
    assert sum(group.count for group in attending) == 49
    assert {group.mixer.kv_heads for group in attending} == {8}


@pytest.mark.parametrize(
    ("block", "pointer"),
    [
        ("x", "/block_configs"),
        ({"attention": {"no_op": True}}, "/block_configs"),
        ({"attention": {"n_heads_in_group": 5}, "ffn": {"no_op": True}}, "n_heads_in_group"),
        ({"attention": {"no_op": True}, "ffn": {}}, "ffn_mult"),
        ({"attention": {"replace_with_linear": True}, "ffn": {}}, "/block_configs"),
    ],
)
def test_searched_layers_that_make_no_sense(block, pointer):
    config = nemotron()
    config["block_configs"] = [*config["block_configs"][:-1], block]
    with pytest.raises(ConfigNotUnderstood) as fault:
        parse_config(config)
    assert fault.value.pointer.endswith(pointer)


def test_a_layer_whose_part_is_one_matrix():
    config = nemotron()
    before = parse_config(config).total_parameters
    config["block_configs"][0]["ffn"] = {"replace_with_linear": True}
    # Three matrices of 14,336 become a square one.
    assert parse_config(config).total_parameters == before - 3 * 8192 * 14336 + 8192**2


def test_linear_layers_of_minimax_m1_keep_a_state_and_no_keys():
    config = {
        **sizes("minimax_m1", 6144, 80, 64, 200064, intermediate_size=9216),
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_local_experts": 32,
        "num_experts_per_tok": 2,
        "attn_type_list": ([0] * 7 + [1]) * 10,
    }
    found = understood(config)
    assert found.total_parameters == pytest.approx(456_089_655_296, rel=TOLERANCE)
    kinds = {type(group.mixer): group.count for group in found.groups}
    assert kinds == {StateMixer: 70, Attention: 10}


def test_falcon_h1_has_both_mixers_in_each_layer():
    """Sizes of Falcon-H1-7B-Instruct."""
    config = {
        **sizes("falcon_h1", 3072, 44, 12, 130049, intermediate_size=12288),
        "num_key_value_heads": 2,
        "head_dim": 128,
        "mamba_d_ssm": 3072,
        "mamba_n_heads": 24,
        "mamba_d_head": 128,
        "mamba_n_groups": 1,
        "mamba_d_state": 256,
        "mamba_rms_norm": True,
        "tie_word_embeddings": False,
    }
    found = understood(config)
    assert found.total_parameters == 7_585_654_880
    assert found.layer_count == 44
    assert [(type(group.mixer), group.count) for group in found.groups] == [
        (StateMixer, 44),
        (Attention, 44),
    ]


def test_gemma_3n_states_a_width_for_each_layer():
    config = {**REFERENCE["gemma3n_text"]["config"]}
    listed = parse_config({**config, "intermediate_size": [16384] * 35})
    assert listed.total_parameters == parse_config(config).total_parameters
    readers = sum(group.count for group in listed.groups if group.mixer.shares_kv)
    assert readers == 15
    with pytest.raises(ConfigNotUnderstood, match="same for all"):
        parse_config({**config, "intermediate_size": [16384] * 34 + [8192]})


def test_experts_of_hunyuan_stated_for_each_layer():
    config = {
        **sizes("hunyuan_v1_moe", 4096, 32, 32, 128167, intermediate_size=3072),
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_experts": 64,
        "moe_topk": [8] * 32,
        "num_shared_expert": [1] * 32,
        "moe_intermediate_size": [3072] * 32,
        "use_qk_norm": True,
        "tie_word_embeddings": True,
    }
    found = understood(config)
    assert found.total_parameters == pytest.approx(80_393_183_232, rel=TOLERANCE)
    assert found.active_parameters == pytest.approx(13e9, rel=0.03)


def test_windows_of_mimo_have_other_heads():
    config = {
        **sizes("mimo_v2_flash", 4096, 48, 64, 152576, intermediate_size=16384),
        "num_key_value_heads": 4,
        "head_dim": 192,
        "v_head_dim": 128,
        "swa_num_attention_heads": 64,
        "swa_num_key_value_heads": 8,
        "swa_head_dim": 192,
        "swa_v_head_dim": 128,
        "sliding_window": 128,
        "add_swa_attention_sink_bias": True,
        "hybrid_layer_pattern": [0, *([1] * 4 + [0]), *([1] * 5 + [0]) * 7],
        "moe_layer_freq": [0] + [1] * 47,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
    }
    found = understood(config)
    # 47 biases of routers are buffers in the reference.
    assert found.total_parameters == 308_778_768_832 + 47 * 256
    kept = {
        (group.mixer.kv_heads, group.mixer.value_head_dim, group.mixer.window_tokens)
        for group in found.groups
        if isinstance(group.mixer, Attention)
    }
    assert kept == {(4, 128, None), (8, 128, 128)}
    with pytest.raises(ConfigNotUnderstood, match="must hold 1"):
        parse_config({**config, "moe_layer_freq": [2] * 48})


def test_experts_of_nemotron_3_read_a_narrower_state():
    """Sizes of Nemotron 3 Ultra, whose layers are known by their list only."""
    layers = ["mamba", "moe"] * 3 + ["mamba", "attention", "moe"]
    config = {
        **sizes("nemotron_h", 8192, 0, 64, 131072, intermediate_size=5120),
        "layers_block_type": layers,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "mamba_num_heads": 256,
        "mamba_head_dim": 64,
        "n_routed_experts": 512,
        "num_experts_per_tok": 22,
        "moe_intermediate_size": 5120,
        "moe_shared_expert_intermediate_size": 10240,
        "moe_latent_size": 2048,
    }
    del config["num_hidden_layers"]
    found = understood(config)
    assert found.layer_count == len(layers)
    moe = next(one.feed_forward for one in found.groups if one.feed_forward is not None)
    assert isinstance(moe, MixtureOfExperts)
    routed = sum(tensor.elements for tensor in moe.tensors if tensor.copies > 1)
    assert routed == 512 * 2 * 2048 * 5120
    assert {t.name for t in moe.tensors} >= {"fc1_latent_proj", "fc2_latent_proj"}


@pytest.mark.parametrize(
    ("sizes_of", "published"),
    [
        ((5376, 60, 32, 21504), 31_273_088_876),
        ((2816, 30, 16, 2112), 25_805_936_206),
    ],
)
def test_towers_of_gemma_4(sizes_of, published):
    """google/gemma-4-31B-it and google/gemma-4-26B-A4B-it with their towers."""
    hidden, layers, heads, inner = sizes_of
    text = {
        **sizes("gemma4_text", hidden, layers, heads, 262144, intermediate_size=inner),
        "num_key_value_heads": heads // 2,
        "num_global_key_value_heads": heads // 8,
        "attention_k_eq_v": True,
        "hidden_size_per_layer_input": 0,
        "sliding_window": 1024,
    }
    if layers == 30:
        text |= {
            "enable_moe_block": True,
            "num_experts": 128,
            "top_k_experts": 8,
            "moe_intermediate_size": 704,
        }
    tower = {
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 72,
        "standardize": True,
    }
    found = understood({"model_type": "gemma4", "text_config": text, "vision_config": tower})
    assert found.total_parameters == published
    assert found.images is not None
    assert (found.images.most_patches, found.images.most_tokens) == (2520, 280)
