"""Releases whose host makes the next step ready while the accelerator computes this one."""

from __future__ import annotations

#: LMSYS, SGLang v0.4, 2024 (zero-overhead batch scheduler, which runs one batch ahead); MLX LM,
#: ``generate_step``, 2024 (``mx.async_eval`` issues the next step before the last token is read).
#: They are not measured, and have the times of others whose steps wait. vLLM does so from 0.14 on
#: (pull request 27614), of which what is left between steps is measured.
_SCHEDULED_AHEAD = frozenset({"sglang@overlapped", "sglang@0.5.3", "sglang@0.5.10", "mlx"})


def schedules_ahead(release: str) -> bool:
    """Whether steps of a release wait for their schedule only where it takes longer than they."""
    return release in _SCHEDULED_AHEAD
