"""Times under a rate of requests, and how far they may be off.

Where all steps took longer by a factor, times at a rate would be those at a rate higher by it, and
longer by it. Near saturation a rate that is a little higher fills a replica, so that times there
are known far less well than a step is. A replica that does not keep up has no steady state, and
first tokens come ever later: what is said of them is said of those that keep up.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from numpy import ndarray

from service.core.elementwise import (
    Number,
    Truth,
    everywhere,
    exp,
    hypot,
    log,
    maximum,
    minimum,
    where,
)
from service.core.interval import Z_90, Interval, scale
from service.core.lightweight import computed_once, lightweight
from service.core.performance.inference.burst import Burst
from service.core.performance.inference.open_load import OpenLoad, TimedLoad
from service.core.performance.inference.queueing import (
    HIGHEST_UTILISATION,
    normal_quantile,
    normal_share,
)

if TYPE_CHECKING:
    from service.core.performance.inference.latency import InferenceLatency

#: Share of the rate of requests that all wait that one machine in twenty stays below under limits
#: of times: 36 machines with accelerators and TensorRT-LLM reached 61 to 101 % of it, half of them
#: 97 % (MLPerf Inference 4.1, GPT-J, Server over Offline, 2024). Schedulers, hosts and what
#: submitters tuned differ; no formula of queues tells them apart. Waits, which have no bound, are
#: taken at 98 % at most, which half of the machines did not reach.
REACHED_RATIO, NEARLY_SATURATED = 0.77, 0.98
#: Shares of the replicas that keep up which the fast, the usual and the slow one are faster than.
_FAST, _USUAL, _SLOW = 0.95, 0.5, 0.05
#: Below this a spread is none.
_NONE = 1e-6
#: Standard deviations below saturation from which on all keep up, and beyond which none does.
_SURE, _FAR = 4.0, 6.0


@lightweight
class LoadEnds:
    """A replica under a rate, should it be slower or faster than estimated.

    ``load`` is the estimate, ``log_sigma`` the spread of the rate at which it saturates [-], and
    ``later_tokens`` follow the first of each answer [token].
    """

    load: OpenLoad
    log_sigma: Number
    later_tokens: Number

    @computed_once
    def slower(self) -> OpenLoad:
        """The load of a slower replica, which may be saturated."""
        return self.load.at_utilisation(self.load.utilisation_ratio * self._factor * self._less)

    @computed_once
    def waiting(self) -> OpenLoad:
        """The load of a slower replica that keeps up, below saturation unless more is asked of it.

        Beyond saturation waits have no end.
        """
        most = maximum(self.kept.utilisation_ratio, NEARLY_SATURATED)
        return self.load.at_utilisation(minimum(self._keeping_up(_SLOW) * self._less, most))

    @computed_once
    def kept(self) -> OpenLoad:
        """The load of the median of replicas that keep up; far from saturation the estimate."""
        own = self.load.utilisation_ratio
        far = own * exp(_SURE * self.log_sigma) <= 1.0
        if everywhere(far):
            return self.load
        return self.load.at_utilisation(where(far, own, self._keeping_up(_USUAL)))

    @computed_once
    def faster(self) -> OpenLoad:
        """The load of a faster replica."""
        return self.load.at_utilisation(self._keeping_up(_FAST))

    def ttft_s(self, log_sigma: Number) -> Interval:
        """Mean time to the first token, if a replica's steps are known as well as that [s].

        Its upper end is that of a replica at 98 % of its saturation rate at most.
        """
        value, fast, slow = self.kept, self.faster, self.waiting
        return _between(value.mean_ttft_s, fast.mean_ttft_s, slow.mean_ttft_s, log_sigma)

    def tpot_s(self, log_sigma: Number) -> Interval:
        """Mean time of each later token, if a replica's steps are known as well as that [s]."""
        value, fast, slow = (load.state for load in (self.load, self.faster, self.slower))
        return _between(value.tpot_s, fast.tpot_s, slow.tpot_s, log_sigma)

    def percentile_s(self, figure: str, share: str, log_sigma: Number) -> Interval:
        """A percentile over requests of a time by its name, if steps are known as well as that [s].

        Its upper end is that of a replica at 98 % of its saturation rate at most, of later tokens
        that of a full one.
        """
        if figure == "tpot_s":
            loads = (self.load, self.faster, self.slower)
        else:
            loads = (self.kept, self.faster, self.waiting)
        value, fast, slow = (_percentile_of(load, figure, share) for load in loads)
        if figure == "e2e_s":
            # Later tokens come as those of the estimate do, whether it keeps up or not.
            slower_s = self.load.state.tpot_s - self.kept.state.tpot_s
            value = value + self.later_tokens * slower_s
        return _between(value, fast, slow, log_sigma)

    @property
    def _factor(self) -> Number:
        return exp(Z_90 * self.log_sigma)

    @property
    def _less(self) -> Number:
        """How much less a replica reaches under a rate than with requests that all wait [-].

        Beside what its speed is unsure by, of which it knows nothing.
        """
        unsure = Z_90 * self.log_sigma
        return exp(hypot(unsure, log(REACHED_RATIO)) - unsure)

    def _keeping_up(self, share: float) -> Number:
        """Utilisation of a replica faster than such a share of those that keep up [-].

        Where none does, that with as much as the fastest serve.
        """
        own = minimum(self.load.utilisation_ratio, self._factor)
        log_sigma = maximum(self.log_sigma, _NONE)
        keeping = normal_share(minimum(maximum(-log(own) / log_sigma, -_FAR), _FAR))
        faster = normal_quantile((1.0 - share) * keeping)
        return minimum(own * exp(-log_sigma * faster), HIGHEST_UTILISATION)


def _between(value: Number, fast: Number, slow: Number, log_sigma: Number) -> Interval:
    """A time, and those of a faster and a slower replica whose steps are unsure besides [s]."""
    factor = exp(Z_90 * log_sigma)
    return Interval(value, minimum(fast / factor, value), maximum(slow * factor, value))


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
