"""Inference deployments by the hundred thousand: one array for each figure, one row a candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.core.architecture.model import ModelArchitecture
from service.core.elementwise import FloatArray
from service.core.interval import exact
from service.core.memory.inference.tier_costs import tiers_price_usd
from service.core.performance.inference.goodput import FIGURES, TimeLimit
from service.core.performance.inference.tasks import task_s
from service.core.search.batch_evaluation import (
    Demand,
    Environment,
    EvaluatedBatch,
    SearchSpace,
    evaluate_batches,
)
from service.core.search.progress import Told, nobody
from service.core.search.rows import LeftOut, TooSmall, joined, taken

#: Share of the sequences that fit which a replica is planned to run: room for bursts.
MOST_FILLED_RATIO = 0.9

#: Below zero by as little as this means that memory outside the accelerator has no room.
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class InferenceCandidates:
    """One row a candidate.

    ``precision``, ``layout``, ``draft``, ``offer`` are positions in the lists that were searched.
    ``concurrency_per_replica`` is what one replica runs at once, ``accelerators`` count all
    replicas. ``headroom_ratio`` is free memory over capacity, negative where it does not fit and 0
    where tiers outside take what has no room, as ``spilled`` says [-]. ``pooled`` ones have
    replicas for prompts and others for decoding. Times [s] are means, those
    ``held_*`` what limits are held against; ``missing_replicas`` would have to be added to carry
    the load with the reserve [-];
    ``requests_per_s`` is what all replicas can carry at these latencies [1/s]. Energy of IT
    equipment and accelerator time are those of one request [Wh, h], with ``*_spread`` the ratio of
    the upper end of an interval to its value [-]. Memory beside an accelerator's machine costs and
    takes ``beside_usd`` and ``beside_kgco2e`` to buy and to make [USD, kgCO2e].
    """

    precision: NDArray[np.intp]
    layout: NDArray[np.intp]
    draft: NDArray[np.intp]
    offer: NDArray[np.intp]
    concurrency_per_replica: FloatArray
    replicas: FloatArray
    accelerators: FloatArray
    headroom_ratio: FloatArray
    memory_spread_ratio: FloatArray
    spilled: NDArray[np.bool_]
    pooled: NDArray[np.bool_]
    ttft_s: FloatArray
    tpot_s: FloatArray
    e2e_s: FloatArray
    task_s: FloatArray
    held_ttft_s: FloatArray
    held_tpot_s: FloatArray
    held_e2e_s: FloatArray
    missing_replicas: FloatArray
    latency_spread_ratio: FloatArray
    requests_per_s: FloatArray
    it_wh: FloatArray
    it_wh_spread_ratio: FloatArray
    accelerator_hours: FloatArray
    accelerator_hours_spread_ratio: FloatArray
    power_w: FloatArray
    beside_usd: FloatArray
    beside_kgco2e: FloatArray

    def __len__(self) -> int:
        return len(self.offer)

    def chosen(self, rows: NDArray[Any]) -> InferenceCandidates:
        """The given rows only."""
        return taken(self, rows)


def inference_candidates(
    architecture: ModelArchitecture,
    space: SearchSpace,
    demand: Demand,
    environment: Environment,
    told: Told = nobody,
) -> tuple[InferenceCandidates, LeftOut]:
    """Every combination that the most accelerators allow, fitting or not.

    Under a rate, what would need more of them in any number is there, too, for what it lacks.
    ``told`` is told how far this is.

    Returns
    -------
    InferenceCandidates, LeftOut
        Rows in the order of layouts and formats; and combinations that hold not even the
        weights, reach beyond fast links, or cannot run, which have no rows.
    """
    parts: list[InferenceCandidates] = []
    small: list[TooSmall] = []
    beyond = unable = roomy = 0
    shares = {one.figure: one.share for one in demand.limits}
    most = len(space.layouts) * len(space.precisions) * len(space.speculations)
    evaluations = evaluate_batches(architecture, space, demand, environment)
    for number, evaluation in enumerate(evaluations):
        told(number / most)
        small += evaluation.too_small
        beyond += evaluation.beyond_domain
        unable += evaluation.unable
        roomy += evaluation.roomy
        for batch in evaluation.batches:
            part = candidate_rows(batch, shares)
            few = part.accelerators <= space.most_accelerators
            parts.append(part if demand.sized_by_rate else part.chosen(few))
    return joined(InferenceCandidates, parts), LeftOut(tuple(small), beyond, unable, roomy=roomy)


def candidate_rows(batch: EvaluatedBatch, shares: Mapping[str, str]) -> InferenceCandidates:
    """The rows of a batch; ``shares`` are what of limited times is held against limits."""
    estimate, energy = batch.estimate, batch.energy
    memory, latency = estimate.memory, estimate.latency
    tiers, made = estimate.tiers, energy.tiers_kgco2e
    fitting, spilled = memory.sequences_that_fit, estimate.spilled
    room = batch.concurrency_per_replica <= np.maximum(fitting * MOST_FILLED_RATIO, 1.0)
    fits = (room & np.asarray(memory.fits) & np.asarray(estimate.fits)) | np.asarray(spilled)
    headroom = estimate.room.headroom_bytes.value / memory.capacity_bytes
    # Where all that is lacking is room for bursts, it lacks as much as that takes.
    lacking = batch.concurrency_per_replica - fitting * MOST_FILLED_RATIO
    lacking = np.maximum(lacking * memory.request_bytes / memory.capacity_bytes, _NOTHING)
    rows, it_wh = np.ones(len(batch)), energy.request.it_wh
    e2e_s = rows * latency.mean_e2e_s
    call = latency if latency.average is None else latency.average
    # Requests pile up where so many sequences at once do not carry them.
    carried = np.isfinite(e2e_s)
    missing = np.maximum(batch.needed_replicas - batch.replicas, np.where(carried, 0.0, 1.0))
    return InferenceCandidates(
        precision=np.full(len(batch), batch.precision),
        layout=np.full(len(batch), batch.layout),
        draft=np.full(len(batch), batch.speculation),
        offer=batch.accelerator,
        concurrency_per_replica=batch.concurrency_per_replica,
        replicas=batch.replicas,
        accelerators=batch.accelerators,
        headroom_ratio=np.where(fits, headroom, np.minimum(headroom, -lacking)),
        memory_spread_ratio=rows * (memory.total_bytes.high / memory.total_bytes.value),
        spilled=np.broadcast_to(spilled, len(batch)),
        pooled=np.zeros(len(batch), dtype=bool),
        ttft_s=rows * latency.mean_s("ttft_s"),
        tpot_s=rows * latency.state.tpot_s,
        e2e_s=e2e_s,
        task_s=rows * task_s(exact(call.mean_e2e_s), latency.workload).value,
        latency_spread_ratio=np.where(carried, latency.e2e_spread_ratio, inf),
        **{
            f"held_{figure}": rows
            * TimeLimit(figure, shares.get(figure, "mean"), inf).figure_s(latency)
            for figure in FIGURES
        },
        missing_replicas=missing,
        requests_per_s=latency.requests_per_s.value * batch.replicas,
        it_wh=rows * it_wh.value,
        it_wh_spread_ratio=rows * (it_wh.high / it_wh.value),
        accelerator_hours=rows * energy.request_hours.value,
        accelerator_hours_spread_ratio=rows
        * (energy.requests_per_s.value / energy.requests_per_s.low),
        power_w=energy.power.it_power_w.value * batch.replicas,
        # What stays empty is not bought.
        beside_usd=np.where(
            spilled, rows * (0.0 if tiers is None else tiers_price_usd(tiers).value), 0.0
        ),
        beside_kgco2e=np.where(spilled, rows * (0.0 if made is None else made.value), 0.0),
    )
