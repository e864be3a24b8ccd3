"""What pools of native engines hold of scores that attention stores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.deployment import InferenceWorkload
from service.core.memory.inference.copies import copies_held, pooled_bytes
from service.core.number_formats import NUMBER_FORMATS
from tests.core.memory.inference.test_properties import memory_of
from tests.core.memory.memory_models import LLAMA_2_7B

Q4_K_M = NUMBER_FORMATS["gguf-q4_k_m"]


def kept_by_a_pool(steps: int, other: float) -> float:
    """What a pool holds that hands out the smallest buffer with room, or makes a larger one."""
    buffers = [other] if other else []
    for asked in range(1, steps + 1):
        if not any(buffer >= asked for buffer in buffers):
            buffers.append(1.05 * asked)
    return sum(buffers) - other


@given(st.integers(1, 200), st.integers(0, 30))
def test_a_pool_that_keeps_buffers_holds_as_many_as_one_step_by_step(steps: int, other: int):
    held = copies_held("hip", 512.0 * steps, 512.0, float(other)) * steps
    kept = kept_by_a_pool(steps, float(other))
    # Beyond twenty steps buffers have room for some of those that follow, by whole steps.
    assert held == pytest.approx(kept, rel=1e-9, abs=1e-9 if steps <= 20 else 1.1 * steps)


def test_other_pools_hold_one_copy_and_some_backends_none():
    for backend, copies in (("cuda", 1.0), (None, 1.0), ("vulkan", 0.0), ("metal", 0.0)):
        assert copies_held(backend, 8192.0, 512.0, 0.0) == copies
        assert pooled_bytes(backend, 1e8) == 0.0
    # A prompt of one step leaves one buffer, a little larger than it.
    assert copies_held("hip", 512.0, 512.0, 0.0) == pytest.approx(1.05)


def test_backends_hold_what_their_pools_do_and_fused_attention_copies_nothing():
    workload = InferenceWorkload(8192.0, 1.0, 1.0)

    def taken(backend: str, fused: bool, generation: str = "2025") -> float:
        return float(
            memory_of(
                LLAMA_2_7B,
                "llama.cpp",
                workload,
                Q4_K_M,
                engine_generation=generation,
                backend=backend,
                flash_attention=fused,
            ).peak_bytes
        )

    vulkan, cuda, hip = (taken(backend, False) for backend in ("vulkan", "cuda", "hip-rocblas"))
    copy = 32 * 512 * 8192 * 2
    assert cuda - vulkan == pytest.approx(copy, rel=1e-3)
    # A matrix of a layer in 16 bit serves the copies of five steps, the other eleven stay.
    widened = 1.05 * 11008 * 4096 * 2
    assert hip - vulkan == pytest.approx(widened + 1.05 * sum(range(6, 17)) * copy / 16)
    assert taken("vulkan", True) == taken("cuda", True)
    assert taken("hip", True) == pytest.approx(taken("cuda", True) + widened)
    # Later releases empty the pool where memory is short, so that one copy is all that is needed.
    assert taken("hip", False, "2026") == pytest.approx(cuda)
