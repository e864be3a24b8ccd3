"""A replica under random arrivals: how many are in flight, and what percentiles users see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan

import numpy as np

from service.core.elementwise import Number, Truth, hypot, maximum, minimum, where
from service.core.performance.inference.batching import SteadyState
from service.core.performance.inference.queueing import PromptQueue, poisson_tail_high, prompt_queue

#: Halvings of the search for the number in flight: enough for one part in 60,000.
_HALVINGS = 16
_Z = {"p50": 0.0, "p95": 1.6448536269514722, "p99": 2.3263478740408408}
#: Share of requests below each percentile.
SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Median, 95th and 99th percentile of a latency [s]."""

    p50: Number
    p95: Number
    p99: Number


@dataclass(frozen=True, slots=True)
class ReplicaLoad:
    """What one replica carries, and the time to the first token there.

    ``requests_per_s`` [1/s] and ``waiting_requests`` are those of the replica; it has any requests
    in flight for ``busy_ratio`` of the time. ``ttft_parts_s`` add up to ``mean_ttft_s`` of a single
    configuration.
    """

    state: SteadyState
    running_sequences: Number
    waiting_requests: Number
    busy_ratio: Number
    requests_per_s: Number
    mean_ttft_s: Number
    ttft_parts_s: Mapping[str, Number]


@dataclass(frozen=True, slots=True)
class OpenLoad(ReplicaLoad):
    """One replica under a request rate.

    ``utilisation_ratio`` is the rate over the rate at which the replica saturates. A saturated
    replica has no steady state: its queue grows without end, and it has no percentiles, which are
    None, and NaN in the elements of arrays.
    """

    utilisation_ratio: Number
    saturated: Truth
    ttft_s: Percentiles | None
    tpot_s: Percentiles | None
    e2e_s: Percentiles | None


def open_load(
    state_at: Callable[[Number], SteadyState],
    full: SteadyState,
    requests_per_s: Number,
    slots: Number,
    later_tokens: Number,
) -> OpenLoad:
    """Find the number in flight that a request rate leads to, and the latencies there.

    Parameters
    ----------
    state_at
        Steady state of a replica with a given number in flight.
    full
        Steady state with all slots taken.
    requests_per_s
        Poisson arrivals at this replica [1/s].
    slots
        Most sequences it can run [-].
    later_tokens
        Output tokens after the first [tokens].

    Returns
    -------
    OpenLoad
        Latencies in the steady state; at saturation those with all slots taken.

    References
    ----------
    Little, 1961, https://doi.org/10.1287/opre.9.3.383.
    """
    utilisation = requests_per_s / full.requests_per_s
    saturated = utilisation >= 1.0
    low: Number = 0.0 * slots
    high: Number = slots * 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        enough = state_at(middle).requests_per_s >= requests_per_s
        high = where(enough, middle, high)
        low = where(enough, low, middle)
    running_sequences = where(saturated, slots, high)
    state = state_at(running_sequences)
    prefill_s = state.chunks * state.mixed.total_s
    queue = prompt_queue(requests_per_s, prefill_s)
    base_s = prefill_s + minimum(running_sequences, 1.0) * state.tpot_s / 2.0
    ttft, tpot, e2e, parts = None, None, None, state.ttft_parts_s
    if isinstance(saturated, np.ndarray) or not saturated:
        ttft, tpot, e2e = _percentiles(
            state_at, state, running_sequences, base_s, queue, slots, later_tokens, saturated
        )
        parts = {
            "prompt_steps": prefill_s,
            "running_step": base_s - prefill_s,
            "queue": queue.mean_wait_s,
        }
    return OpenLoad(
        state=state,
        running_sequences=running_sequences,
        waiting_requests=where(saturated, 0.0, requests_per_s * queue.mean_wait_s),
        busy_ratio=minimum(running_sequences, 1.0),
        requests_per_s=minimum(requests_per_s, full.requests_per_s),
        utilisation_ratio=utilisation,
        saturated=saturated,
        mean_ttft_s=where(saturated, state.ttft_s, base_s + queue.mean_wait_s),
        ttft_parts_s=parts,
        ttft_s=ttft,
        tpot_s=tpot,
        e2e_s=e2e,
    )


def _percentiles(
    state_at: Callable[[Number], SteadyState],
    state: SteadyState,
    running_sequences: Number,
    base_s: Number,
    queue: PromptQueue,
    slots: Number,
    later_tokens: Number,
    saturated: Truth,
) -> tuple[Percentiles, Percentiles, Percentiles]:
    """Percentiles of the first token, of later ones and of the whole request.

    NaN where there are none.
    """
    ttft: dict[str, Number] = {}
    tpot: dict[str, Number] = {}
    e2e: dict[str, Number] = {}
    for name, z in _Z.items():
        crowd = minimum(poisson_tail_high(running_sequences, z), slots)
        crowded = state if name == "p50" else state_at(crowd)
        waited_s = queue.wait_percentile_s(SHARES[name])
        # Waiting and crowding are nearly independent: their excesses add in quadrature.
        slower_s = maximum(crowded.tpot_s - state.tpot_s, 0.0) * later_tokens
        ttft[name] = where(saturated, nan, base_s + waited_s)
        tpot[name] = where(saturated, nan, maximum(crowded.tpot_s, state.tpot_s))
        e2e[name] = where(
            saturated, nan, base_s + later_tokens * state.tpot_s + hypot(slower_s, waited_s)
        )
    return Percentiles(**ttft), Percentiles(**tpot), Percentiles(**e2e)
