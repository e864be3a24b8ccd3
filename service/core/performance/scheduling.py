"""Releases whose host makes the next step ready while the accelerator computes this one."""

from __future__ import annotations

#: vLLM, release notes of 0.14, 2026 (asynchronous scheduling by default, pull request 27614: it
#: overlaps the scheduler with the accelerator); LMSYS, SGLang v0.4, 2024 (zero-overhead batch
#: scheduler, which runs one batch ahead); MLX LM, ``generate_step``, 2024 (``mx.async_eval`` issues
#: the next step before the last token is read).
_SCHEDULED_AHEAD = frozenset(
    {"vllm@0.14", "vllm@0.17", "vllm@0.21", "sglang@overlapped", "sglang@0.5.3", "mlx"}
)


def schedules_ahead(release: str) -> bool:
    """Whether steps of a release wait for their schedule only where it takes longer than they."""
    return release in _SCHEDULED_AHEAD
