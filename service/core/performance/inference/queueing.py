"""Requests arriving at random: utilisation, waiting and percentiles.

Model: Poisson arrivals split evenly over the replicas; each replica serves up to ``slots``
sequences at once with the latencies of
:mod:`service.core.performance.inference.batching` at the number in flight that Little's law gives.
Prompts wait for the prefill of earlier prompts as in an M/D/1 queue, whose waiting time has an
exponential tail.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.core.elementwise import Number, log, maximum, minimum

#: Utilisation above which the closed form says nothing useful any more.
HIGHEST_UTILISATION = 0.999


@dataclass(frozen=True, slots=True)
class PromptQueue:
    """Waiting of prompts before their prefill [s], and the tail that percentiles come from."""

    utilisation_ratio: Number
    mean_wait_s: Number
    tail_wait_s: Number

    def wait_percentile_s(self, share: float) -> Number:
        """Waiting time that a ``share`` of prompts does not exceed [s]."""
        rho = minimum(self.utilisation_ratio, HIGHEST_UTILISATION)
        exceeding = 1.0 - share
        waits = rho > exceeding
        ratio = maximum(rho, 1e-12) / exceeding
        return waits * self.tail_wait_s * log(maximum(ratio, 1.0))


def prompt_queue(prompts_per_s: Number, prefill_s: Number) -> PromptQueue:
    """M/D/1 queue of prompts of one length.

    Parameters
    ----------
    prompts_per_s
        Arrival rate at one replica [1/s].
    prefill_s
        Time the replica is busy with one prompt [s].

    Returns
    -------
    PromptQueue
        Mean wait ``ρ·s / (2(1−ρ))`` and the time constant of the exponential tail.

    References
    ----------
    Kleinrock, Queueing Systems I, 1975, section 5.6 (Pollaczek–Khinchine mean); tail constant from
    the heavy-traffic limit, Kingman, 1961, https://doi.org/10.1017/S0305004100036094.
    """
    rho = minimum(prompts_per_s * prefill_s, HIGHEST_UTILISATION)
    mean_wait_s = rho * prefill_s / (2.0 * (1.0 - rho))
    # A share rho waits at all; the tail that keeps the mean is mean / rho.
    return PromptQueue(rho, mean_wait_s, prefill_s / (2.0 * (1.0 - rho)))


def poisson_tail_high(mean: Number, z: float) -> Number:
    """Upper quantile of a Poisson count by the normal approximation with mean and variance equal.

    Used for how many neighbours a request meets at the 95th or 99th percentile.
    """
    return mean + z * maximum(mean, 0.0) ** 0.5
