"""Percentiles of latencies over requests, and how excesses over the mean add up in them."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.deployment import LengthSpread
from service.core.elementwise import Number, hypot, maximum


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Median, 95th and 99th percentile of a latency [s]."""

    p50: Number
    p95: Number
    p99: Number


@dataclass(frozen=True, slots=True)
class TimesOfUsers:
    """Percentiles of the first token, of each later one and of whole requests."""

    ttft_s: Percentiles
    tpot_s: Percentiles
    e2e_s: Percentiles


def added(excesses: tuple[Number, ...], name: str) -> Number:
    """Excesses over the mean: medians add up, those above add in quadrature."""
    total: Number = 0.0
    if name == "p50":
        for excess in excesses:
            total = total + excess
        return total
    for excess in excesses:
        total = hypot(total, maximum(excess, 0.0))
    return total


def ratio_of(spread: LengthSpread, name: str) -> Number:
    """Ratio of a percentile of lengths to their mean."""
    ratio: Number = getattr(spread, f"{name}_ratio")
    return ratio
