"""Caches of long sequences against sums by hand, from the configurations that makers publish.

Bytes are layers × 2 (keys and values) × heads × width × 2 bytes for each token, for the layers that
keep all tokens; windows keep whole pages of 16 tokens and one page more while they slide; states
do not grow. The sums are written out, so that they can be checked beside a config.json.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from service.core.architecture.config import parse_config
from service.core.deployment import Parallelism
from service.core.memory.kv_cache import cache_layout, layout_sequence_bytes
from service.core.number_formats import NUMBER_FORMATS

MODELS = Path(__file__).parents[3] / "hardware_catalog" / "models"
PAGE = 16
BF16_BYTES = 2
STATE_BYTES = 4


def keeps(name: str, tokens: int, kv_format: str = "bf16", tensor: int = 1) -> float:
    """Bytes of one sequence's caches on a rank."""
    document = yaml.safe_load((MODELS / f"{name}.yaml").read_text(encoding="utf-8"))
    architecture = parse_config(document["config"])
    layout = cache_layout(architecture, NUMBER_FORMATS[kv_format], Parallelism(tensor=tensor), PAGE)
    return float(layout_sequence_bytes(layout, float(tokens)))


def per_token(heads: int, width: int) -> int:
    """Keys and values of one layer in 16 bit [B]."""
    return 2 * heads * width * BF16_BYTES


def test_gemma_3_keeps_all_tokens_in_every_sixth_layer():
    # 62 layers: 5, 11, …, 59 see everything, which is ten; the others see 1024 tokens.
    each = per_token(16, 128)
    everything = 10 * each * 131_072
    windows = 52 * each * PAGE * (1024 // PAGE + 1)
    assert keeps("google--gemma-3-27b-it", 131_072) == everything + windows
    assert everything + windows == pytest.approx(11.18e9, rel=1e-3)


def test_gpt_oss_keeps_all_tokens_in_every_other_layer():
    each = per_token(8, 64)
    everything = 18 * each * 131_072
    windows = 18 * each * PAGE * (128 // PAGE + 1)
    assert keeps("openai--gpt-oss-120b", 131_072) == everything + windows
    # Windows are a thousandth: half of what all layers would keep.
    assert everything + windows == pytest.approx(4.84e9, rel=1e-3)


@pytest.mark.parametrize("tokens", [262_144, 1_048_576])
def test_qwen3_next_keeps_tokens_in_a_quarter_of_its_layers_and_states_in_the_rest(tokens):
    # 48 layers, every fourth with attention of two heads of 256. A gated delta rule has 32 states
    # of 128 × 128 in 32 bit, and three past inputs of 16 + 16 + 32 heads of 128 in its convolution.
    everything = 12 * per_token(2, 256) * tokens
    states = 36 * (32 * 128 * 128 * STATE_BYTES + 3 * 64 * 128 * BF16_BYTES)
    assert keeps("Qwen--Qwen3-Next-80B-A3B-Instruct", tokens) == everything + states
    assert everything == pytest.approx(6.44e9 * tokens / 262_144, rel=1e-3)


@pytest.mark.parametrize("tokens", [262_144, 1_048_576])
def test_jamba_keeps_tokens_in_four_of_its_layers(tokens):
    # Layers 4, 12, 20 and 28. Mamba: 8192 channels of 16 states in 32 bit and three past inputs.
    everything = 4 * per_token(8, 128) * tokens
    states = 28 * (8192 * 16 * STATE_BYTES + 3 * 8192 * BF16_BYTES)
    assert keeps("ai21labs--AI21-Jamba-Mini-1.6", tokens) == everything + states


def test_minimax_text_keeps_a_million_tokens_in_ten_layers():
    # 80 layers, every eighth with softmax attention; linear attention has 64 states of 128 × 128.
    tokens = 1_048_576
    everything = 10 * per_token(8, 128) * tokens
    states = 70 * 64 * 128 * 128 * STATE_BYTES
    assert keeps("MiniMaxAI--MiniMax-Text-01", tokens) == everything + states
    assert everything == pytest.approx(42.95e9, rel=1e-3)


def test_latents_are_kept_once_for_all_heads_and_on_every_rank():
    # DeepSeek-V3: 512 of latents and 64 of rotary keys a layer, whatever the number of heads.
    tokens = 163_840
    whole = 61 * (512 + 64) * BF16_BYTES * tokens
    assert keeps("deepseek-ai--DeepSeek-V3", tokens) == whole == pytest.approx(11.51e9, rel=1e-3)
    assert keeps("deepseek-ai--DeepSeek-V3", tokens, tensor=8) == whole


def test_sparse_latents_have_an_index_of_132_bytes_beside_them():
    # DeepSeek-V3.2: 128 keys in 8 bit and a scale; in 8 bit the latent has four scales, and the
    # rotary keys stay in 16 bit.
    tokens = 163_840
    index = 128 + 4
    wide, narrow = 576 * BF16_BYTES, 512 + 4 * 4 + 64 * BF16_BYTES
    assert keeps("deepseek-ai--DeepSeek-V3.2", tokens) == 61 * (wide + index) * tokens
    assert keeps("deepseek-ai--DeepSeek-V3.2", tokens, "fp8") == 61 * (narrow + index) * tokens
