"""A replica under random arrivals: how many are in flight, and what percentiles users see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf

from service.core.elementwise import Number, Truth, both, everywhere, exp, maximum, minimum, where
from service.core.lightweight import computed_once, lightweight
from service.core.performance.inference.batching import SteadyState, own_prompts_s
from service.core.performance.inference.percentiles import (
    Percentiles,
    TimesOfUsers,
    added,
    ratio_of,
)
from service.core.performance.inference.queueing import (
    HIGHEST_UTILISATION,
    NORMAL_QUANTILES,
    SHARES,
    Queue,
    gamma_quantile,
    prompt_queue,
    slot_queue,
)
from service.core.performance.inference.replica import FullReplica, Mix, Replica
from service.core.performance.steps import StepTime

#: Steps of the search for the prompts that a step takes, which ends sooner for single figures.
_STEPS = 12
#: Relative error at which it ends.
_TOLERANCE = 1e-7
#: Below this a number of prompts or a rate is none.
_NONE = 1e-12
#: Bounds of ratios that waits divide one less them by.
_MOST_LENGTHENING = 0.999
_MOST_MIXED = 1.0 - 1e-9
#: Variance of the mean of a Poisson crowd over the life of one of them, beside the crowd's own:
#: the overlap of two lives falls linearly with their distance.
_OF_CROWD = 2.0 / 3.0


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
class OpenLoad(ReplicaLoad):
    """One replica under a request rate.

    ``utilisation_ratio`` is the rate over the rate at which the replica saturates. A saturated
    replica has no steady state: its queue grows without end, and percentiles of what waits for it
    are infinite; means are those just below saturation. ``at_utilisation`` is the load of the same
    replica at another such ratio. ``cycle_s`` is the step under way that an arriving prompt meets
    [s], ``prompt_queue`` and ``slot_queue`` what waits for room in a step and
    for a slot. Percentiles over requests are computed by ``times`` when they are asked for:
    searches ask for few of them.
    """

    utilisation_ratio: Number
    saturated: Truth
    times: Callable[[], TimesOfUsers]
    at_utilisation: Callable[[Number], OpenLoad]
    cycle_s: Number | None = None
    prompt_queue: Queue | None = None
    slot_queue: Queue | None = None

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


@dataclass(frozen=True, slots=True)
class _Waits:
    """What a prompt waits for [s], and how that varies.

    ``cycle_s`` is the step under way when a prompt arrives, longer ones being met more often;
    ``hit_ratio`` of prompts meet one that computes prompts, of ``hit_s`` and, as long
    ones are met more often, then ``met_s``; ``full_ratio`` is the
    share of their time that full steps would need for all prompts, ``sharing_ratio`` how far
    prompts share steps, ``crowd_variance`` what the varying crowd adds to a step's variance [s²].
    """

    busy_ratio: Number
    own_s: Number
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
        """Percentile of that wait, queues left out; the median is taken to be the mean [s]."""
        if name == "p50":
            return self.before_queue_s
        spread_s = gamma_quantile(self.before_queue_s, self.variance, NORMAL_QUANTILES[name])
        beyond = (1.0 - SHARES[name]) / maximum(self.hit_ratio, _NONE)
        return maximum(spread_s, self.met_s * self.sharing_ratio * maximum(1.0 - beyond, 0.0))


@dataclass(frozen=True, slots=True)
class _Decoding:
    """Time per later token of a request [s]: its mean, variance and bounds over requests."""

    mean_s: Number
    variance: Number
    least_s: Number
    most_s: Number

    def percentile_s(self, name: str) -> Number:
        """Percentile over requests [s]."""
        varying_s = maximum(self.mean_s - self.least_s, 0.0)
        found = gamma_quantile(varying_s, self.variance, NORMAL_QUANTILES[name])
        return maximum(minimum(self.least_s + found, self.most_s), self.least_s)


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
    waits = _waits(replica, mix, prefill, rate, longer)
    each = _decoding(replica, mix, full.mix, waits, rate, longer)
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
        unloaded_ttft_s=replica.passes(replica.prefill_chunks) * prefill.total_s,
        ttft_s=waiting_s,
        tpot_s=tpot_s,
        requests_per_s=rate * stages,
        ttft_parts_s=parts,
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


def _waits(replica: Replica, mix: Mix, prefill: StepTime, rate: Number, longer: Number) -> _Waits:
    """What a prompt at a stage with so many arrivals in a second waits for, slots left out."""
    base_s, taken_s = mix.base_s, mix.taken_s
    inputs = replica.requests.input_spread.square_ratio
    prompts_ratio = minimum(rate * taken_s, HIGHEST_UTILISATION)
    longer = maximum(longer, prompts_ratio)
    busy = 1.0 - exp(-(mix.decoding + prompts_ratio))
    own_s = own_prompts_s(replica, mix, prefill, busy, 1.0)
    full_s = base_s / mix.fitting_prompts + taken_s
    queue = prompt_queue(rate, full_s, mix.fitting_prompts, inputs)
    # Steps with more prompts are longer, and more prompts come in longer steps.
    prompts_variance = rate * taken_s * taken_s * inputs / _memory(longer)
    sequence_s = _sequence_s(mix, longer)
    crowd_variance = mix.decoding / (1.0 - longer) * sequence_s * sequence_s
    step_s = maximum(mix.step_s, _NONE)
    cycle_s = base_s / (1.0 - prompts_ratio) + prompts_variance + crowd_variance / step_s
    # Where a step has room for one prompt alone, prompts share none.
    sharing = 1.0 - 1.0 / maximum(mix.fitting_prompts, 1.0)
    shared_s = busy * (cycle_s * (0.5 + prompts_ratio) - base_s / 2.0) * sharing
    hit_s = mix.chunks * base_s + taken_s
    return _Waits(
        busy_ratio=busy,
        own_s=own_s,
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
        variance=busy * (cycle_s * cycle_s / 12.0 + crowd_variance)
        + prompts_variance * cycle_s * sharing,
    )


def _sequence_s(mix: Mix, longer: Number) -> Number:
    """By how much a step is longer for each sequence that decodes [s]."""
    by_sequences_s = maximum(longer * mix.step_s - mix.prompts * mix.taken_s, 0.0)
    return by_sequences_s / maximum(mix.decoding, _NONE)


def _decoding(
    replica: Replica, mix: Mix, full: Mix, waits: _Waits, rate: Number, longer: Number
) -> _Decoding:
    """Time per later token under so many arrivals in a second.

    Prompts that came while a request's own was computed are computed in its first steps, so that a
    request with a short answer meets more of them than a step does on average.
    """
    later = maximum(replica.requests.later_tokens, 1.0)
    base_s, taken_s = mix.base_s, mix.taken_s
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
    # A request sees the mean of the crowd over its life, which varies less than the crowd.
    crowd = _OF_CROWD * waits.crowd_variance
    lasting = maximum(following, prompts_ratio)
    bursts = met_ratio * (1.0 - met_ratio) * extra_s * extra_s
    bursts = bursts + (1.0 - alone) * met_ratio * together * taken_s**2 / _memory(longer)
    averaged = minimum((1.0 + lasting) / maximum((1.0 - lasting) * later, _NONE), 1.0)
    return _Decoding(
        mean_s=mean_s,
        variance=crowd + bursts * averaged,
        least_s=base_s - mix.decoding * _sequence_s(mix, longer),
        most_s=maximum(full.step_s, base_s + extra_s),
    )


def _mean_power(ratio: Number, count: Number) -> Number:
    """Mean of the powers 0, 1, …, count − 1 of a ratio below 1."""
    return (1.0 - ratio**count) / maximum((1.0 - ratio) * count, _NONE)


def _memory(longer: Number) -> Number:
    """By what fluctuations grow that feed on themselves."""
    return 1.0 - longer * longer


def _percentiles(
    replica: Replica,
    mix: Mix,
    waits: _Waits,
    slot: Queue,
    decoding: _Decoding,
    saturated: Truth,
) -> TimesOfUsers:
    """Percentiles over requests.

    Waits for different things, lengths and the crowd are nearly independent: above the median
    their excesses add in quadrature.
    """
    requests = replica.requests
    later = requests.later_tokens
    prompt_s = waits.own_s + waits.before_queue_s
    ttft_mean_s = prompt_s + waits.queue.mean_wait_s + slot.mean_wait_s
    decode_s = later * decoding.mean_s
    ttft: dict[str, Number] = {}
    tpot: dict[str, Number] = {}
    e2e: dict[str, Number] = {}
    below: str | None = None
    for name, share in SHARES.items():
        own_s = _longer_prompt_s(mix, waits, ratio_of(requests.input_spread, name))
        step_s = waits.percentile_s(name) - waits.before_queue_s
        queue_s = waits.queue.wait_percentile_s(share)
        slot_s = slot.wait_percentile_s(share)
        first_s = prompt_s + added((own_s, step_s, queue_s, slot_s), name)
        each_s = decoding.percentile_s(name)
        answer_s = decode_s * (ratio_of(requests.output_spread, name) - 1.0)
        slower_s = later * (each_s - decoding.mean_s)
        whole_s = ttft_mean_s + decode_s + added((first_s - ttft_mean_s, slower_s, answer_s), name)
        if below is not None:
            # What is nearly nothing may round either way.
            first_s, each_s = maximum(first_s, ttft[below]), maximum(each_s, tpot[below])
            whole_s = maximum(whole_s, e2e[below])
        ttft[name], tpot[name], e2e[name] = first_s, each_s, whole_s
        below = name
    first, whole = (
        Percentiles(**{name: where(saturated, inf, value) for name, value in found.items()})
        for found in (ttft, e2e)
    )
    return TimesOfUsers(first, Percentiles(**tpot), whole)


def _longer_prompt_s(mix: Mix, waits: _Waits, ratio: Number) -> Number:
    """What a prompt takes more that is longer by a ratio than the mean [s]."""
    chunks = maximum(ratio / mix.fitting_prompts, 1.0)
    more_steps = chunks - mix.chunks
    return mix.added_s * (ratio - 1.0) + waits.busy_ratio * mix.base_s * more_steps
