"""Inference deployments by the hundred thousand: one array for each figure, one row a candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.core.architecture.model import ModelArchitecture
from service.core.elementwise import FloatArray
from service.core.search.batch_evaluation import Around, Demand, Pass, Space, evaluated
from service.core.search.rows import LeftOut, TooSmall, joined, taken

#: Share of the sequences that fit which a replica is planned to run: room for bursts.
MOST_FILLED_RATIO = 0.9

#: Below zero by as little as this means that too many sequences were asked for.
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class Candidates:
    """One row a candidate.

    ``precision``, ``layout``, ``draft``, ``offer`` are positions in the lists that were searched.
    ``concurrency`` is what one replica runs at once, ``accelerators`` count all replicas.
    ``headroom_ratio`` is free memory over capacity, negative where it does not fit and 0 where
    tiers outside take what has no room, as ``spilled`` says [-].
    Times [s]; ``requests_per_s`` is what all replicas can carry at these latencies [1/s].
    Energy of IT equipment and accelerator time are those of one request [Wh, h], with
    ``*_spread`` the ratio of the upper end of an interval to its value [-].
    """

    precision: NDArray[np.intp]
    layout: NDArray[np.intp]
    draft: NDArray[np.intp]
    offer: NDArray[np.intp]
    concurrency: FloatArray
    replicas: FloatArray
    accelerators: FloatArray
    headroom_ratio: FloatArray
    memory_spread: FloatArray
    spilled: NDArray[np.bool_]
    ttft_s: FloatArray
    tpot_s: FloatArray
    e2e_s: FloatArray
    latency_spread: FloatArray
    requests_per_s: FloatArray
    it_wh: FloatArray
    it_wh_spread: FloatArray
    accelerator_hours: FloatArray
    accelerator_hours_spread: FloatArray
    power_w: FloatArray

    def __len__(self) -> int:
        return len(self.offer)

    def chosen(self, rows: NDArray[Any]) -> Candidates:
        """The given rows only."""
        return taken(self, rows)


def candidates(
    architecture: ModelArchitecture, space: Space, demand: Demand, around: Around
) -> tuple[Candidates, LeftOut]:
    """Every combination that the most accelerators allow, fitting or not.

    Parameters
    ----------
    architecture
        The model.
    space
        Formats, layouts and accelerators, and how many of these at most.
    demand
        The load.
    around
        The engine, and what stands around accelerators.

    Returns
    -------
    Candidates, LeftOut
        Rows in the order of layouts and formats; and combinations that hold not even the
        weights, reach beyond fast links, or cannot run, which have no rows.
    """
    parts: list[Candidates] = []
    small: list[TooSmall] = []
    beyond = unable = 0
    for one in evaluated(architecture, space, demand, around):
        small += one.too_small
        beyond += one.beyond_domain
        unable += one.unable
        for found in one.passes:
            part = _rows(found)
            parts.append(part.chosen(part.accelerators <= space.most_accelerators))
    return joined(Candidates, parts), LeftOut(tuple(small), beyond, unable)


def _rows(found: Pass) -> Candidates:
    memory, latency, energy = found.memory, found.latency, found.energy
    fitting = memory.max_concurrency.value
    room = found.concurrency <= np.maximum(fitting * MOST_FILLED_RATIO, 1.0)
    fits = (room & np.asarray(memory.fits) & found.fits) | found.spilled
    headroom = memory.headroom.value / memory.capacity_bytes
    # What lies outside leaves the accelerator full, and no more than that.
    headroom = np.where(found.spilled, np.maximum(headroom, 0.0), headroom)
    return Candidates(
        precision=np.full(len(found), found.precision),
        layout=np.full(len(found), found.layout),
        draft=np.full(len(found), found.draft),
        offer=found.offer,
        concurrency=found.concurrency,
        replicas=found.replicas,
        accelerators=found.accelerators,
        headroom_ratio=np.where(fits, headroom, np.minimum(headroom, -_NOTHING)),
        memory_spread=memory.total.high / memory.total.value,
        spilled=found.spilled,
        ttft_s=latency.ttft_s.value,
        tpot_s=latency.tpot_s.value,
        e2e_s=latency.e2e_s.value,
        latency_spread=latency.e2e_s.high / latency.e2e_s.value,
        requests_per_s=latency.requests_per_s.value * found.replicas,
        it_wh=energy.it_wh.value,
        it_wh_spread=energy.it_wh.high / energy.it_wh.value,
        accelerator_hours=found.ranks / found.carried_per_s.value / 3600.0,
        accelerator_hours_spread=found.carried_per_s.value / found.carried_per_s.low,
        power_w=found.power.it_w.value * found.replicas,
    )
