"""Kinds whose sections stand elsewhere than usual, or whose layers are RWKV's or Step's.

Counts are those of the checkpoints, or what Hugging Face transformers 5.23 makes of the sizes.
"""

from typing import Any

import pytest

from service.core.architecture.config import ConfigNotUnderstood, parse_config
from service.core.architecture.model import Attention, LatentAttention, StateMixer
from service.core.deployment import Parallelism
from service.core.memory.kv_cache import cache_layout
from service.core.number_formats import NUMBER_FORMATS
from tests.core.architecture.published_models import sizes

SO400M = {
    "model_type": "siglip",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "image_size": 980,
    "patch_size": 14,
}
DEEPSEEK_3B = {
    "hidden_size": 1280,
    "num_hidden_layers": 12,
    "num_attention_heads": 10,
    "num_key_value_heads": 10,
    "vocab_size": 129280,
    "intermediate_size": 6848,
    "moe_intermediate_size": 896,
    "n_routed_experts": 64,
    "num_experts_per_tok": 6,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "use_mla": False,
    "kv_lora_rank": None,
    "q_lora_rank": None,
    "qk_nope_head_dim": 0,
    "qk_rope_head_dim": 0,
    "v_head_dim": 0,
}
VL2_TOWER = {
    "model_type": "vision",
    "width": 1152,
    "layers": 27,
    "mlp_ratio": 3.7362,
    "patch_size": 14,
}
OCR_TOWERS = {
    "clip-l-14-224": {
        "heads": 16,
        "image_size": 224,
        "layers": 24,
        "patch_size": 14,
        "width": 1024,
    },
    "sam_vit_b": {
        "downsample_channels": [512, 1024],
        "global_attn_indexes": [2, 5, 8, 11],
        "heads": 12,
        "layers": 12,
        "width": 768,
    },
}
ERNIE_TEXT = {
    "intermediate_size": 12288,
    "num_key_value_heads": 4,
    "moe_intermediate_size": [1536, 512],
    "moe_k": 6,
    "moe_num_shared_experts": 2,
    "tie_word_embeddings": True,
}
STEP35 = {
    "intermediate_size": 11264,
    "num_attention_groups": 8,
    "head_dim": 128,
    "sliding_window": 512,
    "moe_num_experts": 288,
    "moe_top_k": 8,
    "moe_intermediate_size": 1280,
    "share_expert_dim": 1280,
    "moe_layers_enum": ",".join(str(layer) for layer in range(3, 48)),
    "num_nextn_predict_layers": 3,
}


def rwkv7(hidden: int, layers: int, gate: int) -> dict[str, Any]:
    return {
        "model_type": "rwkv7",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "vocab_size": 65536,
        "head_dim": 64,
        "hidden_ratio": 4.0,
        "decay_low_rank_dim": 96,
        "a_low_rank_dim": 96,
        "v_low_rank_dim": 64,
        "gate_low_rank_dim": gate,
    }


PUBLISHED: dict[str, tuple[dict[str, Any], int]] = {
    "openbmb/MiniCPM-V-2_6": (
        {
            **sizes("minicpmv", 3584, 28, 28, 151666, intermediate_size=18944),
            "num_key_value_heads": 4,
            "version": 2.6,
            "vision_config": SO400M,
        },
        8_099_175_152,
    ),
    "openbmb/MiniCPM-V-4_5": (
        {
            **sizes("minicpmv", 4096, 36, 32, 151748, intermediate_size=12288),
            "num_key_value_heads": 8,
            "head_dim": 128,
            "version": "4.5",
            "vision_config": SO400M,
        },
        8_695_895_280,
    ),
    "deepseek-ai/DeepSeek-OCR": (
        {
            "model_type": "deepseek_vl_v2",
            "language_config": DEEPSEEK_3B,
            "vision_config": {"image_size": 1024, "width": OCR_TOWERS},
        },
        3_336_106_240,
    ),
    "deepseek-ai/deepseek-vl2-tiny": (
        {
            "model_type": "deepseek_vl_v2",
            "language_config": {**DEEPSEEK_3B, "model_type": "deepseek_v2"},
            "projector_config": {"model_type": "mlp_projector", "n_embed": 1280},
            "vision_config": VL2_TOWER,
        },
        3_370_501_440,
    ),
    "microsoft/Phi-4-multimodal-instruct": (
        {
            **sizes("phi4mm", 3072, 32, 24, 200064, intermediate_size=8192),
            "num_key_value_heads": 8,
            "tie_word_embeddings": True,
            "embd_layer": {"image_embd_layer": {"crop_size": 448}},
            "vision_lora": {"r": 256},
            "speech_lora": {"r": 320},
            "audio_processor": {
                "config": {
                    "attention_dim": 1024,
                    "relative_attention_bias_args": {"t5_bias_max_distance": 500},
                }
            },
        },
        5_574_460_384,
    ),
    "baidu/ERNIE-4.5-VL-28B-A3B-PT": (
        {
            **sizes("ernie4_5_moe_vl", 2560, 28, 20, 103424, **ERNIE_TEXT),
            "moe_num_experts": [64, 64],
            "moe_layer_start_index": [1, 1],
            "vision_config": {"depth": 32, "embed_dim": 1280, "mlp_ratio": 4},
        },
        29_399_294_336,
    ),
    "stepfun-ai/Step-3.7-Flash": (
        {
            "model_type": "step3p7",
            "text_config": {
                **sizes("step3p5", 4096, 45, 64, 128815, **STEP35),
                "layer_types": ["full_attention"] * 48,
            },
            "vision_config": {"model_type": "perception_encoder", "width": 1536, "layers": 47},
        },
        # Biases of routers, which the checkpoint has, are buffers of the reference.
        197_824_847_872 + 42 * 288,
    ),
    # The report's 321 billion, of which 316 are the language model's.
    "stepfun-ai/step3": (
        {
            "model_type": "step3_vl",
            "text_config": {"model_type": "step3_text"},
            "vision_config": {},
        },
        320_969_912_832,
    ),
    "stepfun-ai/Step-Audio-2-mini": (
        {
            "model_type": "step_audio_2",
            "text_config": {
                **sizes("step_audio_2_text", 3584, 28, 28, 158720, intermediate_size=18944),
                "num_key_value_heads": 4,
            },
            "audio_encoder_config": {"n_mels": 128, "llm_dim": 3584},
        },
        8_315_179_264,
    ),
    "fla-hub/rwkv7-2.9B-world": (rwkv7(2560, 32, 320), 2_947_735_040),
    "fla-hub/rwkv7-1.5B-world": (rwkv7(2048, 24, 256), 1_527_404_544),
    "RWKV/v5-Eagle-7B-HF": (
        {"model_type": "rwkv5", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 65536},
        7_518_044_160,
    ),
    "RWKV/rwkv-6-world-1b6": (
        {"model_type": "rwkv6", "hidden_size": 2048, "num_hidden_layers": 24, "vocab_size": 65536},
        1_599_873_024,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_published(name):
    config, published = PUBLISHED[name]
    found = parse_config(config)
    assert found.total_parameters == published
    assert not {one.code for one in found.warnings} - {"prediction_layers_left_out"}


def test_deepseek_vl2_tiny_keeps_keys_and_values_and_the_larger_ones_latents():
    tiny = PUBLISHED["deepseek-ai/deepseek-vl2-tiny"][0]
    assert {type(one.mixer) for one in parse_config(tiny).groups} == {Attention}
    language = {**DEEPSEEK_3B, "model_type": "deepseek_v2", "use_mla": True}
    language |= {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
    larger = parse_config({**tiny, "language_config": {**language, "v_head_dim": 128}})
    assert {type(one.mixer) for one in larger.groups} == {LatentAttention}


def test_experts_for_images_are_held_and_see_no_text():
    found = parse_config(PUBLISHED["baidu/ERNIE-4.5-VL-28B-A3B-PT"][0])
    images = 27 * 64 * 3 * 2560 * 512
    assert sum(one.elements for one in found.other if "vision." in one.name) > images
    assert found.active_parameters < found.total_parameters - images
    assert found.active_parameters == pytest.approx(4.13e9, rel=0.01)


def test_layers_with_windows_have_heads_of_their_own():
    config = PUBLISHED["stepfun-ai/Step-3.7-Flash"][0]
    kinds = ["full_attention", *["sliding_attention"] * 3] * 12
    text = {
        **config["text_config"],
        "layer_types": kinds,
        "attention_other_setting": {"num_attention_heads": 96},
    }
    found = parse_config({**config, "text_config": text})
    heads = {
        one.mixer.window_tokens: one.mixer.query_heads
        for one in found.groups
        if isinstance(one.mixer, Attention)
    }
    assert heads == {None: 64, 512: 96}


def test_rwkv_keeps_a_matrix_for_each_head_and_no_keys():
    found = parse_config(PUBLISHED["fla-hub/rwkv7-2.9B-world"][0])
    assert [group.count for group in found.groups] == [1, 31]
    for group in found.groups:
        assert isinstance(group.mixer, StateMixer)
        assert group.mixer.recurrent_state_elements == 40 * 64 * 64
        assert group.mixer.convolution_state_elements == 2 * 2560


def test_layers_that_read_latents_of_others_keep_none():
    """Mistral Large 4: nine layers without rotary positions, and nine more without latents."""
    config = {
        **sizes("mistral_large4_text", 6144, 72, 64, 204_800, intermediate_size=24_576),
        "moe_intermediate_size": 6144,
        "kv_source_layers": [35 if at > 35 and at % 4 == 3 else at for at in range(72)],
    }
    layout = cache_layout(parse_config(config), NUMBER_FORMATS["bf16"], Parallelism())
    latents = 54 * (512 + 64) + 9 * 512
    assert layout.full_bytes_per_token == 2 * latents + 72 * (128 + 4)


def test_rwkv_4_keeps_vectors_and_rwkv_5_matrices():
    sizes = {"hidden_size": 2048, "num_hidden_layers": 24, "vocab_size": 65536}
    held = {}
    for kind in ("rwkv", "rwkv5"):
        mixer = parse_config({"model_type": kind, **sizes}).groups[0].mixer
        assert isinstance(mixer, StateMixer)
        held[kind] = mixer.recurrent_state_elements
    assert held == {"rwkv": 3 * 2048, "rwkv5": 2048 * 64}


def test_slices_of_an_image():
    images = parse_config(PUBLISHED["openbmb/MiniCPM-V-2_6"][0]).images
    assert images is not None
    assert (images.most_patches, images.most_tokens) == (10 * 1024, 640)


@pytest.mark.parametrize(
    ("name", "tokens_a_second"),
    [("microsoft/Phi-4-multimodal-instruct", 12.5), ("stepfun-ai/Step-Audio-2-mini", 12.5)],
)
def test_tokens_of_audio(name, tokens_a_second):
    audio = parse_config(PUBLISHED[name][0]).audio
    assert audio is not None
    encoder = audio.encoder
    assert encoder.window_positions is not None
    assert encoder.window_s is not None
    assert encoder.window_positions / audio.pooled / encoder.window_s == tokens_a_second


def test_a_tower_that_is_not_known_is_left_out_with_a_warning():
    config = PUBLISHED["deepseek-ai/DeepSeek-OCR"][0]
    towers = {"qwen2-0-5b": {"dim": 896}, "sam_vit_b": OCR_TOWERS["sam_vit_b"]}
    found = parse_config({**config, "vision_config": {"width": towers}})
    assert {one.code for one in found.warnings} == {"modality_left_out"}


@pytest.mark.parametrize(
    ("name", "changed", "pointer"),
    [
        ("fla-hub/rwkv7-2.9B-world", {"gate_low_rank_dim": None}, "/gate_low_rank_dim"),
        ("fla-hub/rwkv7-2.9B-world", {"head_dim": 60}, "/head_dim"),
        (
            "stepfun-ai/step3",
            {"text_config": {"moe_layers_enum": "a,b"}},
            "/text_config/moe_layers_enum",
        ),
        ("baidu/ERNIE-4.5-VL-28B-A3B-PT", {"moe_intermediate_size": [1]}, "/moe_intermediate_size"),
    ],
)
def test_sizes_that_make_no_sense_are_named(name, changed, pointer):
    config = PUBLISHED[name][0]
    if "text_config" in changed:
        changed = {"text_config": {**config["text_config"], **changed["text_config"]}}
    with pytest.raises(ConfigNotUnderstood) as fault:
        parse_config({**config, **changed})
    assert fault.value.pointer == pointer
