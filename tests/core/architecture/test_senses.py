"""Models that see and hear have as many parameters as their published checkpoints hold."""

from typing import Any

import pytest

from service.core.architecture.config import ConfigNotUnderstood, parse_config
from tests.core.architecture.published_models import MODELS, sizes

CLIP = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "image_size": 336,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "patch_size": 14,
}
SIGLIP = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "patch_size": 14,
    "image_size": 224,
    "vision_use_head": False,
}
INTERN = {
    "model_type": "internvl_vision",
    "attention_bias": True,
    "hidden_size": 1024,
    "image_size": [448, 448],
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "patch_size": [14, 14],
}
LARGE_INTERN = {
    **INTERN,
    "attention_bias": False,
    "use_qk_norm": True,
    "norm_type": "rms_norm",
    "hidden_size": 3200,
    "intermediate_size": 12800,
    "num_hidden_layers": 45,
}
GLM = {
    "depth": 24,
    "hidden_size": 1536,
    "intermediate_size": 13696,
    "num_heads": 12,
    "image_size": 336,
    "patch_size": 14,
    "out_hidden_size": 4096,
    "attention_bias": False,
}
MISTRAL = {"intermediate_size": 14336, "num_key_value_heads": 8}
QWEN = {"intermediate_size": 18944, "num_key_value_heads": 4}
QWEN_7B = (3584, 28, 28)


def of(model_type: str, text: dict[str, Any], section: dict[str, Any], **rest: Any) -> Any:
    key = "audio_config" if rest.pop("hears", False) else "vision_config"
    return {"model_type": model_type, "text_config": text, key: section, **rest}


#: Configurations with the parameters that the Hub counts in the safetensors files of each.
PUBLISHED: dict[str, tuple[dict[str, Any], int]] = {
    "llava-hf/llava-1.5-7b-hf": (
        of("llava", sizes("llama", 4096, 32, 32, 32064, intermediate_size=11008), CLIP),
        7_063_427_072,
    ),
    "llava-hf/llava-v1.6-mistral-7b-hf": (
        of("llava_next", sizes("mistral", 4096, 32, 32, 32064, **MISTRAL), CLIP),
        7_566_747_648,
    ),
    "llava-hf/vip-llava-7b-hf": (
        of("vipllava", sizes("llama", 4096, 32, 32, 32064, intermediate_size=11008), CLIP),
        7_080_214_528,
    ),
    "mistral-community/pixtral-12b": (
        of(
            "llava",
            sizes("mistral", 5120, 40, 32, 131072, head_dim=128, **MISTRAL),
            {
                "model_type": "pixtral",
                "hidden_size": 1024,
                "intermediate_size": 4096,
                "num_hidden_layers": 24,
                "image_size": 1024,
                "patch_size": 16,
            },
        ),
        12_682_739_712,
    ),
    "google/paligemma-3b-pt-224": (
        of(
            "paligemma",
            sizes("gemma", 2048, 18, 8, 257216, intermediate_size=16384, num_key_value_heads=1),
            SIGLIP,
        ),
        2_923_466_480,
    ),
    "OpenGVLab/InternVL3-8B-hf": (
        of("internvl", sizes("qwen2", *QWEN_7B, 151674, **QWEN), INTERN),
        7_944_373_760,
    ),
    "OpenGVLab/InternVL3-38B-hf": (
        of(
            "internvl",
            sizes("qwen2", 5120, 64, 40, 151674, intermediate_size=27648, num_key_value_heads=8),
            LARGE_INTERN,
        ),
        38_388_164_992,
    ),
    "OpenGVLab/InternVL3-8B": (
        {
            "model_type": "internvl_chat",
            "llm_config": sizes("qwen2", *QWEN_7B, 151674, **QWEN),
            "vision_config": {**INTERN, "model_type": "intern_vit_6b", "qkv_bias": True},
        },
        7_944_373_760,
    ),
    "CohereLabs/aya-vision-8b": (
        of(
            "aya_vision",
            sizes("cohere2", 4096, 32, 32, 256000, tie_word_embeddings=True, **MISTRAL),
            {**SIGLIP, "image_size": 364},
            alignment_intermediate_size=28672,
        ),
        8_631_842_032,
    ),
    "Qwen/Qwen2-VL-7B-Instruct": (
        {
            **sizes("qwen2_vl", *QWEN_7B, 152064, **QWEN),
            "vision_config": {"depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "hidden_size": 3584},
        },
        8_291_375_616,
    ),
    "zai-org/GLM-4.1V-9B-Thinking": (
        of(
            "glm4v",
            sizes(
                "glm4v_text",
                4096,
                40,
                32,
                151552,
                intermediate_size=13696,
                num_key_value_heads=2,
                attention_bias=True,
            ),
            GLM,
        ),
        10_292_777_472,
    ),
    "zai-org/GLM-4.5V": (
        of(
            "glm4v_moe",
            sizes(
                "glm4v_moe_text",
                4096,
                46,
                96,
                151552,
                intermediate_size=10944,
                num_key_value_heads=8,
                head_dim=128,
                attention_bias=True,
                moe_intermediate_size=1408,
                n_routed_experts=128,
                n_shared_experts=1,
                num_experts_per_tok=8,
                first_k_dense_replace=1,
            ),
            {**GLM, "intermediate_size": 10944},
        ),
        107_710_933_120,
    ),
    "HuggingFaceTB/SmolVLM-Instruct": (
        of(
            "idefics3",
            sizes("llama", 2048, 24, 32, 49155, intermediate_size=8192),
            {**SIGLIP, "model_type": "idefics3_vision", "image_size": 384},
            scale_factor=3,
        ),
        2_246_272_880,
    ),
    "moonshotai/Kimi-K2.5": (
        of(
            "kimi_k25",
            sizes(
                "deepseek_v3",
                7168,
                61,
                64,
                163840,
                intermediate_size=18432,
                moe_intermediate_size=2048,
                n_routed_experts=384,
                n_shared_experts=1,
                num_experts_per_tok=8,
                first_k_dense_replace=1,
                q_lora_rank=1536,
                kv_lora_rank=512,
                qk_nope_head_dim=128,
                qk_rope_head_dim=64,
                v_head_dim=128,
            ),
            {"model_type": "kimi_k25_vision"},
        ),
        1_026_879_376_368,
    ),
    # The Hub counts 1,728 biases of routers more.
    "moonshotai/Kimi-VL-A3B-Instruct": (
        of(
            "kimi_vl",
            sizes(
                "deepseek_v3",
                2048,
                27,
                16,
                163840,
                intermediate_size=11264,
                moe_intermediate_size=1408,
                n_routed_experts=64,
                n_shared_experts=2,
                num_experts_per_tok=6,
                first_k_dense_replace=1,
                q_lora_rank=None,
                kv_lora_rank=512,
                qk_nope_head_dim=128,
                qk_rope_head_dim=64,
                v_head_dim=128,
            ),
            {
                "model_type": "moonvit",
                "hidden_size": 1152,
                "intermediate_size": 4304,
                "num_hidden_layers": 27,
                "patch_size": 14,
                "init_pos_emb_height": 64,
                "init_pos_emb_width": 64,
            },
        ),
        16_407_657_776 - 1728,
    ),
    "mistralai/Voxtral-Mini-3B-2507": (
        of(
            "voxtral",
            sizes(
                "llama",
                3072,
                30,
                32,
                131072,
                intermediate_size=8192,
                num_key_value_heads=8,
                head_dim=128,
            ),
            {
                "hidden_size": 1280,
                "intermediate_size": 5120,
                "num_hidden_layers": 32,
                "num_attention_heads": 20,
            },
            hears=True,
        ),
        4_676_271_104,
    ),
    "Qwen/Qwen3-ASR-1.7B": (
        of(
            "qwen3_asr",
            sizes(
                "qwen3",
                2048,
                28,
                16,
                151936,
                intermediate_size=6144,
                num_key_value_heads=8,
                tie_word_embeddings=True,
            ),
            {"d_model": 1024},
            hears=True,
        ),
        2_038_052_480,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_published_with_what_sees_and_hears(name):
    config, published = PUBLISHED[name]
    found = parse_config(config)
    assert found.total_parameters == published
    assert not {one.code for one in found.warnings} - {"prediction_layers_left_out"}


@pytest.mark.parametrize(
    ("name", "patches", "tokens"),
    [
        ("llava-hf/llava-1.5-7b-hf", 576, 576),
        # Rows of 64 patches, each with a token that ends it.
        ("mistral-community/pixtral-12b", 4096, 4160),
        ("google/paligemma-3b-pt-224", 256, 256),
        # Twelve tiles and the whole.
        ("OpenGVLab/InternVL3-8B-hf", 13 * 1025, 13 * 256),
        ("Qwen/Qwen2-VL-7B-Instruct", 65_536, 16_384),
        ("zai-org/GLM-4.1V-9B-Thinking", 30_000, 7500),
        ("moonshotai/Kimi-K2.5", 16_384, 4096),
    ],
)
def test_the_largest_image(name, patches, tokens):
    images = parse_config(PUBLISHED[name][0]).images
    assert images is not None
    assert (images.most_patches, images.most_tokens) == (patches, tokens)


@pytest.mark.parametrize(
    ("name", "tokens_a_second"),
    [("mistralai/Voxtral-Mini-3B-2507", 12.5), ("Qwen/Qwen3-ASR-1.7B", 13.0)],
)
def test_tokens_of_audio(name, tokens_a_second):
    audio = parse_config(PUBLISHED[name][0]).audio
    assert audio is not None
    encoder = audio.encoder
    assert encoder.window_positions is not None
    assert encoder.window_s is not None
    assert encoder.window_positions / audio.pooled / encoder.window_s == tokens_a_second


def test_what_speaks_in_an_omni_model_is_told_to_be_left_out():
    text, section = sizes("qwen2_5_omni_text", *QWEN_7B, 152064, **QWEN), {"depth": 32}
    thinker = of("qwen2_5_omni_thinker", text, section, audio_config={"d_model": 1280})
    found = parse_config(
        {"model_type": "qwen2_5_omni", "thinker_config": thinker, "talker_config": {}}
    )
    assert found.images is not None
    assert found.audio is not None
    assert [(one.code, "speech" in one.message) for one in found.warnings] == [
        ("modality_left_out", True)
    ]


def test_a_tower_of_another_kind_is_left_out_with_a_warning():
    config, published = MODELS["meta-llama/Llama-3.1-8B"]
    found = parse_config(of("llava", config, {"model_type": "eva_vit", "hidden_size": 64}))
    assert found.total_parameters == published
    assert [one.code for one in found.warnings] == ["modality_left_out"]


@pytest.mark.parametrize("model_type", ["blip-2", "janus", "granite_speech", "ovis2"])
def test_parts_that_are_not_computed_are_named_and_the_language_model_alone_is_answered(model_type):
    config, published = MODELS["meta-llama/Llama-3.1-8B"]
    with pytest.raises(ConfigNotUnderstood, match="its text_config alone is answered"):
        parse_config(of(model_type, config, {}))
    assert parse_config(config).total_parameters == published


def test_the_whole_says_whether_embeddings_are_tied():
    config, published = MODELS["meta-llama/Llama-3.1-8B"]
    found = parse_config(
        {
            "model_type": "llava",
            "tie_word_embeddings": True,
            "text_config": {**config, "tie_word_embeddings": False},
        }
    )
    assert found.total_parameters == published - 4096 * 128256


@pytest.mark.parametrize(
    ("stated", "causal"),
    [(True, False), ("all", False), ("vision", True), (False, True), (None, True)],
)
def test_decoders_that_see_both_ways_are_not_causal(stated, causal):
    """EmbeddingGemma is one; Gemma 4 lets only the patches of an image see each other."""
    config = sizes("gemma3_text", 128, 4, 4, 1000, intermediate_size=256, head_dim=32)
    assert parse_config({**config, "use_bidirectional_attention": stated}).causal is causal
