"""The longest sequence that an engine admits, for which some want room before they start."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from service.core.elementwise import plain
from service.core.explanation import EstimateWarning
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.kv_cache import layout_sequence_bytes


def longest_warnings(memory: InferenceMemory) -> Iterator[EstimateWarning]:
    """That an engine does not start where one of its longest sequences has no room.

    vLLM refuses to, though all that is asked of it would fit
    (``check_enough_kv_cache_memory`` in vllm/v1/core/kv_cache_utils.py, 2026).
    """
    longest = memory.context_limit_tokens
    if not memory.engine.checks_longest or longest == inf:
        return
    room, needed = plain(memory.kv_cache_budget_bytes.value), _needed_bytes(memory, longest)
    if needed <= room:
        return
    most = _most_tokens(memory, room, longest)
    if most <= 0:
        return
    yield EstimateWarning(
        "longest_has_no_room",
        "the engine starts only with room for one of the longest sequences that it admits: one of "
        f"{longest:,.0f} tokens takes {needed / 1e9:.1f} GB, and {room / 1e9:.1f} GB are left. "
        f"Limit the length of sequences to {most:,} tokens or fewer",
        about="serving.max_model_len",
    )


def _needed_bytes(memory: InferenceMemory, tokens: float) -> float:
    """Caches of one sequence of so many tokens, with those of a step beside windows [B]."""
    step = min(plain(memory.step_tokens), tokens)
    return memory.engine.cache_copies * plain(
        layout_sequence_bytes(memory.plan.cache, tokens, step)
    )


def _most_tokens(memory: InferenceMemory, room: float, longest: float) -> int:
    """The longest sequence that has room, in whole pages [token]."""
    block = memory.plan.cache.block_tokens
    low, high = 0, int(longest) // block
    while low < high:
        middle = (low + high + 1) // 2
        fits = _needed_bytes(memory, float(middle * block)) <= room
        low, high = (middle, high) if fits else (low, middle - 1)
    return low * block
