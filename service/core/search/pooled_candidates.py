"""Deployments whose replicas are divided into pools for prompts and for decoding.

How many replicas a pool has decides what the other can do, so that such deployments are estimated
one by one: those that the search of undivided replicas finds best on each accelerator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf, isfinite

import numpy as np
from numpy.typing import NDArray

from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Disaggregation
from service.core.estimate.inference import InferenceEstimate, estimate_inference, inference_energy
from service.core.performance.collectives import scale_out
from service.core.search.batch_evaluation import (
    Demand,
    Environment,
    EvaluatedBatch,
    SearchSpace,
    replica_setup,
)
from service.core.search.inference_candidates import InferenceCandidates, candidate_rows
from service.core.search.rows import joined

#: Replicas over the fewest that carry a rate, else over those of the undivided deployment.
_REPLICAS_TRIED = (1, 2)
#: Replicas that two pools have at least [-].
_FEWEST = 2
#: Undivided deployments of an accelerator that are divided.
_DIVIDED = 4


def pooled_candidates(
    architecture: ModelArchitecture,
    space: SearchSpace,
    demand: Demand,
    environment: Environment,
    undivided: InferenceCandidates,
) -> InferenceCandidates:
    """Candidates with pools, beside those without.

    Parameters
    ----------
    architecture, space, demand, environment
        What was searched.
    undivided
        What was found, as :func:`inference_candidates` gives it.
    """
    found: list[InferenceCandidates] = []
    for row in _best(undivided, demand):
        layout = space.layouts[int(undivided.layout[row])]
        if layout.joined_copies > 1:
            continue
        most = int(space.most_accelerators // layout.replica_accelerators)
        if most < _FEWEST:
            continue

        def divided(replicas: int, row: int = int(row)) -> InferenceCandidates | None:
            return _divided(architecture, space, demand, environment, undivided, row, replicas)

        least = min(max(int(undivided.replicas[row]), _FEWEST), most)
        if demand.sized_by_rate:
            least = _fewest(divided, least, most)
        counts = [least * times for times in _REPLICAS_TRIED]
        found += [one for count in counts if count <= most and (one := divided(count)) is not None]
    return joined(InferenceCandidates, found) if found else undivided.chosen(np.empty(0, np.intp))


def _fewest(divided: Callable[[int], InferenceCandidates | None], first: int, most: int) -> int:
    """The fewest replicas in pools that carry the rate within the limits; ``most`` if none do.

    From the first guess up until as many do, then between what does and what does not.
    """

    def carry(replicas: int) -> bool:
        one = divided(replicas)
        return one is not None and bool(one.missing_replicas[0] <= 0.0)

    too_few, enough = _FEWEST - 1, first
    while not carry(enough):
        if enough == most:
            return most
        too_few, enough = enough, min(2 * enough, most)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if carry(middle) else (middle, enough)
    return enough


def _best(rows: InferenceCandidates, demand: Demand) -> Iterator[np.intp]:
    """Of each accelerator, layouts that take least of its time, those that fit undivided first.

    Some that decode fast enough undivided, and some that do not: pools decode without prompts
    between, and hold fewer sequences at once for it.
    """
    most_s = next((one.most_s for one in demand.limits if one.figure == "tpot_s"), inf)
    lacks_room: NDArray[np.bool_] = rows.headroom_ratio < 0.0
    for offer in np.unique(rows.offer):
        mine = np.flatnonzero(rows.offer == offer)
        fast = rows.tpot_s[mine] <= most_s
        for some in (mine[fast], mine[~fast]):
            layouts: dict[int, np.intp] = {}
            for row in some[np.lexsort((rows.accelerator_hours[some], lacks_room[some]))]:
                layouts.setdefault(int(rows.layout[row]), row)
            yield from list(layouts.values())[:_DIVIDED]


def _divided(
    architecture: ModelArchitecture,
    space: SearchSpace,
    demand: Demand,
    environment: Environment,
    undivided: InferenceCandidates,
    row: int,
    replicas: int,
) -> InferenceCandidates | None:
    """A deployment with so many replicas in two pools; None where its load never ends."""
    structure = (
        int(undivided.layout[row]),
        int(undivided.precision[row]),
        int(undivided.draft[row]),
    )
    offer = int(undivided.offer[row])
    option = space.accelerators[offer]
    each = demand.concurrency or float(undivided.concurrency_per_replica[row]) * replicas
    setup = replica_setup(architecture, space, structure, option, demand, environment, each)
    deployment = setup.deployment
    setup = replace(
        setup,
        deployment=replace(deployment, parallelism=replace(deployment.parallelism, data=replicas)),
        serving=replace(
            setup.serving, disaggregation=Disaggregation(None, scale_out(option.accelerator))
        ),
        workload=replace(setup.workload, requests_per_s=demand.requests_per_s),
    )
    estimate = estimate_inference(setup)
    if not isfinite(float(estimate.latency.e2e_s.value)):
        return None
    batch = EvaluatedBatch(
        layout=structure[0],
        precision=structure[1],
        speculation=structure[2],
        accelerator=np.array([offer]),
        concurrency_per_replica=np.array([float(each)]),
        replicas=np.array([1.0]),
        needed_replicas=np.array([1.0 if _keeps_reserve(estimate, demand) else 2.0]),
        estimate=estimate,
        energy=inference_energy(estimate, environment.infrastructure),
    )
    return replace(
        candidate_rows(batch, {one.figure: one.share for one in demand.limits}),
        replicas=np.array([float(replicas)]),
        concurrency_per_replica=np.array([float(each) / replicas]),
        pooled=np.array([True]),
    )


def _keeps_reserve(estimate: InferenceEstimate, demand: Demand) -> bool:
    """Whether the limits of time are kept at the rate with the reserve, too."""
    if demand.requests_per_s is None or demand.reserve_ratio is None:
        return True
    rate = demand.requests_per_s / (1.0 - demand.reserve_ratio)
    workload = replace(estimate.setup.workload, requests_per_s=rate)
    loaded = estimate_inference(replace(estimate.setup, workload=workload), estimate.memory).latency
    if not isfinite(float(loaded.e2e_s.value)):
        return False
    return all(float(one.figure_s(loaded)) <= one.most_s for one in demand.limits)
