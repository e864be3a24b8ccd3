"""Continuous batching in closed form: what a steady stream of like requests sees.

Everything follows from how many prompts a step takes on average: how many sequences decode, how
long a step is, and the rate. With ``running_sequences`` requests always present (a closed loop),
that number follows from Little's law and the arrival theorem.
"""

from __future__ import annotations

from collections.abc import Mapping

from service.core.elementwise import Number, is_nothing, maximum, minimum, sqrt, where
from service.core.lightweight import lightweight
from service.core.performance.inference.replica import Mix, Replica, met_together
from service.core.performance.steps import StepTime

#: Steps of Newton's method; each doubles the digits that are right.
_NEWTON_STEPS = 4


@lightweight
class SteadyState:
    """A replica in steady state with a fixed number of running sequences.

    ``decode`` is a step of decoding sequences only, ``prefill`` one of a prompt's chunk alone, of
    which a prompt has ``chunks``. ``decoding_sequences`` are those that decode on average.
    ``ttft_parts_s`` add up to ``ttft_s``. All times [s], ``requests_per_s`` per replica. ``mix``
    are the steps of a stage, None where prompts and decoding are apart.

    ``prompts_per_step`` are met by a decoding sequence as far as they are others', a share
    ``others_ratio``; ``fuller_s`` is what its steps take beyond that. A share ``busy_ratio`` of
    prompts meet decoding sequences; ``together_prompts`` are computed in one step, and
    ``queued_prompts`` before an arriving one. Where lengths differ, prompts take ``varied_s`` more
    on average than one of mean length. ``wave_prompts`` are computed before a request's own on
    average that came at the same time.
    """

    decode: StepTime
    prefill: StepTime
    chunks: Number
    decoding_sequences: Number
    unloaded_ttft_s: Number
    ttft_s: Number
    tpot_s: Number
    requests_per_s: Number
    ttft_parts_s: Mapping[str, Number]
    mix: Mix | None = None
    busy_ratio: Number = 1.0
    together_prompts: Number = 1.0
    others_ratio: Number = 1.0
    prompts_per_step: Number = 0.0
    fuller_s: Number = 0.0
    queued_prompts: Number = 0.0
    wave_prompts: Number = 0.0
    varied_s: Number = 0.0


def closed_loop(
    replica: Replica,
    running_sequences: Number,
    prefill: StepTime | None = None,
    *,
    alike: SteadyState | None = None,
) -> SteadyState:
    """Latencies and rate of a replica that always has the same number of requests in flight.

    Parameters
    ----------
    replica
        What runs which requests.
    running_sequences
        Requests in flight [-].
    prefill
        Step of a prompt's chunk alone, if it is known already.
    alike
        The state of requests that are alike, where the answers of these differ in length by so many
        steps that no groups last: a prompt adds to steps what it does there.

    Returns
    -------
    SteadyState
        TTFT from arrival at the replica to the first token; TPOT =
        (E2E − TTFT) / (output tokens − 1).

    References
    ----------
    Agrawal et al., Sarathi-Serve, 2024, https://arxiv.org/abs/2403.02310 (chunked prefill);
    Reiser and Lavenberg, Mean-Value Analysis, 1980, https://doi.org/10.1145/322186.322195, with
    Schweitzer's approximation of the arrival theorem.
    """
    if prefill is None:
        prefill = replica.prefill()
    stages, later = replica.parallelism.pipeline, replica.requests.later_tokens
    sequences = running_sequences / stages
    # Fewer sequences than stages do not meet at all.
    meeting = maximum(sequences, 1.0)
    together_prompts, apart = companions(replica, meeting, dissolved=alike is not None)
    # Who comes when other groups run meets a step under way; prompts that are apart begin as soon
    # as a place is free, which is when a step ends.
    busy_ratio = minimum(meeting / together_prompts - 1.0, 1.0) * (1.0 - replica.prompts_apart)
    most_prompts = replica.prompts_by_budget
    known = None if alike is None else alike.mix
    if known is None:
        prompts = minimum(sequences / (replica.held_steps + 0.5 * busy_ratio), most_prompts)
        mix = replica.mix(prompts, sequences, prefill, together_prompts)
    else:
        mix = known
    base_s, taken_s = mix.base_s, mix.taken_s
    own_s = own_prompts_s(replica, mix, prefill, busy_ratio, together_prompts)
    # A request meets the prompts of others, not those that are computed with its own.
    others_ratio = 1.0 - together_prompts / meeting
    others_s = others_ratio * taken_s
    # No more prompts can be computed in a second than steps have time for.
    most = 1.0 / (base_s / most_prompts + taken_s)
    # Those that fit in one step do not wait for each other.
    fitting = maximum(mix.fitting_prompts, 1.0)
    # Who comes alone meets half of the step under way, and those who came before.
    half_busy = 0.5 * busy_ratio
    met_ratio = 0.0 if is_nothing(apart) else apart / fitting
    met_steps = half_busy + later
    others_share = _others_share(
        sequences * others_s,
        own_s,
        met_steps * base_s,
        others_s * most,
        met_ratio,
        0.5 * own_s,
        half_busy * base_s,
    )
    step_s = base_s / (1.0 - others_share)
    under_way_s = half_busy * step_s
    # Of the prompt under way, half is left on average.
    met_share = met_ratio * others_share
    queued_s = met_share * (0.5 * own_s + under_way_s) / (1.0 - met_share)
    rate = minimum(sequences / (own_s + queued_s + met_steps * step_s), most)
    ttft_s = own_s + queued_s + under_way_s
    # Where steps have no time for more, what is left over makes steps full, and then prompts wait.
    backlog_s = maximum(sequences / rate - later * step_s - ttft_s, 0.0)
    fullest_s = base_s + taken_s * most_prompts
    fuller_s = minimum(
        backlog_s / maximum(later, 1.0), maximum(fullest_s - step_s, 0.0) * (later > 0)
    )
    waiting_s = backlog_s - later * fuller_s
    wave_prompts = _wave_prompts(replica, together_prompts, apart, meeting)
    wave_s = wave_prompts * taken_s
    later_s = step_s + fuller_s - wave_s / maximum(later, 1.0)
    ttft_parts_s = {
        "own_prompt": own_s,
        "earlier_prompts": queued_s,
        "step_under_way": under_way_s,
        "backlog": waiting_s,
    }
    if not is_nothing(wave_prompts):
        ttft_parts_s["wave"] = wave_s
    decode, chunks = mix.decode, replica.prefill_chunks
    decoding_sequences = rate * later * (step_s + fuller_s) * stages
    unloaded_ttft_s = replica.unloaded_ttft_s(prefill)
    ttft_s = ttft_s + wave_s + waiting_s
    # A single token has none after it; what one would take is told.
    tpot_s = where(later > 0, later_s, decode.total_s)
    requests_per_s = rate * stages
    # Each step ends as many requests as it takes prompts.
    prompts_per_step = rate * step_s
    queued_prompts = met_ratio * rate * (queued_s + 0.5 * own_s + under_way_s)
    return SteadyState(
        decode,
        prefill,
        chunks,
        decoding_sequences,
        unloaded_ttft_s,
        ttft_s,
        tpot_s,
        requests_per_s,
        ttft_parts_s,
        mix,
        busy_ratio,
        together_prompts,
        others_ratio,
        prompts_per_step,
        fuller_s,
        queued_prompts,
        wave_prompts,
    )


def _others_share(
    offered_s: Number,
    own_s: Number,
    met_s: Number,
    most: Number,
    met_ratio: Number,
    half_own_s: Number,
    half_step_s: Number,
) -> Number:
    """Share of the time of steps that prompts of others take [-].

    With a share ``x`` a step takes ``base_s / (1 - x)``, and what comes before a request's own
    prompt ``q = met_ratio x (half_own_s + half_step_s / (1 - x)) / (1 - met_ratio x)``. By Little's
    law all requests in flight, whose prompts take others ``offered_s``, are as many as come while
    one is there: ``x (own_s + q + met_s / (1 - x)) = offered_s``. The left side is convex and
    grows, so that Newton's method from above comes down to the root; ``q`` left out, the root is
    that of a quadratic equation, and no smaller. No share is beyond ``most``.

    Parameters
    ----------
    offered_s, own_s, met_s
        Time of the prompts of all in flight, of a request's own, and of the steps that it is in,
        were there no prompts in them [s].
    most
        The share where steps have no time for more prompts, below one [-].
    met_ratio
        Share of the prompts in a queue that come before another [-].
    half_own_s, half_step_s
        What is left of the prompt and of the step under way, were there no prompts in it [s].
    """
    whole_s = own_s + met_s + offered_s
    # The root that does not cancel; rounding may leave less than nothing below the root.
    apart_s = sqrt(maximum(whole_s * whole_s - 4.0 * own_s * offered_s, 0.0))
    share = minimum(2.0 * offered_s / (whole_s + apart_s), most)
    if is_nothing(met_ratio):
        return share
    for _ in range(_NEWTON_STEPS):
        steps, met = 1.0 / (1.0 - share), met_ratio * share
        queue, waited_s = met / (1.0 - met), half_own_s + half_step_s * steps
        excess_s = share * (own_s + queue * waited_s + met_s * steps) - offered_s
        slope_s = own_s + met_s * steps * steps
        slope_s = slope_s + queue * ((2.0 + queue) * waited_s + share * half_step_s * steps * steps)
        share = minimum(share - excess_s / slope_s, most)
    return share


def _wave_prompts(replica: Replica, together: Number, apart: Number, sequences: Number) -> Number:
    """Prompts of its wave that are computed before a request's own, on average [-].

    Where no sequence decodes before all prompts are computed, those that are alike end in one step,
    and all that take their places wait for each other's prompts again: half of them each.
    """
    later = replica.requests.later_tokens
    if is_nothing(replica.prompts_apart):
        return 0.0
    # Two whose places in a wave are next to each other both have to be like the others.
    kept = (1.0 - apart) * (1.0 - apart) * replica.prompts_apart * (later > 0)
    return kept * maximum(sequences - together, 0.0) / 2.0


def companions(
    replica: Replica, sequences: Number, *, dissolved: bool = False
) -> tuple[Number, Number]:
    """Prompts that a step of a closed loop takes together, and the share that come apart [-].

    Requests that begin in one step and are alike end in one step, and so do those that take their
    places: groups of as many as a step has room for. Where answers differ in length by many steps,
    groups dissolve, and a step takes the places of those that chance lets end in the one before;
    those of a single token all take one.
    """
    requests = replica.requests
    fitting = replica.encodable(replica.chunk_tokens / requests.new_input_tokens)
    group = maximum(minimum(sequences, fitting), 1.0)
    if dissolved:
        apart: Number = 1.0 * (requests.later_tokens > 0)
        return group - (group - _by_chance(replica, sequences, group)) * apart, apart
    spread_ratio = maximum(requests.output_spread.square_ratio - 1.0, 0.0) ** 0.5
    if is_nothing(spread_ratio):
        return group, 0.0
    spread_steps = spread_ratio * requests.output_tokens
    kept = (1.0 + spread_steps) ** -2.0
    by_chance = _by_chance(replica, sequences, group)
    return by_chance + (group - by_chance) * kept, 1.0 - kept


def _by_chance(replica: Replica, sequences: Number, group: Number) -> Number:
    """Sequences that chance lets end in one step, up to those of a group [-]."""
    return minimum(met_together(sequences / replica.held_steps), group)


def own_prompts_s(
    replica: Replica, mix: Mix, prefill: StepTime, busy: Number, together: Number
) -> Number:
    """Time of the steps of a prompt and those computed with it, and of the server [s].

    A share ``busy`` of them share their steps with decoding sequences.
    """
    alone_s = (
        replica.passes(replica.prefill_chunks) * prefill.total_s + (together - 1.0) * mix.added_s
    )
    shared_s = (
        replica.passes(mix.steps) * mix.base_s
        + replica.passes(mix.chunks) / mix.chunks * together * mix.added_s
    )
    return alone_s * (1.0 - busy) + shared_s * busy + replica.received_s
