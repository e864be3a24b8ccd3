"""What a prompt that arrives at random waits for before it is computed, slots left out.

A prompt waits for the step under way and is computed in the next with all prompts that came
meanwhile; where those fill the step, it queues.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.core.elementwise import Number, exp, maximum, minimum, sqrt
from service.core.performance.inference.batching import own_prompts_s
from service.core.performance.inference.queueing import (
    HIGHEST_UTILISATION,
    NORMAL_QUANTILES,
    SHARES,
    Queue,
    gamma_quantile,
    prompt_queue,
)
from service.core.performance.inference.replica import Mix, Replica
from service.core.performance.inference.varied_prompts import PromptTimes, prompt_times
from service.core.performance.steps import StepTime

#: Below this a share, or a time, is none.
_NONE = 1e-12


@dataclass(frozen=True, slots=True)
class Waits:
    """What a prompt waits for [s], and how that varies.

    ``own_s`` is the mean of its own steps, of which ``varied_s`` as lengths differ; ``each`` are
    the times that prompts take from a stage. ``cycle_s`` is the step under way when a prompt
    arrives, longer ones being met more often; ``hit_ratio`` of prompts meet one that computes
    prompts, of ``hit_s`` and, as long ones are met more often, then ``met_s``; ``full_ratio`` is
    the share of their time that full steps would need for all prompts, ``sharing_ratio`` how far
    prompts share steps. ``variance`` is that of the wait for steps, ``crowd_variance`` what the
    varying crowd adds to that of a step [s²].
    """

    busy_ratio: Number
    own_s: Number
    varied_s: Number
    each: PromptTimes
    step_s: Number
    shared_s: Number
    queue: Queue
    full_ratio: Number
    cycle_s: Number
    crowd_variance: Number
    hit_ratio: Number
    hit_s: Number
    met_s: Number
    sharing_ratio: Number
    variance: Number

    @property
    def before_queue_s(self) -> Number:
        """Mean wait for the step under way and for prompts in the same step [s]."""
        return self.step_s + self.shared_s

    def percentile_s(self, name: str) -> Number:
        """Percentile of that wait, queues left out [s]."""
        mean_s = self.before_queue_s
        if name == "p50":
            # Where steps are alike the wait is uniform, whose median is the mean.
            skewed = maximum(self.variance - mean_s * mean_s / 3.0, 0.0)
            return gamma_quantile(mean_s, skewed, NORMAL_QUANTILES[name])
        spread_s = gamma_quantile(mean_s, self.variance, NORMAL_QUANTILES[name])
        beyond = (1.0 - SHARES[name]) / maximum(self.hit_ratio, _NONE)
        return maximum(spread_s, self.met_s * self.sharing_ratio * maximum(1.0 - beyond, 0.0))


def prompt_waits(
    replica: Replica, mix: Mix, prefill: StepTime, rate: Number, longer: Number
) -> Waits:
    """What a prompt waits for at a stage.

    Parameters
    ----------
    replica
        What runs which requests.
    mix
        Steps of the stage.
    prefill
        A step of a prompt's chunk alone.
    rate
        Arrivals at the stage [1/s].
    longer
        By which share of itself a step grows with the rate [-].

    References
    ----------
    Takagi, Analysis of Polling Systems, 1986 (gated service); Kleinrock, Queueing Systems I, 1975,
    sections 5.2 (the step that an arrival meets: moments of order n + 1 over the mean) and 5.6.
    """
    base_s, taken_s = mix.base_s, mix.taken_s
    inputs = replica.requests.input_spread.square_ratio
    each = prompt_times(replica, mix)
    square = each.rms_s * each.rms_s
    # Few nodes of a quadrature fall a little short of the mean square.
    varied_s = maximum(each.mean_s - taken_s, 0.0)
    prompts_ratio = minimum(rate * taken_s, HIGHEST_UTILISATION)
    longer = maximum(longer, prompts_ratio)
    busy = 1.0 - exp(-(mix.decoding + prompts_ratio))
    own_s = own_prompts_s(replica, mix, prefill, busy, 1.0) + varied_s
    share_s = base_s / mix.fitting_prompts
    full_s = share_s + taken_s
    # Long prompts need more steps and take more of them, both at once.
    served = (share_s * sqrt(inputs) + each.rms_s) ** 2
    queue = prompt_queue(rate, full_s, mix.fitting_prompts, served / (full_s * full_s))
    # Steps with more prompts are longer, and more prompts come in longer steps: a step is what it
    # takes without any and a Poisson number of prompts, in proportion to the step before it. Its
    # cumulants follow from that, over the mean of a step.
    mean_s = base_s / (1.0 - prompts_ratio)
    by_prompts = rate * square / memory(longer)
    each_s = sequence_s(mix, longer)
    crowd_variance = mix.decoding / (1.0 - longer) * each_s * each_s
    varying = by_prompts * mean_s + crowd_variance
    skewed = rate * (mean_s * square * each.met_s + 3.0 * prompts_ratio * square * varying)
    skewed = skewed / ((1.0 - longer * longer * longer) * maximum(mean_s, _NONE))
    # What an arriving prompt meets of it.
    cycle_s = mean_s + by_prompts + crowd_variance / maximum(mix.step_s, _NONE)
    cycle_square = skewed + 3.0 * varying + mean_s * mean_s
    # Of that it waits for a part as long as chance has it, and for those that come meanwhile.
    variance = maximum(cycle_square - cycle_s * cycle_s, 0.0) * (0.5 + prompts_ratio) ** 2
    variance = variance + cycle_square / 12.0 + rate * square * cycle_s
    # Where a step has room for one prompt alone, prompts share none.
    sharing = 1.0 - 1.0 / maximum(mix.fitting_prompts, 1.0)
    alone = cycle_s * cycle_s / 12.0 + crowd_variance
    shared_s = busy * (cycle_s * (0.5 + prompts_ratio) - base_s / 2.0) * sharing
    hit_s = mix.chunks * base_s + taken_s
    return Waits(
        busy_ratio=busy,
        own_s=own_s,
        varied_s=varied_s,
        each=each,
        step_s=busy * base_s / 2.0,
        shared_s=shared_s,
        queue=queue,
        full_ratio=minimum(rate * full_s, HIGHEST_UTILISATION),
        cycle_s=cycle_s,
        crowd_variance=crowd_variance,
        hit_ratio=minimum(rate * hit_s, 1.0),
        hit_s=hit_s,
        met_s=mix.chunks * base_s + taken_s * inputs,
        sharing_ratio=sharing,
        variance=busy * (sharing * variance + (1.0 - sharing) * alone),
    )


def sequence_s(mix: Mix, longer: Number) -> Number:
    """By how much a step is longer for each sequence that decodes [s]."""
    by_sequences_s = maximum(longer * mix.step_s - mix.prompts * mix.taken_s, 0.0)
    return by_sequences_s / maximum(mix.decoding, _NONE)


def memory(longer: Number) -> Number:
    """By what fluctuations grow that feed on themselves."""
    return 1.0 - longer * longer
