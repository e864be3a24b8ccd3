"""How lengths of requests differ, from what users know of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, sqrt

from service.core.deployment import LengthSpread
from service.core.performance.inference.queueing import NORMAL_QUANTILES, SHARES

#: The 95th percentile of a log-normal distribution is at most so many times its mean.
MOST_P95_RATIO = exp(NORMAL_QUANTILES["p95"] ** 2 / 2.0)


def log_normal_spread(p95_ratio: float) -> LengthSpread:
    """Log-normal lengths by their 95th percentile over their mean.

    Parameters
    ----------
    p95_ratio
        Between 1 and :data:`MOST_P95_RATIO` [-].

    References
    ----------
    Wang et al., BurstGPT, 2024, https://arxiv.org/abs/2401.17644 (long tails of prompts and
    answers in a trace of users).
    """
    z = NORMAL_QUANTILES["p95"]
    # p95 / mean = exp(z·σ − σ²/2).
    sigma = z - sqrt(max(z * z - 2.0 * log(p95_ratio), 0.0))
    p50, p95, p99 = (
        exp(quantile * sigma - sigma * sigma / 2.0) for quantile in NORMAL_QUANTILES.values()
    )
    return LengthSpread(exp(sigma * sigma), p50, p95, p99)


def histogram_spread(
    tokens: Sequence[float], shares: Sequence[float]
) -> tuple[float, LengthSpread]:
    """Mean length [token] and spread of a histogram.

    Parameters
    ----------
    tokens
        Lengths [token].
    shares
        How many requests have each, in any unit.
    """
    total = sum(shares)
    mean = sum(length * share for length, share in zip(tokens, shares, strict=True)) / total
    squares = sum(length**2 * share for length, share in zip(tokens, shares, strict=True)) / total
    found = dict.fromkeys(SHARES, tokens[0])
    passed = 0.0
    for length, share in sorted(zip(tokens, shares, strict=True), reverse=True):
        # From the longest down: the last length that so many requests reach.
        passed += share / total
        for name, below in SHARES.items():
            if passed - share / total <= 1.0 - below + 1e-12:
                found[name] = length
    p50, p95, p99 = (found[name] / mean for name in SHARES)
    return mean, LengthSpread(squares / mean**2, p50, p95, p99)
