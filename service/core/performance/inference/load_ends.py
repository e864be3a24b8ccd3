"""How far times under a rate of requests may be off.

Where all steps took longer by a factor, times at a rate would be those at a rate higher by it, and
longer by it. Near saturation a rate that is a little higher fills a replica, so that times there
are known far less well than a step is.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from numpy import ndarray

from service.core.elementwise import Number, Truth, exp, maximum, minimum, where
from service.core.interval import Z_90, Interval, scale
from service.core.lightweight import computed_once, lightweight
from service.core.performance.inference.burst import Burst
from service.core.performance.inference.open_load import OpenLoad, TimedLoad

if TYPE_CHECKING:
    from service.core.performance.inference.latency import InferenceLatency

#: Utilisation at which waits are taken that have no bound: a replica that may not keep up.
NEARLY_SATURATED = 0.99


@lightweight
class LoadEnds:
    """A replica under a rate, should it be slower or faster than estimated.

    ``load`` is the estimate, ``log_sigma`` the spread of the rate at which it saturates [-].
    """

    load: OpenLoad
    log_sigma: Number

    @computed_once
    def slower(self) -> OpenLoad:
        """The load of a slower replica, which may be saturated."""
        return self.load.at_utilisation(self.load.utilisation_ratio * self._factor)

    @computed_once
    def waiting(self) -> OpenLoad:
        """The same below saturation, beyond which waits have no end."""
        own = self.load.utilisation_ratio
        return self.load.at_utilisation(maximum(minimum(own * self._factor, NEARLY_SATURATED), own))

    @computed_once
    def faster(self) -> OpenLoad:
        """The load of a faster replica."""
        return self.load.at_utilisation(self.load.utilisation_ratio / self._factor)

    def ttft_s(self, log_sigma: Number) -> Interval:
        """Mean time to the first token, if a replica's steps are known as well as that [s].

        Its upper end is no higher than that of a replica at 99 % of its saturation rate.
        """
        return _between(
            lambda load: load.mean_ttft_s, self.load, self.faster, self.waiting, log_sigma
        )

    def tpot_s(self, log_sigma: Number) -> Interval:
        """Mean time of each later token, if a replica's steps are known as well as that [s]."""
        return _between(
            lambda load: load.state.tpot_s, self.load, self.faster, self.slower, log_sigma
        )

    def percentile_s(self, figure: str, share: str, log_sigma: Number) -> Interval:
        """A percentile over requests of a time by its name, if steps are known as well as that [s].

        Its upper end is that of a replica at 99 % of its saturation rate at most, of later tokens
        that of a full one.
        """
        slower = self.slower if figure == "tpot_s" else self.waiting
        return _between(
            lambda load: _percentile_of(load, figure, share),
            *(self.load, self.faster, slower, log_sigma),
        )

    @property
    def _factor(self) -> Number:
        return exp(Z_90 * self.log_sigma)


def _between(
    time_s: Callable[[OpenLoad], Number],
    load: OpenLoad,
    faster: OpenLoad,
    slower: OpenLoad,
    log_sigma: Number,
) -> Interval:
    value, factor = time_s(load), exp(Z_90 * log_sigma)
    return Interval(
        value,
        minimum(time_s(faster) / factor, value),
        maximum(time_s(slower) * factor, value),
    )


def percentile_s(latency: InferenceLatency, figure: str, share: str) -> Interval:
    """A percentile over requests of a time by its name, such as "p95" of "ttft_s" [s].

    Where it is given what is in flight, it is known as well as the mean.
    """
    if latency.ends is not None:
        known = {"ttft_s": "prefill", "tpot_s": "decode", "e2e_s": "throughput"}[figure]
        return latency.ends.percentile_s(figure, share, latency.log_sigma[known])
    mean: Interval = getattr(latency, figure)
    return scale(mean, _percentile_of(latency.replica, figure, share) / mean.value)


def _percentile_of(load: TimedLoad | Burst, figure: str, share: str) -> Number:
    found: Number = getattr(getattr(load, figure), share)
    return found


def without_end(figure: Interval, endless: Truth) -> Interval:
    """A time, infinite where requests wait without end."""
    if not isinstance(endless, ndarray) and not endless:
        return figure
    return Interval(*(where(endless, inf, end) for end in (figure.value, figure.low, figure.high)))
