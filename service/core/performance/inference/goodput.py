"""Goodput: the highest rate of requests at which times stay within limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from service.core.elementwise import (
    Number,
    Truth,
    both,
    exp,
    hypot,
    log,
    maximum,
    minimum,
    where,
)
from service.core.interval import Interval
from service.core.performance.inference.latency import InferenceLatency
from service.core.performance.inference.load_ends import REACHED_RATIO
from service.core.performance.inference.open_load import OpenLoad

#: Times that may be limited: to the first token, per later token, of the whole request.
FIGURES = ("ttft_s", "tpot_s", "e2e_s")
#: What of a time may be limited.
SHARES = ("mean", "p50", "p95", "p99")
#: Halvings of the search for the highest rate: one part in a million.
_HALVINGS = 20
#: Share of the saturation at which a replica is almost idle.
_IDLE_RATIO = 1e-6


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The most that a time may be [s]: its mean, or one of its percentiles over requests."""

    figure: str
    share: str
    most_s: float

    @property
    def name(self) -> str:
        """The quantity that is limited, such as ``ttft_p99_s``."""
        if self.share == "mean":
            return self.figure
        return f"{self.figure.removesuffix('_s')}_{self.share}_s"

    def figure_s(self, latency: InferenceLatency) -> Number:
        """The figure that is held against it, under a rate of requests [s]."""
        if self.share == "mean" or latency.load is None:
            return latency.mean_s(self.figure)
        found: Number = getattr(getattr(latency.load, self.figure), self.share)
        return found

    def load_s(self, load: OpenLoad, later_tokens: Number) -> Number:
        """The same of a replica under a rate, with so many tokens after the first [s]."""
        if self.share != "mean":
            found: Number = getattr(getattr(load, self.figure), self.share)
            return found
        tpot_s = load.state.tpot_s
        mean_s = {"ttft_s": load.mean_ttft_s, "tpot_s": tpot_s}
        if self.figure in mean_s:
            return where(load.saturated, inf, mean_s[self.figure])
        return where(load.saturated, inf, load.mean_ttft_s + tpot_s * later_tokens)


@dataclass(frozen=True, slots=True)
class Goodput:
    """The highest rate that keeps all limits, of all replicas [1/s].

    ``limited_by`` holds the names of the limits that a higher rate would miss, or of none where the
    rate is that of saturation. ``idle_s`` are the limited figures of an almost idle replica.
    """

    requests_per_s: Interval
    limited_by: tuple[str, ...]
    idle_s: dict[str, Number]


def time_limit(name: str, most_s: float) -> TimeLimit:
    """The limit of a name such as ``ttft_s`` or ``tpot_p99_s``.

    Raises
    ------
    KeyError
        If no time that can be limited has the name.
    """
    for figure in FIGURES:
        for share in SHARES:
            limit = TimeLimit(figure, share, most_s)
            if limit.name == name:
                return limit
    raise KeyError(name)


def goodput(
    latency_at: Callable[[Number], InferenceLatency], limits: Sequence[TimeLimit]
) -> Goodput:
    """Find the highest rate of requests that keeps the limits.

    All times grow with the rate, so that halving finds it. Where everything took longer by a
    factor, times at a rate would be those at a rate higher by it, and longer by it: the ends of the
    interval are the rates that keep the limits if times are off as far as the rate at saturation
    may be. A limit that is nearly missed by an idle replica makes the rate uncertain. How near to
    saturation a machine keeps limits is its own affair, too, which makes the lower end lower.

    Parameters
    ----------
    latency_at
        Latency of the deployment at a rate of requests [1/s].
    limits
        Limits to keep; without any, the goodput is the rate at saturation.

    Returns
    -------
    Goodput
        Zero where a limit is missed even by an almost idle replica.

    References
    ----------
    Zhong et al., DistServe, 2024, https://arxiv.org/abs/2401.09670 (goodput under limits of TTFT
    and TPOT); MLPerf Inference, Reddi et al., 2020, https://arxiv.org/abs/1911.02549 (Server).
    """
    limit = latency_at(1.0).saturation_requests_per_s
    least = limit.value * _IDLE_RATIO
    idle = latency_at(least)
    rate, high = _highest(latency_at, limits, limit.value)
    beyond = latency_at(maximum(high, least))
    missed = tuple(one.name for one in limits if not _all(one.figure_s(beyond) <= one.most_s))
    full = high >= limit.value

    def end(faster: Number) -> Number:
        return _highest(latency_at, limits, limit.value, faster)[0] * faster

    slow, fast = end(limit.low / limit.value), end(limit.high / limit.value)
    slow = where(full, slow, rate * _together(slow / maximum(rate, least), REACHED_RATIO))
    return Goodput(
        requests_per_s=Interval(rate, minimum(slow, rate), maximum(fast, rate)),
        limited_by=() if _all(full) else missed,
        idle_s={one.name: one.figure_s(idle) for one in limits},
    )


def _highest(
    latency_at: Callable[[Number], InferenceLatency],
    limits: Sequence[TimeLimit],
    saturation_per_s: Number,
    relaxed: Number = 1.0,
) -> tuple[Number, Number]:
    """The highest rate that keeps limits, and the lowest known to miss one or to saturate [1/s].

    Limits are ``relaxed`` times what they say.
    """
    low: Number = 0.0 * saturation_per_s
    high: Number = saturation_per_s * 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        kept = keeps(latency_at(middle), limits, relaxed)
        low, high = where(kept, middle, low), where(kept, high, middle)
    return where(high >= saturation_per_s, saturation_per_s, low), high


def _together(ratio: Number, other: float) -> Number:
    """How much lower something may be for two reasons that know nothing of each other [-]."""
    return exp(-hypot(log(maximum(minimum(ratio, 1.0), _IDLE_RATIO)), log(other)))


def keeps(latency: InferenceLatency, limits: Sequence[TimeLimit], relaxed: Number = 1.0) -> Truth:
    """Whether a latency is within all limits, or so many times them."""
    kept: Truth = True
    for one in limits:
        kept = both(kept, one.figure_s(latency) <= one.most_s * relaxed)
    return kept


def _all(condition: Truth) -> bool:
    return bool(condition) if isinstance(condition, bool) else bool(condition.all())
