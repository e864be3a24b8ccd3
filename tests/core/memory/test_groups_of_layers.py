"""Pages of as many layers of any kind, and how many tokens servers print that have room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.architecture.model import Span, StateMixer
from service.core.deployment import InferenceWorkload, Parallelism, ServingSettings
from service.core.memory.inference.memory import inference_memory
from service.core.memory.inference.runtime import RuntimeOverheads
from service.core.memory.kv_cache import cache_layout
from service.core.number_formats import NUMBER_FORMATS
from tests.core.memory.inference.test_memory import deployed
from tests.core.memory.memory_models import (
    GEMMA_3_27B,
    LLAMA_3_8B,
    attention,
    feed_forward,
    layers,
    model,
    state_mixer,
)

BF16 = NUMBER_FORMATS["bf16"]
TOKEN_BYTES = 2 * 16 * 128 * 2


def hybrid(full, windowed=0, states=0, wide=False):
    ffn = feed_forward(4096, 8192)
    state = replace(state_mixer(4096, 32, 32 * 128 * 128, 3 * 8192), wide=wide)
    kinds = [
        (full, attention(4096, 32, 16, 128)),
        (windowed, attention(4096, 32, 16, 128, Span.SLIDING, 1024)),
        (states, state),
    ]
    groups = [layers(count, mixer, ffn, 4096) for count, mixer in kinds if count]
    return model(4096, 32000, groups, max_position=131072)


def layout(architecture, **flags):
    return cache_layout(architecture, BF16, Parallelism(), **flags)


def test_kinds_are_divided_into_groups_of_the_smallest():
    """52 layers with a window beside 10 without take six groups of ten."""
    plain, grouped = layout(GEMMA_3_27B), layout(GEMMA_3_27B, groups_layers=True)
    assert grouped.full_bytes_per_token == plain.full_bytes_per_token
    assert grouped.windowed_bytes_per_token == pytest.approx(
        plain.windowed_bytes_per_token * 60 / 52
    )
    assert grouped.grouped_bytes_per_token == pytest.approx(70 * TOKEN_BYTES)


@pytest.mark.parametrize(
    ("full", "windowed", "of_full", "of_windowed"),
    [(18, 18, 18, 18), (16, 18, 18, 18), (8, 24, 8, 24), (5, 29, 5, 30)],
)
def test_nearly_as_many_layers_share_groups_of_the_larger_kind(
    full, windowed, of_full, of_windowed
):
    found = layout(hybrid(full, windowed), groups_layers=True)
    assert found.full_bytes_per_token == pytest.approx(of_full * TOKEN_BYTES)
    assert found.windowed_bytes_per_token == pytest.approx(of_windowed * TOKEN_BYTES)


def test_layers_of_one_kind_need_no_groups():
    assert layout(LLAMA_3_8B, groups_layers=True) == layout(LLAMA_3_8B)


def test_states_are_in_16_bit_unless_a_checkpoint_asks_for_more():
    recurrent, convolution = 32 * 128 * 128, 3 * 8192
    of = {
        (narrow, wide): layout(hybrid(12, states=36, wide=wide), narrow_states=narrow).state_bytes
        for narrow in (False, True)
        for wide in (False, True)
    }
    assert of[True, False] == 36 * 2 * (recurrent + convolution)
    assert of[True, True] == of[False, True] == of[False, False]
    assert of[False, False] == 36 * (4 * recurrent + 2 * convolution)


def printed(overheads, architecture, **changes):
    engine = replace(overheads.of("vllm@0.21"), **changes)
    return inference_memory(
        deployed(architecture),
        InferenceWorkload(1000, 200, 4),
        ServingSettings(chunked_prefill_tokens=8192.0, max_running_sequences=64.0),
        RuntimeOverheads({"vllm": engine}),
    )


def test_tokens_are_counted_in_the_longest_sequences(overheads):
    """vLLM prints blocks over those of the longest request, times its tokens."""
    architecture = replace(GEMMA_3_27B, max_position_embeddings=131072)
    memory = printed(overheads, architecture)
    blocks = memory.kv_cache_budget_bytes.value / (10 * 16 * TOKEN_BYTES)
    of_request = 131072 / 16 + 6 * ((1023 + 8192) // 16 + 1 + 1)
    expected = blocks / of_request * 131072
    assert memory.kv_cache_capacity_tokens.value == pytest.approx(expected, rel=0.01)
    # How many requests of the load fit is another question, with their own windows.
    assert memory.max_concurrency.value * 1200 < expected


def test_older_releases_count_as_if_every_group_kept_all_tokens(overheads):
    memory = printed(overheads, hybrid(18, 18), counts_groups=True)
    expected = memory.kv_cache_budget_bytes.value / (36 * TOKEN_BYTES)
    assert memory.kv_cache_capacity_tokens.value == pytest.approx(expected, rel=0.001)


def test_a_model_without_windows_is_counted_by_its_tokens_alone(overheads):
    memory = printed(overheads, LLAMA_3_8B)
    assert memory.counted_tokens == memory.tokens
    expected = memory.kv_cache_budget_bytes.value / 131072
    assert memory.kv_cache_capacity_tokens.value == pytest.approx(expected, rel=0.001)


@pytest.mark.parametrize(
    ("model_id", "wide"),
    [
        # "float32" in the configurations of Qwen3.5 and Nemotron 3; Kimi's kernels
        # keep states in 32 bit whatever the model's format.
        ("Qwen/Qwen3.5-27B", True),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B", True),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", True),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", False),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", False),
    ],
)
def test_checkpoints_say_which_states_are_wide(packaged_snapshot, model_id, wide):
    groups = packaged_snapshot.models[model_id].value.groups
    states = [group.mixer for group in groups if isinstance(group.mixer, StateMixer)]
    assert states
    assert all(state.wide is wide for state in states)
