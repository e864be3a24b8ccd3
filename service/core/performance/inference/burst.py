"""Prompts that come all at once to idle replicas, with none after them: a static batch.

Prompts are computed in the order in which they came, in groups of as many as a step has room for;
sequences whose prompts are done decode beside the others. Where there are more requests than slots,
each that ends leaves its slot to the next, so that waves of as many as there are slots follow each
other.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.core.elementwise import Number, ceil, floor, maximum, minimum, where
from service.core.lightweight import lightweight
from service.core.performance.inference.batching import SteadyState
from service.core.performance.inference.open_load import ReplicaLoad
from service.core.performance.inference.percentiles import Percentiles
from service.core.performance.inference.queueing import SHARES
from service.core.performance.inference.replica import Replica
from service.core.performance.steps import StepLoad, StepTime

#: Points at which means over the groups of a wave are taken.
_POINTS = 8
#: A share of a request that rounding may leave.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Wave:
    """Requests of a replica that begin together.

    ``groups`` of ``together_prompts`` [-] are computed one after the other, each in ``chunks``
    steps [-] of ``prompt_step_s``; ``stages`` of a pipeline work on them at the same time, where
    the host lets ``overlapping_stages`` do so [-]. A sequence that decodes makes a step
    ``beside_s`` longer; without prompts a step takes ``decode_s`` [s]. ``later_tokens`` follow the
    first of each answer [token].
    """

    sequences: Number
    groups: Number
    together_prompts: Number
    chunks: Number
    stages: Number
    overlapping_stages: float
    prompt_step_s: Number
    beside_s: Number
    decode_s: Number
    later_tokens: Number
    decode: StepTime

    def decoding_groups(self, before: Number) -> Number:
        """Groups that decode beside prompts, summed over so many groups computed before [-]."""
        lasting = minimum(before, self.later_tokens / self.chunks)
        return lasting * (lasting + 1.0) / 2.0 + (before - lasting) * lasting

    def ttft_s(self, group: Number) -> Number:
        """Time from the wave's begin to the first token of a group, the first being 1 [s]."""
        alone_s = (1.0 + (group * self.chunks - 1.0) / self.stages) * self.prompt_step_s
        beside = self.chunks * self.together_prompts * self.decoding_groups(group - 1.0)
        return alone_s + beside * self.beside_s / self.stages

    def tpot_s(self, group: Number) -> Number:
        """Time per later token of a group: beside prompts of later groups, then without [s]."""
        later = maximum(self.later_tokens, 1.0)
        shared = minimum((self.groups - group) * self.chunks, later)
        decoding = self.together_prompts * minimum(self.groups / 2.0, later / self.chunks)
        shared_s = (self.prompt_step_s + decoding * self.beside_s) / self.stages
        return (
            shared * maximum(shared_s, self.decode_s) + (later - shared) * self.decode_s
        ) / later

    def e2e_s(self, group: Number) -> Number:
        """Time from the wave's begin to the last token of a group [s]."""
        return self.ttft_s(group) + self.later_tokens * self.tpot_s(group)

    def group_at(self, share: Number) -> Number:
        """The group of the request that so large a share of the wave precedes [-]."""
        return minimum(maximum(share * self.groups + 0.5, 1.0), self.groups)

    def _points(self) -> list[Number]:
        return [1.0 + (self.groups - 1.0) * (at + 0.5) / _POINTS for at in range(_POINTS)]

    @property
    def mean_decoding_groups(self) -> Number:
        """As `decoding_groups`, on average over the wave's prompts [-]."""
        return sum(self.decoding_groups(group - 1.0) for group in self._points()) / _POINTS

    @property
    def earlier_prompts_s(self) -> Number:
        """Mean time in which the prompts of earlier groups are computed [s]."""
        return (self.groups - 1.0) / 2.0 * self.chunks / self.stages * self.prompt_step_s

    @property
    def decoding_beside_s(self) -> Number:
        """By how much sequences that decode delay first tokens on average [s]."""
        beside = self.chunks * self.together_prompts * self.mean_decoding_groups
        return beside * self.beside_s / self.stages

    @property
    def own_prompt_s(self) -> Number:
        """Time of the steps of a group's prompts alone [s]."""
        return (1.0 + (self.chunks - 1.0) / self.stages) * self.prompt_step_s

    @property
    def mean_ttft_s(self) -> Number:
        """Mean time to the first token [s]."""
        return self.own_prompt_s + self.earlier_prompts_s + self.decoding_beside_s

    @property
    def mean_tpot_s(self) -> Number:
        """Mean time per later token [s]."""
        return sum(self.tpot_s(group) for group in self._points()) / _POINTS

    @property
    def mean_e2e_s(self) -> Number:
        """Mean time to the last token [s]."""
        return self.mean_ttft_s + self.later_tokens * self.mean_tpot_s

    @property
    def prompts_s(self) -> Number:
        """Time in which all prompts are computed where others come before and after them [s]."""
        beside = self.together_prompts * self.decoding_groups(self.groups) * self.beside_s
        return self.chunks * (self.groups * self.prompt_step_s + beside) / self.stages

    @property
    def slot_s(self) -> Number:
        """Time after which a slot goes to the next wave: its answer's, or that of prompts [s]."""
        return maximum(self.mean_e2e_s, self.prompts_s)

    @property
    def makespan_s(self) -> Number:
        """Time until all are answered [s]."""
        return maximum(self.e2e_s(self.groups), self.mean_e2e_s)


@lightweight
class Burst(ReplicaLoad):
    """One replica to which requests come all at once.

    ``waves_before`` of the last are ``full`` [-]; all requests are answered after ``makespan_s``.
    """

    waves_before: Number
    full: Wave
    last: Wave
    makespan_s: Number
    ttft_s: Percentiles
    tpot_s: Percentiles
    e2e_s: Percentiles


def burst_load(replica: Replica, slots: Number, requests: Number, prefill: StepTime) -> Burst:
    """What requests see that come to an idle replica all at once.

    Parameters
    ----------
    replica
        What runs which requests.
    slots
        Most sequences it can run [-].
    requests
        Requests that come to it; below one, some replicas get none [-].
    prefill
        A step of a prompt's chunk alone.

    References
    ----------
    Agrawal et al., Sarathi-Serve, 2024, https://arxiv.org/abs/2403.02310 (prompts in chunks beside
    sequences that decode).
    """
    count, later = maximum(requests, 1.0), replica.requests.later_tokens
    before = maximum(ceil(count / slots - _ROUNDING) - 1.0, 0.0)
    full = _wave(replica, minimum(count, slots), prefill)
    left = maximum(count - before * slots, 1.0)
    last = _wave(replica, left, prefill)
    started = before * slots
    makespan_s = before * full.slot_s + last.makespan_s
    waited_s = (started * (before - 1.0) / 2.0 + left * before) * full.slot_s / count
    running_s = (started * full.mean_ttft_s + left * last.mean_ttft_s) / count
    tpot_s = (started * full.mean_tpot_s + left * last.mean_tpot_s) / count
    rate = minimum(requests, 1.0) * count / makespan_s
    parts = {
        name: (started * getattr(full, name) + left * getattr(last, name)) / count
        for name in ("own_prompt_s", "earlier_prompts_s", "decoding_beside_s")
    }
    ttft_parts_s = {name.removesuffix("_s"): value for name, value in parts.items()}
    ttft_parts_s["earlier_waves"] = waited_s

    def percentiles(figure: str, *, falling: bool = False, waits: bool = True) -> Percentiles:
        """Percentiles of a figure of waves, which rises or falls with a request's place."""
        found = {}
        for name, share in SHARES.items():
            place = (1.0 - share if falling else share) * count
            wave = minimum(floor(place / slots), before)
            inside = place - wave * slots
            early: Number = getattr(full, figure)(full.group_at(inside / slots))
            late: Number = getattr(last, figure)(last.group_at(inside / left))
            found[name] = where(wave < before, early, late)
            if waits:
                found[name] = found[name] + wave * full.slot_s
        return Percentiles(**found)

    state = SteadyState(
        decode=full.decode,
        prefill=prefill,
        chunks=replica.prefill_chunks,
        decoding_sequences=rate * later * tpot_s,
        unloaded_ttft_s=full.own_prompt_s,
        ttft_s=running_s,
        tpot_s=where(later > 0, tpot_s, full.decode_s),
        requests_per_s=rate,
        ttft_parts_s=ttft_parts_s,
    )
    return Burst(
        state=state,
        running_sequences=rate * (running_s + later * tpot_s),
        waiting_requests=rate * waited_s,
        busy_ratio=minimum(requests, 1.0),
        requests_per_s=rate,
        mean_ttft_s=running_s + waited_s,
        ttft_parts_s=ttft_parts_s,
        waves_before=before,
        full=full,
        last=last,
        makespan_s=makespan_s,
        ttft_s=percentiles("ttft_s"),
        tpot_s=percentiles("tpot_s", falling=True, waits=False),
        e2e_s=percentiles("e2e_s"),
    )


def _wave(replica: Replica, sequences: Number, prefill: StepTime) -> Wave:
    """So many requests that begin together."""
    requests, stages = replica.requests, replica.parallelism.pipeline
    later, chunks = requests.later_tokens, replica.prefill_chunks
    fitting = replica.encodable(replica.chunk_tokens / requests.new_input_tokens)
    together = maximum(minimum(sequences, fitting), 1.0)
    each = maximum(sequences / stages, 1.0)
    mix = replica.mix(each / maximum(later, 1.0), each, prefill, together)
    tokens = minimum(together * requests.new_input_tokens, replica.chunk_tokens)
    alone = StepLoad(
        tokens,
        requests.prompts(tokens),
        requests.prefill_context_tokens,
        0.0,
        0.0,
    )
    prompt_step_s = replica.step(alone).total_s * replica.calibration.corrections.prefill.ratio
    # Sequences that decode take room from prompts, which then need more steps.
    steps = tokens / mix.mixed_tokens
    beside_s = maximum(mix.mixed.total_s * steps - prompt_step_s, 0.0)
    return Wave(
        sequences=sequences,
        groups=maximum(sequences / together, 1.0),
        together_prompts=together,
        chunks=chunks,
        stages=replica.stages_at_work,
        overlapping_stages=replica.overlapping_stages,
        prompt_step_s=prompt_step_s,
        beside_s=where(later > 0, beside_s / each, 0.0),
        decode_s=mix.decode.total_s,
        later_tokens=later,
        decode=mix.decode,
    )
