"""A replica under random arrivals: how many are in flight, and what percentiles users see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from math import inf

from service.core.elementwise import Number, Truth, both, everywhere, maximum, minimum, where
from service.core.lightweight import computed_once, lightweight
from service.core.performance.inference.batching import SteadyState
from service.core.performance.inference.percentiles import (
    Percentiles,
    TimesOfUsers,
    added,
    ratio_of,
)
from service.core.performance.inference.queueing import (
    HIGHEST_UTILISATION,
    SHARES,
    Queue,
    slot_queue,
)
from service.core.performance.inference.replica import FullReplica, Mix, Replica
from service.core.performance.inference.token_times import TokenTimes, token_times
from service.core.performance.inference.users import FirstTokens, times_of_users
from service.core.performance.inference.varied_prompts import length_excess_s
from service.core.performance.inference.waits import Waits, prompt_waits

#: Steps of the search for the prompts that a step takes, which ends sooner for single figures.
_STEPS = 12
#: Relative error at which it ends.
_TOLERANCE = 1e-7
#: Below this a number of prompts or a rate is none.
_NONE = 1e-12
#: Bound of a ratio that waits divide one less it by.
_MOST_LENGTHENING = 0.999


@lightweight
class ReplicaLoad:
    """What one replica carries, and the time to the first token there.

    ``requests_per_s`` [1/s] and ``waiting_requests`` are those of the replica; it has any requests
    in flight for ``busy_ratio`` of the time. ``ttft_parts_s`` add up to ``mean_ttft_s``.
    """

    state: SteadyState
    running_sequences: Number
    waiting_requests: Number
    busy_ratio: Number
    requests_per_s: Number
    mean_ttft_s: Number
    ttft_parts_s: Mapping[str, Number]


@lightweight
class TimedLoad(ReplicaLoad):
    """What a replica carries, with percentiles over requests.

    They are computed by ``times`` when they are asked for: searches ask for few of them.
    """

    times: Callable[[], TimesOfUsers] = field(compare=False)

    @computed_once
    def of_users(self) -> TimesOfUsers:
        """All percentiles."""
        return self.times()

    @property
    def ttft_s(self) -> Percentiles:
        """Percentiles of the time to the first token."""
        return self.of_users.ttft_s

    @property
    def tpot_s(self) -> Percentiles:
        """Percentiles of the time per later token."""
        return self.of_users.tpot_s

    @property
    def e2e_s(self) -> Percentiles:
        """Percentiles of the time of whole requests."""
        return self.of_users.e2e_s


@lightweight
class OpenLoad(TimedLoad):
    """One replica under a request rate.

    ``utilisation_ratio`` is the rate over the rate at which the replica saturates. A saturated
    replica has no steady state: its queue grows without end, and percentiles of what waits for it
    are infinite; means are those just below saturation. ``at_utilisation`` is the load of the same
    replica at another such ratio. ``cycle_s`` is the step under way that an arriving prompt meets
    [s], ``prompt_queue`` and ``slot_queue`` what waits for room in a step and
    for a slot.
    """

    utilisation_ratio: Number
    saturated: Truth
    at_utilisation: Callable[[Number], OpenLoad]
    cycle_s: Number | None = None
    prompt_queue: Queue | None = None
    slot_queue: Queue | None = None


def open_load(full: FullReplica, requests_per_s: Number) -> OpenLoad:
    """Find the number in flight that a request rate leads to, and the latencies there.

    Parameters
    ----------
    full
        What runs which requests, with all slots taken.
    requests_per_s
        Poisson arrivals at this replica [1/s].

    References
    ----------
    Little, 1961, https://doi.org/10.1287/opre.9.3.383; Takagi, Analysis of Polling Systems, 1986
    (gated service: prompts that come during a step are computed together in the next); Kleinrock,
    Queueing Systems II, 1976, section 4.4 (processor sharing: the number in flight varies by
    1/(1−p) more than a Poisson count where steps grow with it).
    """
    utilisation = requests_per_s / full.requests_per_s
    stages = full.replica.parallelism.pipeline
    # Beyond saturation the steps are those of a full replica.
    rate = minimum(utilisation, HIGHEST_UTILISATION) * full.requests_per_s / stages
    return _loaded(full, requests_per_s, rate, _mix_at(full, rate))


def load_of_steps(full: FullReplica, prompts: Number) -> OpenLoad:
    """The load under the very rate at which steps take so many prompts on average.

    Unlike :func:`open_load`, which has to look for that number, it is known at once.

    Parameters
    ----------
    full
        As there.
    prompts
        Above zero, and at most those of full steps [-].
    """
    mix = full.replica.mix(prompts, full.mix.decoding, full.prefill)
    rate = prompts / mix.step_s
    return _loaded(full, rate * full.replica.parallelism.pipeline, rate, mix)


def _loaded(full: FullReplica, requests_per_s: Number, rate: Number, mix: Mix) -> OpenLoad:
    """The load of a replica whose steps are known, at ``rate`` below saturation per stage."""
    replica, prefill, saturation_per_s = full.replica, full.prefill, full.requests_per_s
    utilisation = requests_per_s / saturation_per_s
    saturated = utilisation >= 1.0
    stages, later = replica.parallelism.pipeline, replica.requests.later_tokens
    longer = _lengthening(mix, full.mix)
    waits = prompt_waits(replica, mix, prefill, rate, longer)
    each = token_times(replica, mix, waits, rate, longer)
    decoding = rate * later * each.mean_s
    waiting_s = waits.own_s + waits.before_queue_s + waits.queue.mean_wait_s
    in_flight = (decoding + rate * waiting_s) * stages
    running = (decoding + rate * (waits.own_s + waits.before_queue_s)) * stages
    slot = slot_queue(
        in_flight,
        in_flight / (1.0 - longer),
        full.slots,
        saturation_per_s,
        minimum(utilisation, HIGHEST_UTILISATION),
        replica.requests.output_spread.square_ratio,
    )
    # A single token has none after it; what one would take is told.
    tpot_s = where(
        later > 0,
        where(saturated, maximum(full.mix.step_s, each.mean_s), each.mean_s),
        mix.decode.total_s,
    )
    # Beyond saturation the queue grows without end.
    endless = Queue(slot.waiting_ratio, where(saturated, inf, slot.tail_s))
    parts = {
        "own_prompt": waits.own_s,
        "running_step": waits.step_s,
        "prompts_beside": waits.shared_s,
        "queue": waits.queue.mean_wait_s,
        "slot_queue": endless.mean_wait_s,
    }
    state = SteadyState(
        decode=mix.decode,
        prefill=prefill,
        chunks=replica.prefill_chunks,
        decoding_sequences=decoding * stages,
        unloaded_ttft_s=replica.unloaded_ttft_s(prefill),
        ttft_s=waiting_s,
        tpot_s=tpot_s,
        requests_per_s=rate * stages,
        ttft_parts_s=parts,
        varied_s=waits.varied_s,
        mix=mix,
        busy_ratio=waits.busy_ratio,
        prompts_per_step=mix.prompts,
        fuller_s=tpot_s - mix.step_s,
    )
    queued = requests_per_s * (waits.queue.mean_wait_s + slot.mean_wait_s)
    return OpenLoad(
        state=state,
        running_sequences=minimum(running, full.slots),
        waiting_requests=where(saturated, inf, queued),
        # It cannot end more in the time in which it works than a full one.
        busy_ratio=maximum(waits.busy_ratio, minimum(utilisation, 1.0)),
        requests_per_s=minimum(requests_per_s, saturation_per_s),
        utilisation_ratio=utilisation,
        saturated=saturated,
        cycle_s=waits.cycle_s,
        prompt_queue=waits.queue,
        slot_queue=endless,
        mean_ttft_s=waiting_s + slot.mean_wait_s,
        ttft_parts_s=parts,
        times=partial(_percentiles, replica, mix, waits, slot, each, saturated),
        at_utilisation=lambda ratio: open_load(full, ratio * saturation_per_s),
    )


def _mix_at(full: FullReplica, rate: Number) -> Mix:
    """Steps of a stage at which so many prompts come, below saturation.

    What a step takes grows with the prompts that come during it; the search keeps a bracket around
    the number at which both agree (regula falsi, halving the end that stays).
    """

    def excess(prompts: Number) -> tuple[Mix, Number]:
        mix = full.replica.mix(prompts, full.mix.decoding, full.prefill)
        return mix, prompts - rate * mix.step_s

    low: Number = full.mix.prompts * _NONE
    high = full.mix.prompts
    mix, below = excess(low)
    found: Number = below
    above = high - rate * full.mix.step_s
    side: Number = 0.0 * high
    for _ in range(_STEPS):
        width = maximum(above - below, _NONE * high)
        middle: Number = minimum(maximum(high - above * (high - low) / width, low), high)
        mix, found = excess(middle)
        over: Truth = found >= 0.0
        high, low = where(over, middle, high), where(over, low, middle)
        above, below = where(over, found, above), where(over, below, found)
        # An end that stays twice loses half of its weight.
        below = where(both(over, side > 0.0), below / 2.0, below)
        above = where(both(found < 0.0, side < 0.0), above / 2.0, above)
        side = where(over, 1.0, -1.0)
        done: Truth = maximum(found, -found) <= _TOLERANCE * middle
        if everywhere(done):
            break
        # What is found stays, whatever else is searched for beside it.
        high, low = where(done, middle, high), where(done, middle, low)
    return mix


def _lengthening(mix: Mix, full: Mix) -> Number:
    """By which share of itself a step grows with the rate, towards that of a full replica [-].

    It is the elasticity of a step's time in the prompts that it takes.
    """
    more = maximum(full.prompts - mix.prompts, _NONE * full.prompts)
    slope = (full.step_s - mix.step_s) / more
    found = mix.prompts * slope / maximum(mix.step_s, _NONE)
    return minimum(maximum(found, 0.0), _MOST_LENGTHENING)


def _percentiles(
    replica: Replica,
    mix: Mix,
    waits: Waits,
    slot: Queue,
    tokens: TokenTimes,
    saturated: Truth,
) -> TimesOfUsers:
    """Percentiles over requests, those of what waits without end infinite."""
    found = times_of_users(replica.requests, _first_tokens(replica, mix, waits, slot), tokens)
    return TimesOfUsers(
        found.ttft_s.without_end(saturated), found.tpot_s, found.e2e_s.without_end(saturated)
    )


def _first_tokens(replica: Replica, mix: Mix, waits: Waits, slot: Queue) -> FirstTokens:
    """Time to the first token; waits for different things and lengths are nearly independent."""
    queue, own_variance = waits.queue, waits.each.variance
    usual_s = waits.own_s + waits.before_queue_s
    mean_s = usual_s + queue.mean_wait_s + slot.mean_wait_s

    def percentile_s(name: str) -> Number:
        share, at_s = SHARES[name], usual_s
        queued_s, slot_s = queue.wait_percentile_s(share), slot.wait_percentile_s(share)
        if name == "p50":
            # Few wait in a queue, some of them for long: high percentiles are beside the others'
            # means.
            at_s = mean_s
            queued_s, slot_s = queued_s - queue.mean_wait_s, slot_s - slot.mean_wait_s
        ratio = ratio_of(replica.requests.input_spread, name)
        own_s = length_excess_s(replica, mix, waits.busy_ratio, ratio) - waits.varied_s
        parts = (
            (own_s, own_variance),
            (waits.percentile_s(name) - waits.before_queue_s, waits.variance),
            (queued_s, queue.variance),
            (slot_s, slot.variance),
        )
        return at_s + added(parts, name)

    variance = own_variance + waits.variance + queue.variance + slot.variance
    return FirstTokens(mean_s, variance, percentile_s)
