"""Tasks of agents: calls one after the other, with tools between them and growing prompts."""

from __future__ import annotations

from dataclasses import replace

from service.core.deployment import InferenceWorkload
from service.core.elementwise import plain
from service.core.interval import Interval, scale, shift


def prefill_tokens(workload: InferenceWorkload) -> float:
    """Prompt tokens that all calls of a task compute [token].

    Call ``i`` has ``s + i·g`` tokens; with the cache kept only the first prompt and what each call
    adds are computed.
    """
    calls, growth = workload.calls_per_task, workload.context_growth_tokens
    first = workload.input_tokens * (1.0 - workload.prefix_cached_ratio)
    if workload.context_kept_cached:
        return plain(first + (calls - 1) * growth)
    each = workload.input_tokens - first
    return plain(calls * workload.input_tokens + growth * calls * (calls - 1) / 2.0 - each * calls)


def mean_call(workload: InferenceWorkload) -> InferenceWorkload:
    """The call of average context, which computes the average number of new tokens.

    Prompts grow evenly, so that the calls' times average to this one's as far as they are linear
    in length.
    """
    mean_tokens = (
        workload.input_tokens + workload.context_growth_tokens * (workload.calls_per_task - 1) / 2.0
    )
    new_tokens = prefill_tokens(workload) / workload.calls_per_task
    return replace(
        workload,
        input_tokens=mean_tokens,
        prefix_cached_ratio=max(1.0 - new_tokens / mean_tokens, 0.0),
    )


def task_s(call_s: Interval, workload: InferenceWorkload) -> Interval:
    """Time of a whole task: its calls, and tools after each but the last [s].

    Parameters
    ----------
    call_s
        Time of the call of average context [s].
    workload
        Calls and time of tools.
    """
    tools_s = workload.tool_s * (workload.calls_per_task - 1)
    return shift(scale(call_s, float(workload.calls_per_task)), tools_s)


def is_plain(workload: InferenceWorkload) -> bool:
    """Whether all calls of a task are alike and follow each other at once."""
    return workload.context_growth_tokens == 0.0 and not workload.context_kept_cached
