"""Lengths of requests as the core takes them: a mean and how they differ."""

from __future__ import annotations

from service.core.deployment import NO_SPREAD, LengthSpread
from service.core.elementwise import plain
from service.core.performance.inference.lengths import histogram_spread, log_normal_spread
from service.estimation.requests import LengthsRequest


def mean_and_spread(asked: int | LengthsRequest) -> tuple[float, LengthSpread]:
    """Mean length [token], and its spread where a request says that lengths differ."""
    if not isinstance(asked, LengthsRequest):
        return plain(asked), NO_SPREAD
    if asked.mean is not None and asked.p95 is not None:
        return asked.mean, log_normal_spread(asked.p95 / asked.mean)
    return histogram_spread(asked.tokens or (), asked.shares or ())
