"""Percentiles of latencies over requests, and how excesses over the mean add up in them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from service.core.deployment import LengthSpread
from service.core.elementwise import Number, Truth, hypot, maximum, where

#: Below this a variance is none [s²].
_NONE = 1e-24


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Median, 95th and 99th percentile of a latency [s]."""

    p50: Number
    p95: Number
    p99: Number

    def without_end(self, endless: Truth) -> Percentiles:
        """The same, infinite where requests wait without end."""
        return Percentiles(*(where(endless, inf, one) for one in (self.p50, self.p95, self.p99)))


@dataclass(frozen=True, slots=True)
class TimesOfUsers:
    """Percentiles of the first token, of each later one and of whole requests."""

    ttft_s: Percentiles
    tpot_s: Percentiles
    e2e_s: Percentiles


def added(excesses: tuple[tuple[Number, Number], ...], name: str) -> Number:
    """Excess of a percentile of a sum over its mean, by those of its independent parts.

    Those above the median add in quadrature, as standard deviations do. A median lies below its
    mean by ``κ₃ / (6 κ₂)`` to first order; as cumulants add, that of a sum is the mean of its
    parts', weighed by their variances.

    Parameters
    ----------
    excesses
        Of each part, its percentile less its mean, and its variance.
    name
        The percentile.

    References
    ----------
    Cornish and Fisher, 1938, https://doi.org/10.2307/1400905.
    """
    total: Number = 0.0
    if name != "p50":
        for excess, _ in excesses:
            total = hypot(total, maximum(excess, 0.0))
        return total
    whole: Number = 0.0
    for excess, variance in excesses:
        total = total + excess * variance
        whole = whole + variance
    return total / maximum(whole, _NONE)


def ratio_of(spread: LengthSpread, name: str) -> Number:
    """Ratio of a percentile of lengths to their mean."""
    ratio: Number = getattr(spread, f"{name}_ratio")
    return ratio
