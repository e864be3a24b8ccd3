"""Waiting of requests that arrive at random: for prompts of others, and for a free slot.

Arrivals are Poisson and split evenly over the replicas. A prompt waits for the step under way, is
computed in the next with all prompts that came meanwhile, and queues where those fill the step. A
request queues for a slot only where as many run as there are slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

from service.core.elementwise import (
    Number,
    everywhere,
    exp,
    log,
    maximum,
    minimum,
    sqrt,
    where,
)

#: Utilisation above which waits are those of this utilisation: they have no bound.
HIGHEST_UTILISATION = 0.9999
#: Standard normal quantiles of the percentiles that are given.
NORMAL_QUANTILES = {"p50": 0.0, "p95": 1.6448536269514722, "p99": 2.3263478740408408}
#: Share of requests below each percentile.
SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
#: Below this a variance or a probability is none.
_NONE = 1e-12
#: Slots below which those that are taken are counted one by one.
_FEW = 8
#: Standard deviations beyond which a tail is none.
_FAR = 8.0


@dataclass(frozen=True, slots=True)
class Queue:
    """Waiting in a queue: a share ``waiting_ratio`` waits, ``tail_s`` on average, exponentially."""

    waiting_ratio: Number
    tail_s: Number

    @property
    def mean_wait_s(self) -> Number:
        """Mean over all requests [s]."""
        return self.waiting_ratio * self.tail_s

    @property
    def variance(self) -> Number:
        """Variance over all requests [s²]."""
        ratio = self.waiting_ratio
        return ratio * (2.0 - ratio) * self.tail_s * self.tail_s

    def wait_percentile_s(self, share: float) -> Number:
        """Waiting time that a ``share`` of requests does not exceed [s]."""
        beyond = maximum(self.waiting_ratio, _NONE) / (1.0 - share)
        return self.tail_s * log(maximum(beyond, 1.0))


def prompt_queue(
    prompts_per_s: Number,
    prompt_s: Number,
    fitting_prompts: Number = 1.0,
    input_square_ratio: Number = 1.0,
) -> Queue:
    """Queue of prompts at steps that compute so many at a time.

    Parameters
    ----------
    prompts_per_s
        Arrival rate [1/s].
    prompt_s
        A prompt's share of the time of full steps [s].
    fitting_prompts
        Prompts that a step has room for; those that take several steps are served one by one [-].
    input_square_ratio
        Mean of the squares of lengths over the square of their mean [-].

    Returns
    -------
    Queue
        With one prompt at a time the queue M/G/1, whose mean wait is ``ρ·s / (2(1−ρ))`` times the
        square ratio.

    References
    ----------
    Kleinrock, Queueing Systems I, 1975, section 5.6 (Pollaczek–Khinchine mean); tail constant from
    the heavy-traffic limit, Kingman, 1961, https://doi.org/10.1017/S0305004100036094; share that
    waits with several at a time, Sakasegawa, 1977, https://doi.org/10.1007/BF02911684.
    """
    rho = minimum(prompts_per_s * prompt_s, HIGHEST_UTILISATION)
    servers = maximum(fitting_prompts, 1.0)
    waiting = rho ** (sqrt(2.0 * (servers + 1.0)) - 1.0)
    return Queue(waiting, prompt_s * input_square_ratio / (2.0 * (1.0 - rho)))


def slot_queue(
    in_flight: Number,
    variance: Number,
    slots: Number,
    saturation_per_s: Number,
    utilisation: Number,
    output_square_ratio: Number,
) -> Queue:
    """Queue for a free slot.

    Parameters
    ----------
    in_flight, variance
        Mean and variance of the requests in flight if there were slots for all [-].
    slots
        Sequences that run at once at most [-].
    saturation_per_s
        Rate at which requests end with all slots taken [1/s].
    utilisation
        Arrival rate over that rate, below 1 [-].
    output_square_ratio
        Mean of the squares of answers' lengths over the square of their mean [-].

    References
    ----------
    Halfin and Whitt, 1981, https://doi.org/10.1287/opre.29.3.567 (share that waits, from the local
    density at the number of servers); Cosmetatos, 1976, https://doi.org/10.1287/mnsc.22.11.1218
    (waits with services of one length beside exponential ones).
    """
    z, density = _beyond(in_flight, variance, slots)
    free = 1.0 - minimum(utilisation, HIGHEST_UTILISATION)
    full = density / free
    waiting = full / (normal_share(z) + full)
    if not everywhere(slots >= _FEW):
        waiting = _few_waiting(in_flight, variance, slots, free, waiting)
    exponential_s = 1.0 / (saturation_per_s * free)
    alike = free * maximum(slots - 1.0, 0.0) * (sqrt(4.0 + 5.0 * slots) - 2.0)
    alike = alike / (16.0 * slots * maximum(utilisation, _NONE))
    # Answers of one length halve the wait, almost.
    varied = output_square_ratio - 1.0
    factor = (1.0 + minimum(alike, 1.0) + varied) / 2.0
    return Queue(waiting, exponential_s * factor)


def _few_waiting(
    in_flight: Number, variance: Number, slots: Number, free: Number, many: Number
) -> Number:
    """Share that waits for one of few slots; from :data:`_FEW` on that for ``many`` [-].

    Counts are added up one by one, between whole numbers of slots in proportion.

    References
    ----------
    Kleinrock, Queueing Systems I, 1975, section 3.5 (Erlang C: a single server is waited for by as
    many as it is busy for); counts are negative binomial where steps grow with them.
    """
    grows = 1.0 - in_flight / maximum(variance, _NONE)
    first = in_flight * (1.0 - grows)
    below: Number = 0.0
    term: Number = 1.0
    found = many * minimum(maximum(slots - (_FEW - 1.0), 0.0), 1.0)
    for count in range(1, _FEW):
        below = below + term
        term = term * (first + (count - 1.0) * grows) / count
        near = 1.0 - maximum(slots - count, count - slots)
        found = found + maximum(near, 0.0) * term / maximum(term + free * below, _NONE)
    return found


def gamma_quantile(mean: Number, variance: Number, z: Number) -> Number:
    """Quantile of a gamma distribution by its mean and variance.

    References
    ----------
    Wilson and Hilferty, 1931, https://doi.org/10.1073/pnas.17.12.684.
    """
    shape = maximum(mean, _NONE) ** 2 / maximum(variance, _NONE**3)
    # Very skewed ones are a share of nothing: there the approximation leaves its range.
    shape = maximum(shape, 0.1)
    root = maximum(1.0 - 1.0 / (9.0 * shape) + z / (3.0 * sqrt(shape)), 0.0)
    return mean * root**3


def rare_quantile(ratio: Number, mean: Number, variance: Number, share: float) -> Number:
    """Quantile of what only a ``ratio`` of requests meets, as a gamma distribution among those.

    Parameters
    ----------
    ratio
        Share of requests that meet any of it, above zero [-].
    mean, variance
        Over all requests, those that meet none included.
    share
        Of requests that do not exceed it [-].
    """
    ratio = maximum(ratio, _NONE)
    beyond = (1.0 - share) / ratio
    among = mean / ratio
    among_variance = maximum((variance + mean * mean) / ratio - among * among, 0.0)
    found = gamma_quantile(among, among_variance, normal_quantile(minimum(beyond, 1.0)))
    return where(beyond >= 1.0, 0.0, found)


def normal_quantile(beyond: Number) -> Number:
    """Standard normal quantile that a share ``beyond`` exceeds, within 0.003.

    References
    ----------
    Hastings, Approximations for Digital Computers, 1955, sheet 67.
    """
    tail = maximum(minimum(beyond, 1.0 - beyond), _NONE)
    t = sqrt(-2.0 * log(tail))
    found = t - (2.30753 + 0.27061 * t) / (1.0 + 0.99229 * t + 0.04481 * t * t)
    return where(beyond <= 0.5, found, -found)


def _beyond(mean: Number, variance: Number, count: Number) -> tuple[Number, Number]:
    """Standard normal quantile of a count of a gamma distribution, and the density there."""
    mean = maximum(mean, _NONE)
    shape = mean**2 / maximum(variance, _NONE)
    ratio = (count / mean) ** (1.0 / 3.0)
    z = 3.0 * sqrt(shape) * (ratio - 1.0 + 1.0 / (9.0 * shape))
    z = maximum(minimum(z, _FAR), -_FAR)
    slope = sqrt(shape) / (ratio * ratio * mean)
    density = exp(-z * z / 2.0) / (2.0 * pi) ** 0.5 * slope
    return z, where(z >= _FAR, 0.0, density)


def normal_share(z: Number) -> Number:
    """Share of a standard normal distribution below ``z``, within 0.0002.

    References
    ----------
    Page, 1977, https://doi.org/10.2307/2346872.
    """
    return 1.0 / (1.0 + exp(-1.5976 * z - 0.070565992 * z**3))
