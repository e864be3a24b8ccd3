"""Copies of scores that some backends of native engines make where attention is not fused.

A library of matrix products wants both operands in one format. Where values are held in 16 bit, the
scores that they are multiplied with are copied to 16 bit, out of a pool beside the planned buffers.
Pools of virtual memory give room back in the order in which it was taken, so that they hold the
largest copy alone. A pool that keeps buffers for later hands out the smallest that is large enough
and makes a new one otherwise, a little larger than was asked for. Along a prompt each step attends
to more tokens than the one before, so that nearly each makes a new buffer, and all of them stay.

References
----------
ggml-org/llama.cpp, ggml/src/ggml-cuda/ggml-cuda.cu, 2025 (ggml_cuda_pool_leg and
ggml_cuda_pool_vmm; ggml_cuda_mul_mat_batched_cublas copies its second operand to 16 bit) and
ggml/CMakeLists.txt (GGML_HIP_NO_VMM is on)
"""

from __future__ import annotations

from typing import Final

from service.core.backends import Backend
from service.core.elementwise import Number, ceil, floor, log, maximum, minimum

#: Backends that multiply scores in 32 bit, as they are.
_COPIES_NOTHING: Final[frozenset[Backend]] = frozenset(
    {"vulkan", "vulkan-amdvlk", "metal", "opencl", "cpu"}
)
#: Backends whose pools keep buffers.
_KEEPS: Final[frozenset[Backend]] = frozenset({"hip", "hip-rocblas", "hip-rocwmma"})
#: How much larger than asked for a buffer is made.
_AHEAD_RATIO = 1.05
#: Until this step the next never has room in a buffer made for one; it grows by one in so many.
_EACH_ANEW = 1.0 / (_AHEAD_RATIO - 1.0)


def copying(backend: Backend | None) -> str:
    """How a backend copies scores: not at all, with one copy at a time, or keeping them."""
    if backend in _COPIES_NOTHING:
        return "none"
    return "kept" if backend in _KEEPS else "one"


def pooled_bytes(backend: Backend | None, widest_bytes: float) -> float:
    """What a pool holds of matrices that are widened to multiply prompts, one at a time [B]."""
    return _AHEAD_RATIO * widest_bytes if copying(backend) == "kept" else 0.0


def copies_held(
    backend: Backend | None, prompt_tokens: Number, step_tokens: Number, reused: Number
) -> Number:
    """Copies of scores that are held at the end of a prompt, in those of its last step [-].

    Parameters
    ----------
    backend
        What drives the accelerator; None for an engine that has one alone.
    prompt_tokens, step_tokens
        Tokens of a prompt, and of one step [token].
    reused
        The largest other buffer of the pool, in copies of the first step [-].

    Returns
    -------
    Number
        Copies, of which a pool that keeps them has some of steps before.
    """
    how = copying(backend)
    if how != "kept":
        return 1.0 if how == "one" else 0.0
    steps = maximum(ceil(prompt_tokens / maximum(step_tokens, 1.0)), 1.0)
    fitting = floor(reused)
    first = minimum(steps, _EACH_ANEW)
    before = minimum(fitting, first)
    early = (first * (first + 1.0) - before * (before + 1.0)) / 2.0
    # Later a buffer has room for some of the steps that follow: one in 20 to 40, two in 40 to 60.
    start = minimum(maximum(fitting, _EACH_ANEW), maximum(steps, _EACH_ANEW))
    more = maximum(steps, _EACH_ANEW) - start
    half = _EACH_ANEW / 2.0
    late = _EACH_ANEW * (more - half * log((start + half + more) / (start + half)))
    return _AHEAD_RATIO * (early + late) / steps
