"""Caches against the figures of the source documents and of engines' own page arithmetic."""

from dataclasses import replace

import numpy as np
import pytest

from service.core.architecture.model import Span
from service.core.deployment import Parallelism
from service.core.memory.kv_cache import (
    cache_layout,
    layout_sequence_bytes,
)
from service.core.number_formats import NUMBER_FORMATS
from tests.core.memory.memory_models import (
    DEEPSEEK_V3,
    GEMMA_3_27B,
    LLAMA_2_7B,
    LLAMA_3_8B,
    LLAMA_31_70B,
    MHA_13B,
    MQA_13B,
    attention,
    feed_forward,
    latent_attention,
    layers,
    model,
    state_mixer,
)

BF16 = NUMBER_FORMATS["bf16"]
SINGLE_ACCELERATOR = Parallelism()


def of_span(span, window):
    mixer = attention(4096, 32, 32, 128, span, window)
    return model(4096, 32000, [layers(32, mixer, feed_forward(4096, 11008), 4096)])


def per_token(architecture, kv_format, tensor=1):
    return cache_layout(architecture, kv_format, Parallelism(tensor=tensor)).full_bytes_per_token


def sequence_bytes(architecture, tokens, parallelism=SINGLE_ACCELERATOR, step_tokens=1.0):
    layout = cache_layout(architecture, BF16, parallelism)
    return layout_sequence_bytes(layout, tokens, step_tokens)


SLIDING = of_span(Span.SLIDING, 4096)
CHUNKED = of_span(Span.CHUNKED, 4096)


def test_known_bytes_per_token():
    assert per_token(LLAMA_31_70B, BF16) == 327_680
    assert per_token(LLAMA_2_7B, BF16) == 524_288
    assert per_token(MHA_13B, BF16) == 819_200
    assert per_token(DEEPSEEK_V3, BF16) == 61 * 576 * 2


def test_figures_of_the_source_documents():
    grouped = model(
        4096, 32000, [layers(32, attention(4096, 32, 8, 128), feed_forward(4096, 11008), 4096)]
    )
    shared = model(
        4096, 32000, [layers(32, attention(4096, 32, 1, 128), feed_forward(4096, 11008), 4096)]
    )
    assert sequence_bytes(LLAMA_2_7B, 4096) == pytest.approx(2.147e9, rel=0.001)
    assert 8 * sequence_bytes(LLAMA_2_7B, 4096) == pytest.approx(17.18e9, rel=0.001)
    assert sequence_bytes(grouped, 4096) == pytest.approx(0.537e9, rel=0.001)
    assert sequence_bytes(shared, 4096) == pytest.approx(0.0671e9, rel=0.001)
    assert 32 * sequence_bytes(MHA_13B, 4096) == pytest.approx(107.4e9, rel=0.001)
    assert sequence_bytes(LLAMA_2_7B, 131_072) == pytest.approx(68.7e9, rel=0.001)
    assert sequence_bytes(LLAMA_31_70B, 131_072) == pytest.approx(42.9e9, rel=0.002)
    assert per_token(MHA_13B, BF16) / per_token(MQA_13B, BF16) == 40


def test_a_sequence_wastes_less_than_a_page():
    # Half a page of 16 tokens on average: 6.6 MB a sequence of the 13B model.
    sizes = [sequence_bytes(MHA_13B, n) - 819_200 * n for n in range(4081, 4097)]
    assert max(sizes) == 15 * 819_200
    assert sum(sizes) / len(sizes) + 819_200 / 2 == pytest.approx(6.55e6, rel=0.001)


def test_a_window_of_4096_leaves_3_percent_at_131072():
    ratio = sequence_bytes(SLIDING, 131_072) / sequence_bytes(LLAMA_2_7B, 131_072)
    assert ratio == pytest.approx(4096 / 131_072, rel=0.005)


def test_windows_follow_the_page_rules_of_vllm():
    page = 16 * 524_288
    assert sequence_bytes(SLIDING, 131_072, step_tokens=2048) == page * (
        -(-(4096 - 1 + 2048) // 16) + 1
    )
    assert sequence_bytes(CHUNKED, 131_072, step_tokens=2048) == page * (-(-(4096 + 2048) // 16))
    # A sequence shorter than the window takes what it would take without one.
    assert sequence_bytes(SLIDING, 100) == sequence_bytes(LLAMA_2_7B, 100)


def test_gemma_grows_by_its_ten_full_layers_only():
    layout = cache_layout(GEMMA_3_27B, BF16, Parallelism())
    per_token_bytes = layout.full_bytes_per_token
    assert per_token_bytes == 10 * 2 * 16 * 128 * 2
    assert per_token_bytes + layout.windowed_bytes_per_token == 62 * 2 * 16 * 128 * 2
    growth = sequence_bytes(GEMMA_3_27B, 65_536) - sequence_bytes(GEMMA_3_27B, 32_768)
    assert growth == 32_768 * per_token_bytes


@pytest.mark.parametrize(
    ("format_id", "ratio"),
    [
        ("fp8", 0.5),
        ("int8", 0.5),
        ("nvfp4", 4.5 / 16),
        ("fp8-per-token-head", (128 + 4) / 256),
        ("int8-per-token-head", (128 + 4) / 256),
    ],
)
def test_quantised_caches(format_id, ratio):
    narrow = per_token(LLAMA_3_8B, NUMBER_FORMATS[format_id])
    assert narrow / per_token(LLAMA_3_8B, BF16) == ratio


def test_heads_are_replicated_past_their_number_and_latents_always():
    assert per_token(LLAMA_3_8B, BF16, 8) == 32 * 2 * 128 * 2
    assert per_token(LLAMA_3_8B, BF16, 16) == per_token(LLAMA_3_8B, BF16, 8)
    assert per_token(DEEPSEEK_V3, BF16, 8) == per_token(DEEPSEEK_V3, BF16)


def test_sparse_attention_keeps_656_bytes_and_an_index_in_8_bit():
    sparse = model(
        7168, 129280, [layers(1, latent_attention(True), feed_forward(7168, 18432), 7168)]
    )
    assert per_token(sparse, NUMBER_FORMATS["fp8"]) == 656 + 132
    assert per_token(sparse, BF16) == 576 * 2 + 132


def test_states_do_not_grow():
    mixer = state_mixer(2048, 32, recurrent=64 * 64 * 128, convolution=3 * 4352)
    states = model(2048, 32000, [layers(24, mixer, None, 2048)])
    size = 24 * (64 * 64 * 128 * 4 + 3 * 4352 * 2)
    assert sequence_bytes(states, 10) == size
    assert sequence_bytes(states, 1_000_000) == size
    assert sequence_bytes(states, 10, Parallelism(tensor=4)) == size / 4
    assert sequence_bytes(states, 10, Parallelism(tensor=64)) == size / 32


def test_pipeline_and_context_parallelism_divide_layers_and_tokens():
    whole = sequence_bytes(LLAMA_31_70B, 32_768)
    halved = sequence_bytes(LLAMA_31_70B, 32_768, Parallelism(context=2))
    assert halved == whole / 2
    deepest = sequence_bytes(LLAMA_31_70B, 32_768, Parallelism(pipeline=3))
    assert deepest == pytest.approx(whole * 27 / 80)


def test_arrays_give_what_floats_give():
    tokens = np.array([1.0, 15.0, 16.0, 1023.0, 1025.0, 40_000.0])
    layout = cache_layout(GEMMA_3_27B, BF16, Parallelism())
    together = layout_sequence_bytes(layout, tokens, 2048.0)
    assert together.tolist() == [layout_sequence_bytes(layout, float(n), 2048.0) for n in tokens]


def test_engines_with_one_kind_of_pages_keep_all_tokens_of_windows_beside_full_layers():
    tokens = 40_960.0

    def kept(architecture, pages_windows):
        layout = cache_layout(architecture, BF16, SINGLE_ACCELERATOR, pages_windows=pages_windows)
        return layout_sequence_bytes(layout, tokens)

    # Five of six layers of Gemma 3 attend to a window.
    assert kept(GEMMA_3_27B, True) == tokens * per_token_of_all(GEMMA_3_27B)
    assert kept(GEMMA_3_27B, False) < 0.25 * kept(GEMMA_3_27B, True)
    # Where all layers have the same window, none needs more pages than it holds.
    assert kept(SLIDING, True) == kept(SLIDING, False)


def test_engines_that_keep_passed_tokens_give_room_for_all_whatever_windows_see():
    """ExLlamaV2 makes one cache of the longest sequence for each layer."""
    tokens = 32_768.0
    for architecture in (SLIDING, GEMMA_3_27B):
        layout = cache_layout(architecture, BF16, SINGLE_ACCELERATOR, keeps_passed=True)
        kept = layout_sequence_bytes(layout, tokens)
        assert kept == tokens * per_token_of_all(architecture)


def per_token_of_all(architecture):
    layout = cache_layout(architecture, BF16, SINGLE_ACCELERATOR)
    return layout.full_bytes_per_token + layout.windowed_bytes_per_token


def test_pools_for_windows_hold_a_share_of_all_tokens_and_layers_that_share_caches():
    """Gemma 4 E4B in SGLang: 79.94 GiB for 997,846 tokens of which windows have 80 %."""
    own, wide = attention(2560, 8, 2, 256, Span.SLIDING, 512), attention(2560, 8, 2, 512)
    part = feed_forward(2560, 10240)
    groups = [
        layers(20, own, part, 2560),
        layers(15, replace(own, shares_kv=True), part, 2560),
        layers(4, wide, part, 2560),
        layers(3, replace(wide, shares_kv=True), part, 2560),
    ]

    def pools(model_type):
        return cache_layout(
            replace(model(2560, 262144, groups), model_type=model_type),
            BF16,
            SINGLE_ACCELERATOR,
            pages_windows=True,
            windows_ratio=0.8,
            pages_shared=True,
        )

    own_pool, one_pool = pools("gemma4_text"), pools("gemma3_text")
    assert own_pool.windowed == one_pool.windowed == ()
    assert own_pool.full_bytes_per_token == pytest.approx(86016.0)
    assert pytest.approx(own_pool.full_bytes_per_token, rel=1e-3) == 79.94 * 1024.0**3 / 997846
    # Where all layers share one pool, windows have places for all tokens.
    assert one_pool.full_bytes_per_token == pytest.approx(86016.0 + 0.2 * 35 * 2.0 * 2 * 256 * 2.0)
