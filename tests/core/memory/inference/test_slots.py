"""How many sequences the caches hold: whole answers set aside, or pages as answers grow."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.deployment import InferenceWorkload, LengthSpread, ServingSettings
from service.core.memory.inference.memory import inference_memory
from service.core.memory.inference.room import held_bytes, most_sequences
from tests.core.deployments import deployment

RESERVING, PAGED = ServingSettings(), ServingSettings(preempts=True)


@pytest.fixture
def memory(overheads):
    return partial(_memory, overheads)


def _memory(overheads, serving, inputs=1024.0, outputs=1024.0, concurrency=64.0, **changes):
    workload = InferenceWorkload(inputs, outputs, concurrency, **changes)
    return inference_memory(deployment(), workload, serving, overheads)


def test_pages_hold_the_prompt_and_half_of_the_answer_on_average(memory):
    whole, paged = memory(RESERVING), memory(PAGED)
    ratio = paged.max_concurrency.value / whole.max_concurrency.value
    # 2,048 tokens against 1,536, and a little for the crowd that is longer than average.
    assert 1.2 < ratio < 2048 / 1536
    assert paged.kv_cache_bytes.value < whole.kv_cache_bytes.value
    assert paged.sequence_bytes == whole.sequence_bytes


def test_one_sequence_alone_holds_all_of_itself(memory):
    whole, paged = memory(RESERVING, concurrency=1.0), memory(PAGED, concurrency=1.0)
    assert paged.kv_cache_bytes.value == whole.kv_cache_bytes.value


def test_answers_that_differ_are_held_longer(memory):
    varied = memory(PAGED, output_spread=LengthSpread(1.5))
    assert memory(RESERVING).max_concurrency.value < varied.max_concurrency.value
    assert varied.max_concurrency.value < memory(PAGED).max_concurrency.value


@given(
    inputs=st.integers(1, 20_000),
    outputs=st.integers(1, 5_000),
    cached=st.sampled_from((0.0, 0.5, 0.9)),
)
def test_as_many_fit_as_are_said_to(memory, inputs, outputs, cached):
    asked = {"inputs": float(inputs), "outputs": float(outputs), "prefix_cached_ratio": cached}
    most = float(memory(PAGED, **asked).max_concurrency.value)
    if most >= 1.0:
        # The sampler of this engine is prepared for the same sequences whatever the load.
        there = memory(PAGED, concurrency=most, **asked)
        assert there.fits
        assert not memory(PAGED, concurrency=most * 1.01 + 2.0, **asked).fits


@given(
    private=st.floats(100.0, 1e6),
    share=st.floats(0.0, 0.95),
    sequences=st.integers(1, 5_000),
)
def test_the_most_sequences_are_the_inverse_of_what_they_hold(private, share, sequences):
    growing = private * share
    room = held_bytes(float(sequences), private, growing) * (1 + 1e-9)
    found = most_sequences(room, private, growing)
    assert found == pytest.approx(sequences, rel=1e-6)
    together = most_sequences(np.array([room, 0.0]), private, growing)
    assert list(together) == [found, 0.0]
