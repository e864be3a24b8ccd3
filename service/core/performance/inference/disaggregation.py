"""Prompts on some replicas, decoding on others: two pools joined by the transfer of caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, hypot, inf

from service.core.performance.inference.batching import SteadyState
from service.core.performance.inference.open_load import OpenLoad, TimedLoad
from service.core.performance.inference.percentiles import Percentiles, TimesOfUsers
from service.core.performance.inference.queueing import SHARES, Queue, prompt_queue, slot_queue
from service.core.performance.steps import StepTime

#: Halvings of searches for a rate or a batch: one part in a million.
_HALVINGS = 40
#: Nobody waits.
_NO_QUEUE = Queue(0.0, 0.0)
#: By how much a batch is varied to find how its step grows.
_VARIED_RATIO = 0.05
#: Steps grow by less than the batch does.
_MOST_LENGTHENING = 0.999
#: Closed loops keep their pools below this share of saturation, where waiting has no bound.
_MOST_BUSY = 0.9999


@dataclass(frozen=True, slots=True)
class Pools:
    """Two pools of replicas and what a request takes in each.

    ``prompt_s`` is the time of a whole prompt on a prefill replica, ``transfer_s`` that of its
    cache to a decode replica [s]; ``decode`` gives the decode step at a batch, of ``slots`` [-] at
    most.
    """

    prefill_replicas: int
    decode_replicas: int
    slots: float
    later_tokens: float
    prompt_s: float
    transfer_s: float
    prefill: StepTime
    chunks: float
    decode: Callable[[float], StepTime]
    input_square_ratio: float = 1.0
    output_square_ratio: float = 1.0

    @property
    def replicas(self) -> int:
        """Replicas of both pools."""
        return self.prefill_replicas + self.decode_replicas

    @property
    def prefill_limit_per_s(self) -> float:
        """Prompts that the prefill pool can compute in a second [1/s]."""
        return self.prefill_replicas / self.prompt_s

    @property
    def decode_limit_per_s(self) -> float:
        """Requests that the decode pool can end in a second with all slots taken [1/s]."""
        if self.later_tokens <= 0.0:
            return float("inf")
        step_s = float(self.decode(self.slots).total_s)
        return self.decode_replicas * self.slots / (self.later_tokens * step_s)

    @property
    def saturation_per_s(self) -> float:
        """The lower of the two limits [1/s]."""
        return min(self.prefill_limit_per_s, self.decode_limit_per_s)

    @property
    def closed_limit_per_s(self) -> float:
        """Rate that a fixed number of requests in flight reaches at most [1/s]."""
        return self.saturation_per_s * _MOST_BUSY

    def queue(self, rate_per_s: float) -> Queue:
        """Prompts that wait at a prefill replica."""
        each_per_s = rate_per_s / self.prefill_replicas
        return prompt_queue(each_per_s, self.prompt_s, 1.0, self.input_square_ratio)

    def slot_queue(self, rate_per_s: float, batch: float) -> Queue:
        """Requests whose prompts are done and that wait for a slot of a decode replica.

        Parameters
        ----------
        rate_per_s
            Rate of all replicas, below saturation [1/s].
        batch
            Sequences on each decode replica at that rate, as of `batch` [-].
        """
        if self.later_tokens <= 0.0:
            return _NO_QUEUE
        saturation_per_s = self.decode_limit_per_s / self.decode_replicas
        utilisation = rate_per_s / self.decode_limit_per_s
        # Where steps grow with the batch, it varies more than a Poisson count.
        few = max(batch, 1.0)
        more = few * (1.0 + _VARIED_RATIO)
        step_s, longer_s = float(self.decode(few).total_s), float(self.decode(more).total_s)
        longer = min(max((longer_s / step_s - 1.0) / _VARIED_RATIO, 0.0), _MOST_LENGTHENING)
        variance = batch / (1.0 - longer)
        squares = self.output_square_ratio
        return slot_queue(batch, variance, self.slots, saturation_per_s, utilisation, squares)

    def ttft_parts(self, rate_per_s: float, batch: float) -> dict[str, float]:
        """Mean waits, prompt and transfer at a rate below saturation and its batch [s]."""
        return {
            "prompt_queue": float(self.queue(rate_per_s).mean_wait_s),
            "prompt": self.prompt_s,
            "slot_queue": float(self.slot_queue(rate_per_s, batch).mean_wait_s),
            "transfer": self.transfer_s,
        }

    def batch(self, rate_per_s: float) -> float:
        """Sequences on each decode replica: Little's law over its own step time [-]."""
        each = rate_per_s / self.decode_replicas
        low, high = 0.0, self.slots
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            held_s = self.later_tokens * float(self.decode(max(middle, 1.0)).total_s)
            low, high = (low, middle) if middle >= each * held_s else (middle, high)
        return high

    def state(self, rate_per_s: float) -> SteadyState:
        """The average replica at a rate."""
        running_sequences = self.batch(rate_per_s)
        decode = self.decode(max(running_sequences, 1.0))
        parts = self.ttft_parts(rate_per_s, running_sequences)
        return SteadyState(
            decode=decode,
            prefill=self.prefill,
            chunks=self.chunks,
            decoding_sequences=running_sequences,
            unloaded_ttft_s=self.prompt_s + self.transfer_s,
            ttft_s=sum(parts.values()),
            tpot_s=decode.total_s,
            requests_per_s=rate_per_s / self.replicas,
            ttft_parts_s=parts,
        )


def pooled_closed_load(pools: Pools, concurrency: float) -> TimedLoad:
    """Both pools with so many requests always in flight: what the average replica carries."""
    low, high = 0.0, pools.closed_limit_per_s
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        state = pools.state(middle)
        held = middle * float(state.ttft_s + pools.later_tokens * state.tpot_s)
        low, high = (middle, high) if held < concurrency else (low, middle)
    state = pools.state(low)
    queues = pools.queue(low), pools.slot_queue(low, float(state.decoding_sequences))
    times = _times(pools, state, queues)
    return TimedLoad(
        state=state,
        running_sequences=state.decoding_sequences,
        waiting_requests=0.0,
        busy_ratio=1.0,
        requests_per_s=low / pools.replicas,
        mean_ttft_s=state.ttft_s,
        ttft_parts_s=state.ttft_parts_s,
        times=lambda: times,
    )


def pooled_open_load(pools: Pools, requests_per_s: float) -> OpenLoad:
    """Both pools under random arrivals.

    Prompts wait as in an M/D/1 queue at each prefill replica; decode replicas hold what Little's
    law gives, and requests wait for one of their slots.

    References
    ----------
    Zhong et al., DistServe, 2024, https://arxiv.org/abs/2401.09670 (queueing of disaggregated
    pools); Kleinrock, Queueing Systems I, 1975, section 5.6.
    """
    limit = pools.saturation_per_s
    utilisation = requests_per_s / limit
    saturated = utilisation >= 1.0
    rate = min(requests_per_s, pools.closed_limit_per_s)
    state, queue = pools.state(rate), pools.queue(rate)
    slots = pools.slot_queue(rate, float(state.decoding_sequences))
    waits_s = float(queue.mean_wait_s), float(slots.mean_wait_s)
    found = _times(pools, state, (queue, slots))
    times = TimesOfUsers(
        found.ttft_s.without_end(saturated), found.tpot_s, found.e2e_s.without_end(saturated)
    )
    waiting = rate * sum(waits_s) / pools.replicas
    return OpenLoad(
        state=state,
        running_sequences=state.decoding_sequences,
        waiting_requests=inf if saturated else waiting,
        busy_ratio=min(utilisation, 1.0),
        requests_per_s=(limit if saturated else requests_per_s) / pools.replicas,
        utilisation_ratio=utilisation,
        saturated=saturated,
        mean_ttft_s=state.ttft_s,
        ttft_parts_s=state.ttft_parts_s,
        times=lambda: times,
        at_utilisation=lambda ratio: pooled_open_load(pools, float(ratio) * limit),
        prompt_queue=queue,
        slot_queue=Queue(slots.waiting_ratio, inf if saturated else slots.tail_s),
    )


def _times(pools: Pools, state: SteadyState, queues: tuple[Queue, Queue]) -> TimesOfUsers:
    """Percentiles over requests that wait for a prefill replica, and then for a slot."""
    decode_s = pools.later_tokens * float(state.tpot_s)
    ttft = {
        name: float(state.unloaded_ttft_s) + _both_s(queues, share)
        for name, share in SHARES.items()
    }
    return TimesOfUsers(
        ttft_s=Percentiles(**ttft),
        # Decode replicas hold what Little's law gives, all the time.
        tpot_s=Percentiles(*(state.tpot_s,) * 3),
        e2e_s=Percentiles(**{name: value + decode_s for name, value in ttft.items()}),
    )


def _both_s(queues: tuple[Queue, Queue], share: float) -> float:
    """Percentile of two waits one after the other, which do not depend on each other [s]."""
    means = [float(one.mean_wait_s) for one in queues]
    found = [float(one.wait_percentile_s(share)) for one in queues]
    beyond = [max(each - mean, 0.0) for each, mean in zip(found, means, strict=True)]
    return max(*found, sum(means) + hypot(*beyond) if any(beyond) else 0.0)


def balanced_prefill_replicas(replicas: int, prompt_s: float, decode_share_s: float) -> int:
    """Prefill replicas out of all that let both pools saturate together.

    Parameters
    ----------
    replicas
        Replicas of both pools, at least 2.
    prompt_s
        Time of a prompt on one replica [s].
    decode_share_s
        Time that a request takes from a decode replica: its tokens' steps over the batch [s].
    """
    share = prompt_s / (prompt_s + decode_share_s)
    return min(max(ceil(replicas * share - 0.5), 1), replicas - 1)
