"""What users see of a replica: percentiles over requests of their times, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from service.core.elementwise import Number, maximum, where
from service.core.performance.inference.percentiles import (
    Percentiles,
    TimesOfUsers,
    added,
    ratio_of,
)
from service.core.performance.inference.queueing import SHARES
from service.core.performance.inference.replica import Requests
from service.core.performance.inference.token_times import TokenTimes


@dataclass(frozen=True, slots=True)
class FirstTokens:
    """Time to the first token over requests: mean [s], variance [s²], and percentiles by name."""

    mean_s: Number
    variance: Number
    percentile_s: Callable[[str], Number]


def times_of_users(requests: Requests, first: FirstTokens, tokens: TokenTimes) -> TimesOfUsers:
    """Percentiles of the first token, of later ones and of whole requests.

    How long requests wait, how fast their tokens come and how many these are is nearly independent.

    Parameters
    ----------
    requests
        Whose lengths differ.
    first, tokens
        Times to the first token and per later one.
    """
    later = requests.later_tokens
    decode_s = later * tokens.mean_s
    slower_variance = later * later * tokens.variance
    answer_variance = decode_s * decode_s * (requests.output_spread.square_ratio - 1.0)
    ttft: dict[str, Number] = {}
    tpot: dict[str, Number] = {}
    e2e: dict[str, Number] = {}
    below: str | None = None
    for name in SHARES:
        first_s, each_s = first.percentile_s(name), tokens.percentile_s(name)
        parts = (
            (first_s - first.mean_s, first.variance),
            (later * (each_s - tokens.mean_s), slower_variance),
            (decode_s * (ratio_of(requests.output_spread, name) - 1.0), answer_variance),
        )
        whole_s = first.mean_s + decode_s + added(parts, name)
        if below is not None:
            # What is nearly nothing may round either way.
            first_s, each_s = maximum(first_s, ttft[below]), maximum(each_s, tpot[below])
            whole_s = maximum(whole_s, e2e[below])
        ttft[name], e2e[name] = first_s, whole_s
        tpot[name] = where(later > 0, each_s, tokens.another_s)
        below = name
    return TimesOfUsers(Percentiles(**ttft), Percentiles(**tpot), Percentiles(**e2e))
