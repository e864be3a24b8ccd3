"""What becomes of an image, by the documented behaviour of each model's processor."""

from __future__ import annotations

import pytest

from service.core.architecture.config import parse_config
from service.core.architecture.images import ImageView, image_view
from service.core.architecture.model import ImageEncoder
from service.core.deployment import Parallelism, Precision
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.step import step_time
from service.core.performance.steps import StepLoad
from service.core.performance.work import rank_work
from tests.core.deployments import CALIBRATION, H100

TEXT = {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
}
QWEN25_VL = {"model_type": "qwen2_5_vl", **TEXT, "vision_config": {"hidden_size": 1280}}
CONFIGS = {
    "qwen2_5_vl": QWEN25_VL,
    "qwen3_vl": {
        "model_type": "qwen3_vl",
        "text_config": {"model_type": "qwen3_vl_text", **TEXT},
        "vision_config": {"hidden_size": 1152},
    },
    "gemma3": {
        "model_type": "gemma3",
        "text_config": {"model_type": "gemma3_text", **TEXT},
        "vision_config": {"hidden_size": 1152},
    },
    "mistral3": {
        "model_type": "mistral3",
        "text_config": {"model_type": "mistral", **TEXT},
        "vision_config": {"hidden_size": 1024},
    },
    "llama4": {
        "model_type": "llama4",
        "text_config": {
            "model_type": "llama4_text",
            **TEXT,
            "num_local_experts": 16,
            "intermediate_size_mlp": 16384,
        },
        "vision_config": {"hidden_size": 1408},
    },
}


def tower(name: str) -> ImageEncoder:
    images = parse_config(CONFIGS[name]).images
    assert images is not None
    return images


@pytest.mark.parametrize(
    ("name", "size", "patches", "tokens"),
    [
        # Sides to the nearest multiple of 28; four patches of 14 a token.
        ("qwen2_5_vl", (1024, 1024), 37 * 37 * 4, 37 * 37),
        ("qwen2_5_vl", (1, 1), 4, 1),
        # The same with 32.
        ("qwen3_vl", (1024, 1024), 4096, 1024),
        ("qwen3_vl", (1920, 1080), 60 * 34 * 4, 60 * 34),
        # Always 896 × 896, pooled to 256.
        ("gemma3", (4000, 300), 4096, 256),
        # Filled up to multiples of 28, and one token more for each row.
        ("mistral3", (1024, 1024), 37 * 37 * 4, 37 * 38),
        # No side longer than 1,540 px.
        ("mistral3", (3080, 1540), 55 * 28 * 4, 28 * 56),
        # Sixteen tiles of 336 and the whole: 577 patches and 144 tokens each.
        ("llama4", (1024, 1024), 17 * 577, 17 * 144),
        ("llama4", (300, 300), 577, 144),
    ],
)
def test_patches_and_tokens_of_an_image(name, size, patches, tokens):
    grid = tower(name).grid
    assert grid is not None
    view = image_view(grid, *size)
    assert (view.patches, view.tokens) == (patches, tokens)


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl", "mistral3", "llama4"])
@pytest.mark.parametrize("size", [(100_000, 100_000), (100_000, 1), (1, 100_000)])
def test_no_image_is_larger_than_the_largest(name, size):
    images = tower(name)
    assert images.grid is not None
    assert 1 <= image_view(images.grid, *size).patches <= images.most_patches


def test_tiles_do_not_attend_to_each_other():
    grid = tower("llama4").grid
    assert grid is not None
    assert image_view(grid, 1024, 1024).parts == 17
    grid = tower("gemma3").grid
    assert grid is not None
    assert image_view(grid, 1024, 1024) == ImageView(4096, 256, 1)


def test_flops_of_qwen25_vl_s_tower_over_an_image():
    # 32 layers of four projections and three matrices of 3,420; 28 of them look at windows of
    # 8 × 8 patches, four at the whole image; four patches at a time are merged and projected.
    bf16 = NUMBER_FORMATS["bf16"]
    work = rank_work(parse_config(QWEN25_VL), Precision(bf16, bf16, bf16), Parallelism()).images
    assert work is not None
    patches = 5476.0
    load = StepLoad(patches, 1.0, patches / 2.0, 0.0, 0.0)
    step = step_time(work, load, H100, Parallelism(), CALIBRATION)
    layers = 32 * (4 * 1280**2 + 3 * 1280 * 3420) + 2 * 3 * 14**2 * 1280
    merger = 5120 * 5120 + 5120 * 3584
    attention = 4.0 * 1280 * patches * (4 * patches + 28 * 64)
    expected = 2.0 * patches * layers + 2.0 * patches / 4 * merger + attention
    assert step.flops == pytest.approx(expected)
    # Weights are read once, those of the merger too.
    weights = 2.0 * (layers + merger)
    assert step.memory_bytes > weights
