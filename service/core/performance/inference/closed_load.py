"""A replica that always has as many requests in flight, and what percentiles users see.

Another request comes for each that is answered, as from a benchmark with a fixed concurrency. What
differs between requests are their lengths, and the prompts that come while others are decoded:
those of equal length come at equal distances, those of differing lengths nearly at random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial

from service.core.elementwise import Number, exp, is_nothing, maximum, minimum
from service.core.interval import Interval
from service.core.lightweight import computed_once, lightweight
from service.core.otherwise import Other, reaching
from service.core.performance.inference.batching import SteadyState, closed_loop, companions
from service.core.performance.inference.open_load import ReplicaLoad, TimedLoad
from service.core.performance.inference.percentiles import (
    Percentiles,
    TimesOfUsers,
    added,
    ratio_of,
)
from service.core.performance.inference.queueing import (
    NORMAL_QUANTILES,
    SHARES,
    gamma_quantile,
)
from service.core.performance.inference.replica import Mix, Replica
from service.core.performance.inference.token_times import TokenTimes
from service.core.performance.inference.users import FirstTokens, times_of_users
from service.core.performance.inference.varied_prompts import (
    PromptTimes,
    crowded_s,
    length_excess_s,
    prompt_times,
)
from service.core.performance.steps import StepTime

#: Power of the squared variation of lives that the ends of others within one life vary by, beside
#: a Poisson count: 0.38 of it for lives that vary by a half, as renewals of a log-normal life do.
_RENEWED = 0.7
#: Below this a count is none.
_NONE = 1e-12
#: How often requests of which one length is told differ in truth. Synthetic ones are alike, those
#: of users and of data sets are not: nobody has counted, and both are common [-].
_DIFFERING_RATIO = 0.5


@lightweight
class ClosedLoad(TimedLoad):
    """A replica with so many requests always in flight.

    Requests whose answers are alike and begin together end together, and their prompts wait for
    each other time and again. Where one length alone is told of answers, ``compute_differing``
    gives the load should they differ; None where lengths are told.
    """

    compute_differing: Callable[[], TimedLoad] | None = field(default=None, compare=False)

    @computed_once
    def differing(self) -> TimedLoad | None:
        """The load should answers differ where nobody says; None where that is told."""
        return None if self.compute_differing is None else self.compute_differing()

    def over_lengths(self, figure: Callable[[ReplicaLoad], Interval]) -> Interval:
        """A figure of the load, over what it is should answers differ where nobody says."""
        own = figure(self)
        if self.differing is None:
            return own
        return reaching(own, [Other(figure(self.differing), _DIFFERING_RATIO)])


def closed_load(
    replica: Replica,
    slots: Number,
    requests: Number,
    prefill: StepTime,
    *,
    in_batches: bool = False,
) -> ClosedLoad:
    """Latencies and rate of a replica that always has so many requests in flight.

    Parameters
    ----------
    replica
        What runs which requests.
    slots
        Most sequences it can run [-].
    requests
        In flight, those beyond the slots waiting for one; below one, some replicas have none part
        of the time [-].
    prefill
        A step of a prompt's chunk alone.
    in_batches
        Whether requests begin together whatever their lengths, as a script's do.

    References
    ----------
    Little, 1961, https://doi.org/10.1287/opre.9.3.383.
    """
    told = in_batches or not is_nothing(replica.requests.output_spread.square_ratio - 1.0)
    return _of_state(replica, slots, requests, prefill, told=told)


def _of_state(
    replica: Replica,
    slots: Number,
    requests: Number,
    prefill: StepTime,
    *,
    told: bool = True,
    alike: SteadyState | None = None,
) -> ClosedLoad:
    """A load of which groups last, or come apart where ``alike`` is its state.

    Whether answers differ is ``told`` or open.
    """
    running_sequences = maximum(minimum(requests, slots), 1.0)
    state = closed_loop(replica, running_sequences, prefill, alike=alike)
    # Requests beyond the running ones wait their turn; a queue of q at rate X lasts q / X.
    waiting_requests = maximum(requests - running_sequences, 0.0)
    wait_s = waiting_requests / state.requests_per_s
    # Fewer users than replicas leave some replicas without work part of the time.
    busy_ratio = minimum(requests, 1.0)
    requests_per_s = state.requests_per_s * busy_ratio
    mean_ttft_s = state.ttft_s + wait_s
    ttft_parts_s = {**state.ttft_parts_s, "free_slot": wait_s}
    times = partial(_percentiles, replica, state, running_sequences, waiting_requests)
    compute_differing = None
    if not told:
        compute_differing = partial(_of_state, replica, slots, requests, prefill, alike=state)
    return ClosedLoad(
        state,
        running_sequences,
        waiting_requests,
        busy_ratio,
        requests_per_s,
        mean_ttft_s,
        ttft_parts_s,
        times,
        compute_differing,
    )


def _percentiles(
    replica: Replica, state: SteadyState, running: Number, waiting: Number
) -> TimesOfUsers:
    """Percentiles over requests."""
    mix = state.mix
    assert mix is not None  # noqa: S101 - prompts and decoding are in one replica
    each = prompt_times(replica, mix)
    first = _first_tokens(replica, state, mix, each, running, waiting)
    found = times_of_users(replica.requests, first, _tokens(replica, state, mix, each))
    return found if is_nothing(state.wave_prompts) else _in_waves(replica, mix, state, first, found)


def _in_waves(
    replica: Replica, mix: Mix, state: SteadyState, first: FirstTokens, found: TimesOfUsers
) -> TimesOfUsers:
    """Percentiles of requests that begin in waves: who waits longest gets later tokens soonest.

    Whole requests take as long as each other.
    """
    wave_s = state.wave_prompts * mix.taken_s
    variance = wave_s * wave_s / 3.0
    later = maximum(replica.requests.later_tokens, 1.0)
    ttft: dict[str, Number] = {}
    tpot: dict[str, Number] = {}
    for name, share in SHARES.items():
        # Turns are uniform.
        excess_s = (2.0 * share - 1.0) * wave_s
        first_s: Number = getattr(found.ttft_s, name)
        each_s: Number = getattr(found.tpot_s, name)
        parts = ((first_s - first.mean_s, first.variance), (excess_s, variance))
        ttft[name] = first.mean_s + added(parts, name)
        tpot[name] = each_s + excess_s / later
    return TimesOfUsers(Percentiles(**ttft), Percentiles(**tpot), found.e2e_s)


def _tokens(replica: Replica, state: SteadyState, mix: Mix, each: PromptTimes) -> TokenTimes:
    """Time per later token of a request, which meets the prompts of others.

    References
    ----------
    Cox, Renewal Theory, 1962, chapter 4 (how counts of renewals vary); Ross, Stochastic Processes,
    1996, section 2.5 (sums of a random number of times).
    """
    requests = replica.requests
    later = maximum(requests.later_tokens, 1.0)
    varied = _ends_variance(requests.output_spread.square_ratio, 1.0)
    met = state.prompts_per_step * state.others_ratio
    by_count = state.together_prompts * mix.taken_s * mix.taken_s * varied
    # Short answers meet few prompts, or many in few steps.
    variance = met / later * requests.output_spread.square_ratio * (by_count + each.variance)
    mean_s = state.tpot_s
    return TokenTimes(
        mean_s=mean_s,
        crowd_s=0.0,
        crowd_variance=0.0,
        met_ratio=1.0 - exp(-met * later) * minimum(varied, 1.0),
        burst_s=maximum(mean_s - mix.base_s, 0.0),
        burst_variance=variance,
        least_s=minimum(mix.base_s, mean_s),
        # No step has more prompts than there is room for.
        most_s=maximum(mix.base_s + mix.taken_s * mix.fitting_prompts, mean_s),
        another_s=mix.decode.total_s,
    )


def _first_tokens(
    replica: Replica,
    state: SteadyState,
    mix: Mix,
    each: PromptTimes,
    running: Number,
    waiting: Number,
) -> FirstTokens:
    """Time to the first token: a prompt's own steps, other prompts, and a free slot.

    References
    ----------
    Kleinrock, Queueing Systems I, 1975, sections 3.2 and 3.9 (the number in a queue: geometric
    where few wait, as that of those elsewhere where nearly all do).
    """
    requests, stages = replica.requests, replica.parallelism.pipeline
    sequences = maximum(running / stages, 1.0)
    apart = companions(replica, sequences)[1]
    parts = state.ttft_parts_s
    rate = state.requests_per_s / stages
    # Others that are computed in the same step, of which each adds less than the first takes, and
    # the rest of the step under way.
    another_s: Number = 0.0
    if not is_nothing(apart):
        another_s = crowded_s(replica, mix, 1.0) - crowded_s(replica, mix, 0.0)
        another_s = maximum(another_s, 0.0)
    sharing = apart * state.others_ratio * minimum(state.prompts_per_step, mix.fitting_prompts)
    step_s = state.tpot_s
    variance = (
        sharing * (another_s * another_s + each.variance)
        + state.busy_ratio * step_s * step_s / 12.0
    )
    # Prompts that wait for room in a step.
    queue_s = parts["earlier_prompts"] + parts["backlog"]
    queued = rate * queue_s
    share_s = mix.base_s / maximum(mix.fitting_prompts, 1.0) + mix.taken_s
    alone = queued * (1.0 + queued)
    decoding = maximum(state.decoding_sequences / stages, _NONE)
    in_queue = alone * decoding / (alone + decoding)
    variance = variance + apart * (in_queue * share_s * share_s + queued * each.variance)
    before_s = parts["step_under_way"] + queue_s + sharing * another_s
    slot_s = waiting / state.requests_per_s
    ends = _ends_variance(requests.output_spread.square_ratio, waiting / running)
    slot_variance = slot_s / state.requests_per_s * ends
    mean_s = state.ttft_s + slot_s

    def percentile_s(name: str) -> Number:
        z = NORMAL_QUANTILES[name]
        ratio = ratio_of(requests.input_spread, name)
        excesses = (
            (length_excess_s(replica, mix, state.busy_ratio, ratio), each.variance),
            (gamma_quantile(before_s, variance, z) - before_s, variance),
            (gamma_quantile(slot_s, slot_variance, z) - slot_s, slot_variance),
        )
        return mean_s + added(excesses, name)

    return FirstTokens(mean_s, each.variance + variance + slot_variance, percentile_s)


def _ends_variance(square_ratio: Number, lives: Number) -> Number:
    """Variance over mean of how many of many requests end within so many lives of one [-].

    Within a small part of a life it is that of a Poisson count. Within a whole one it is none if
    all are alike, each of which ends once.
    """
    variation = maximum(square_ratio - 1.0, 0.0)
    found: Number = variation ** (_RENEWED * minimum(lives, 1.0))
    return found
