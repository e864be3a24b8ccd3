"""Time per later token of requests under random arrivals, and how it differs between them."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.elementwise import Number, exp, maximum, minimum, sqrt
from service.core.performance.inference.percentiles import added
from service.core.performance.inference.queueing import (
    HIGHEST_UTILISATION,
    NORMAL_QUANTILES,
    SHARES,
    gamma_quantile,
    rare_quantile,
)
from service.core.performance.inference.replica import Mix, Replica
from service.core.performance.inference.varied_prompts import crowded_s
from service.core.performance.inference.waits import Waits, memory, sequence_s

#: Below this a share, or a time, is none.
_NONE = 1e-12
#: Bound of a ratio that one less it divides.
_MOST_MIXED = 1.0 - 1e-9
#: Variance of the mean of a Poisson crowd over the life of one of them, beside the crowd's own:
#: the overlap of two lives falls linearly with their distance.
_OF_CROWD = 2.0 / 3.0


@dataclass(frozen=True, slots=True)
class TokenTimes:
    """Time per later token of a request [s]: its mean, and what makes requests differ.

    Steps are longer by ``crowd_s`` on average for the sequences that decode, which varies by
    ``crowd_variance`` [s²]; by ``burst_s`` for prompts, which varies by ``burst_variance`` and of
    which only ``met_ratio`` of requests meet any. No request's steps take less than ``least_s`` or
    more than ``most_s`` on average. Where answers have a single token, ``another_s`` is what
    another would take.
    """

    mean_s: Number
    crowd_s: Number
    crowd_variance: Number
    met_ratio: Number
    burst_s: Number
    burst_variance: Number
    least_s: Number
    most_s: Number
    another_s: Number

    @property
    def variance(self) -> Number:
        """Variance over requests [s²]."""
        return self.crowd_variance + self.burst_variance

    def percentile_s(self, name: str) -> Number:
        """Percentile over requests [s]."""
        z = NORMAL_QUANTILES[name]
        crowd_s = gamma_quantile(self.crowd_s, self.crowd_variance, z)
        if name == "p50":
            burst_s = gamma_quantile(self.burst_s, self.burst_variance, z)
        else:
            burst_s = rare_quantile(self.met_ratio, self.burst_s, self.burst_variance, SHARES[name])
        parts = (
            (crowd_s - self.crowd_s, self.crowd_variance),
            (burst_s - self.burst_s, self.burst_variance),
        )
        found = self.mean_s + added(parts, name)
        return maximum(minimum(found, self.most_s), self.least_s)


def token_times(
    replica: Replica, mix: Mix, waits: Waits, rate: Number, longer: Number
) -> TokenTimes:
    """Time per later token under so many arrivals in a second at a stage.

    Prompts that came while a request's own was computed are computed in its first steps, so that a
    request with a short answer meets more of them than a step does on average.

    Parameters
    ----------
    replica
        What runs which requests.
    mix
        Steps of the stage.
    waits
        What prompts wait for there.
    rate
        Arrivals at the stage [1/s].
    longer
        By which share of itself a step grows with the rate [-].

    References
    ----------
    Ross, Stochastic Processes, 1996, section 2.5 (compound Poisson sums: variances go by the mean
    square of what is added).
    """
    later = maximum(replica.requests.later_tokens, 1.0)
    base_s, taken_s, each = mix.base_s, mix.taken_s, waits.each
    square = each.rms_s * each.rms_s
    prompts_ratio = minimum(rate * taken_s, HIGHEST_UTILISATION)
    longer = maximum(longer, prompts_ratio)
    alone = 1.0 / maximum(mix.fitting_prompts, 1.0)
    # Steps with prompts take so many of them, and are such a share of all steps.
    together = minimum(mix.mixed_tokens / replica.requests.new_input_tokens, mix.fitting_prompts)
    mixed_ratio = minimum(mix.prompts / together, _MOST_MIXED)
    extra_s = together * taken_s
    # One by one, another prompt waits behind or not, and steps with prompts follow each other.
    behind = maximum(1.0 - exp(-rate * waits.hit_s), waits.full_ratio)
    leaving = (1.0 - behind) / mix.chunks / (1.0 - mixed_ratio)
    following = maximum(1.0 - leaving, 0.0)
    met_ratio = mixed_ratio + maximum(behind - mixed_ratio, 0.0) * _mean_power(following, later)
    # Together, those that came during one step are computed in the next.
    next_s = prompts_ratio * (base_s + taken_s + prompts_ratio * waits.cycle_s)
    excess_s = maximum(next_s - mix.prompts * taken_s, 0.0) * _mean_power(prompts_ratio, later)
    mean_s = mix.step_s + alone * (met_ratio - mixed_ratio) * extra_s + (1.0 - alone) * excess_s
    least_s = base_s - mix.decoding * sequence_s(mix, longer)
    lasting = maximum(following, prompts_ratio)
    bursts = met_ratio * (1.0 - met_ratio) * extra_s * extra_s
    bursts = bursts + (1.0 - alone) * met_ratio * together * square / memory(longer)
    averaged = minimum((1.0 + lasting) / maximum((1.0 - lasting) * later, _NONE), 1.0)
    # Some meet none in their first step, and none in those that follow.
    first = maximum(behind * alone, 1.0 - exp(-rate * waits.cycle_s))
    # The most of one step in a hundred, and of its longest prompt, that share it.
    per_prompt_s = maximum(taken_s, _NONE)
    more = NORMAL_QUANTILES["p99"] * sqrt(mix.prompts) * each.rms_s / per_prompt_s
    more = more + (1.0 - alone) * (each.met_s / per_prompt_s - 1.0)
    return TokenTimes(
        mean_s=mean_s,
        crowd_s=maximum(base_s - least_s, 0.0),
        # A request sees the mean of the crowd over its life, which varies less than the crowd.
        crowd_variance=_OF_CROWD * waits.crowd_variance,
        met_ratio=1.0 - (1.0 - first) * exp(-rate * later * base_s),
        burst_s=maximum(mean_s - base_s, 0.0),
        burst_variance=bursts * averaged,
        least_s=least_s,
        most_s=maximum(mean_s, base_s + crowded_s(replica, mix, more)),
        another_s=mix.decode.total_s,
    )


def _mean_power(ratio: Number, count: Number) -> Number:
    """Mean of the powers 0, 1, …, count − 1 of a ratio below 1."""
    return (1.0 - ratio**count) / maximum((1.0 - ratio) * count, _NONE)
