"""How many replicas carry a rate of requests with something in reserve.

A replica holds the limits up to its goodput, and is given at most a share of that. The same
formulas of a replica under a rate are asked as by a single estimate; where a step takes a known
number of prompts they need no search, so that a grid of loads of many configurations is computed
at once, and replicas are counted from the two loads between which a limit is first missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from service.core.deployment import most_requests
from service.core.elementwise import FloatArray, maximum, minimum
from service.core.estimate.inference import InferenceSetup, fitting_sequences, with_tiers
from service.core.memory.inference.memory import InferenceMemory, inference_memory
from service.core.memory.inference.tiers import inference_tiers
from service.core.performance.inference.goodput import TimeLimit
from service.core.performance.inference.open_load import (
    OpenLoad,
    load_of_steps,
    open_load,
)
from service.core.performance.inference.queueing import NORMAL_QUANTILES
from service.core.performance.inference.replica import FullReplica
from service.core.performance.inference.replicas import replica_of

#: Prompts of a step that are tried, of those of full steps: from almost idle to almost full.
_TRIED = np.array([1e-6, 0.02, 0.06, 0.12, 0.2, 0.3, 0.42, 0.55, 0.7, 0.83, 0.93, 0.98])
#: Loads that are tried between two of these.
_BETWEEN = 7
#: Times that replicas which share the memory of a host are counted anew, being slower each.
_COUNTS = 4


@dataclass(frozen=True, slots=True)
class Sizing:
    """Replicas for a rate, one element a configuration.

    ``saturating`` would end the requests, with the reserve, if nobody had to wait for less than
    their limits; ``holding`` keep the limits, too, and are infinite where even idle ones miss them
    [-]. ``loads_per_s`` and ``running`` are the rates of a replica that were tried, by load, then
    configuration, with the sequences that run there [1/s, -]; ``slots`` are those that may.
    """

    saturating: FloatArray
    holding: FloatArray
    loads_per_s: FloatArray
    running: FloatArray
    slots: FloatArray

    def sequences(self, of: NDArray[np.intp], rate_per_s: FloatArray) -> FloatArray:
        """Sequences that 99 in 100 requests find running at most, as room is made for them [-].

        Parameters
        ----------
        of
            Configurations.
        rate_per_s
            Requests that come to a replica of each [1/s].
        """
        tried = (self.loads_per_s[:, of] < rate_per_s).sum(axis=0)
        full = tried == len(self.running)
        mean = self.running[np.minimum(tried, len(self.running) - 1), of]
        found = np.ceil(mean + NORMAL_QUANTILES["p99"] * np.sqrt(mean))
        slots: FloatArray = np.maximum(np.floor(self.slots[of]), 1.0)
        return np.where(full, slots, np.minimum(found, slots))


def sized(
    setup: InferenceSetup,
    rows: int,
    requests_per_s: float,
    limits: Sequence[TimeLimit],
    reserve_ratio: float,
    most_replicas: int,
) -> Sizing:
    """Count the replicas of so many configurations that carry a rate with a reserve.

    Parameters
    ----------
    setup
        One replica of each, whose figures are arrays of ``rows`` elements or shared.
    rows
        Configurations.
    requests_per_s
        Over all replicas [1/s].
    limits
        Times that must be kept.
    reserve_ratio
        Share of what a replica could carry within the limits that is left free [-].
    most_replicas
        Where more are needed, how many does not matter.
    """
    memory = inference_memory(setup.deployment, setup.workload, setup.serving, setup.runtime)
    found = _sized(setup, memory, rows, requests_per_s, limits, reserve_ratio, most_replicas)
    if setup.tiers is None:
        return found
    # Replicas share the memory of a host: more of them are slower each.
    for _ in range(_COUNTS):
        copies = np.where(np.isfinite(found.holding), found.holding, found.saturating)
        again = replace(setup, copies=np.minimum(copies, most_replicas))
        more = _sized(again, memory, rows, requests_per_s, limits, reserve_ratio, most_replicas)
        settled = not (more.holding > found.holding).any()
        found = replace(
            more,
            saturating=np.maximum(more.saturating, found.saturating),
            holding=np.maximum(more.holding, found.holding),
        )
        if settled:
            break
    return found


def _kept(full: FullReplica, load: OpenLoad, limits: Sequence[TimeLimit]) -> NDArray[np.bool_]:
    """Where a load keeps all limits."""
    kept = np.asarray(load.utilisation_ratio) < 1.0
    for one in limits:
        kept = kept & (one.load_s(load, full.replica.requests.later_tokens) <= one.most_s)
    return kept


def _full(setup: InferenceSetup, memory: InferenceMemory) -> FullReplica:
    """A replica of each configuration with all slots taken."""
    deployment, calibration, tiers = setup.deployment, setup.calibration, None
    if setup.tiers is not None:
        tiers = inference_tiers(memory, setup.tiers, setup.copies)
        deployment, calibration = with_tiers(deployment, calibration, tiers)
    fitting = fitting_sequences(setup.workload, memory, tiers)
    slots = maximum(minimum(fitting, most_requests(setup.serving, setup.workload)), 1.0)
    replica = replica_of(deployment, setup.workload, setup.serving, calibration)
    return FullReplica(replica, slots, replica.prefill())


def _sized(
    setup: InferenceSetup,
    memory: InferenceMemory,
    rows: int,
    requests_per_s: float,
    limits: Sequence[TimeLimit],
    reserve_ratio: float,
    most_replicas: int,
) -> Sizing:
    full = _full(setup, memory)
    asked_per_s = requests_per_s / (1.0 - reserve_ratio)
    saturation_per_s = np.broadcast_to(np.asarray(full.requests_per_s, dtype=float), (rows,))
    prompts = np.broadcast_to(np.asarray(full.mix.prompts, dtype=float), (rows,))
    at = np.arange(rows)
    load = load_of_steps(full, _TRIED[:, np.newaxis] * prompts)
    loads_per_s = np.asarray(load.requests_per_s)
    saturating = np.ceil(asked_per_s / saturation_per_s)
    holding = saturating
    if limits:
        tried = np.logical_and.accumulate(_kept(full, load, limits)).sum(axis=0)
        rates = np.concatenate([np.zeros((1, rows)), loads_per_s, saturation_per_s[np.newaxis]])
        shares = np.concatenate([[0.0], _TRIED, [1.0]])
        low, high = rates[tried, at], rates[tried + 1, at]
        steps = np.arange(1, _BETWEEN + 1)[:, np.newaxis] / (_BETWEEN + 1.0)
        start = shares[tried]
        between = load_of_steps(full, (start + (shares[tried + 1] - start) * steps) * prompts)
        rates = np.concatenate(
            [low[np.newaxis], np.asarray(between.requests_per_s), high[np.newaxis]]
        )
        kept = np.logical_and.accumulate(_kept(full, between, limits)).sum(axis=0)
        low, high = rates[kept, at], rates[kept + 1, at]
        least = np.ceil(asked_per_s / high)
        enough = np.ceil(asked_per_s / np.maximum(low, asked_per_s / (most_replicas + 1.0)))
        enough = np.maximum(enough, least)
        while (least < enough).any():
            middle = np.floor((least + enough) / 2.0)
            keep = _kept(full, open_load(full, asked_per_s / middle), limits)
            least, enough = (
                np.where(keep, least, np.minimum(middle + 1.0, enough)),
                np.where(keep, middle, enough),
            )
        holding = np.where(tried > 0, enough, np.inf)
    return Sizing(
        saturating=saturating,
        holding=holding,
        loads_per_s=loads_per_s,
        running=np.broadcast_to(load.running_sequences, loads_per_s.shape),
        slots=np.broadcast_to(np.asarray(full.slots, dtype=float), (rows,)),
    )
