"""Inference deployments by the hundred thousand: one array for each figure, one row a candidate.

Structure (formats, layout) is fixed within a pass; accelerators and the number of sequences that a
replica runs at once vary over the rows. Every pass uses the formulas that single estimates use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.core.architecture.model import ModelArchitecture
from service.core.deployment import (
    Accelerator,
    InferenceDeployment,
    InferenceWorkload,
    Parallelism,
    Precision,
    ServingSettings,
)
from service.core.elementwise import FloatArray
from service.core.impact.energy import deployment_power, request_energy
from service.core.impact.infrastructure import Infrastructure
from service.core.interval import exact
from service.core.memory.inference import inference_memory, stage_plans
from service.core.memory.runtime import RuntimeOverheads
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.inference import Usage, inference_latency
from service.core.performance.step import peak_flops_per_s
from service.core.planning.stack import (
    stackable,
    stacked_accelerator,
    stacked_calibration,
    stacked_interval,
)

#: Sequences that a replica may run at once, as they are tried.
CONCURRENCY_GRID = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
#: Share of the sequences that fit which a replica is planned to run: room for bursts.
MOST_FILLED_RATIO = 0.9

#: Below zero by as little as this means that too many sequences were asked for.
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class Offer:
    """An accelerator that may be chosen, with what is measured of its family."""

    accelerator: Accelerator
    calibration: PerformanceCalibration


@dataclass(frozen=True, slots=True)
class Demand:
    """What the deployment has to carry.

    ``requests_per_s`` over all replicas [1/s], or else ``concurrency`` requests always in flight;
    with neither, one replica works as hard as it can.
    """

    input_tokens: float
    output_tokens: float
    requests_per_s: float | None
    concurrency: float | None
    prefix_cached_ratio: float = 0.0
    calls_per_task: int = 1


@dataclass(frozen=True, slots=True)
class Candidates:
    """One row a candidate.

    ``precision``, ``layout`` and ``offer`` are positions in the lists that were searched.
    ``concurrency`` is what one replica runs at once, ``accelerators`` count all replicas.
    ``headroom_ratio`` is free memory over capacity, negative where it does not fit [-].
    Times [s]; ``requests_per_s`` is what all replicas can carry at these latencies [1/s].
    Energy of IT equipment and accelerator time are those of one request [Wh, h], with
    ``*_spread`` the ratio of the upper end of an interval to its value [-].
    """

    precision: NDArray[np.intp]
    layout: NDArray[np.intp]
    offer: NDArray[np.intp]
    concurrency: FloatArray
    replicas: FloatArray
    accelerators: FloatArray
    headroom_ratio: FloatArray
    memory_spread: FloatArray
    ttft_s: FloatArray
    tpot_s: FloatArray
    e2e_s: FloatArray
    latency_spread: FloatArray
    requests_per_s: FloatArray
    it_wh: FloatArray
    it_wh_spread: FloatArray
    accelerator_hours: FloatArray
    power_w: FloatArray

    def __len__(self) -> int:
        return len(self.offer)

    def chosen(self, rows: NDArray[Any]) -> Candidates:
        """The given rows only."""
        return Candidates(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True, slots=True)
class TooSmall:
    """An accelerator on which not even the weights of a rank fit, with what it lacks [B]."""

    precision: int
    layout: int
    offer: int
    lacking_bytes: float


@dataclass(frozen=True, slots=True)
class Space:
    """What is combined; layouts are those of one replica.

    ``native_only`` leaves out formats that an accelerator does not multiply: they would run
    widened, if an engine has such kernels at all.
    """

    precisions: Sequence[Precision]
    layouts: Sequence[Parallelism]
    offers: Sequence[Offer]
    most_accelerators: int
    native_only: bool = True


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around the accelerators: engine settings and measured overheads."""

    serving: ServingSettings
    runtime: RuntimeOverheads
    infrastructure: Infrastructure


def candidates(
    architecture: ModelArchitecture, space: Space, demand: Demand, around: Around
) -> tuple[Candidates, tuple[TooSmall, ...]]:
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
    Candidates, tuple of TooSmall
        Rows in the order of layouts and formats; and combinations that hold not even the
        weights, which have no rows.
    """
    parts: list[Candidates] = []
    small: list[TooSmall] = []
    for layout_at, layout in enumerate(space.layouts):
        ranks = layout.replica_accelerators
        if ranks > space.most_accelerators:
            continue
        alike: dict[object, list[int]] = {}
        for at, offer in enumerate(space.offers):
            key = stackable(offer.accelerator, ranks, offer.calibration)
            alike.setdefault(key, []).append(at)
        for precision_at, precision in enumerate(space.precisions):
            weights = _weights_bytes(architecture, precision, layout, around.serving)
            for group in alike.values():
                halves = space.offers[group[0]].calibration.engine.half_accumulation
                wanted = tuple(
                    dict.fromkeys(
                        (
                            precision.weights.matrix_precision,
                            "bf16",
                            *(("fp16_accumulate",) if halves else ()),
                        )
                    )
                )
                able: list[int] = []
                for at in group:
                    accelerator = space.offers[at].accelerator
                    lacking = weights - accelerator.memory_bytes
                    if lacking > 0.0:
                        small.append(TooSmall(precision_at, layout_at, at, lacking))
                    elif _runs(accelerator, wanted, space.native_only):
                        able.append(at)
                if able:
                    offers = [space.offers[at] for at in able]
                    figures = _pass(architecture, precision, layout, offers, wanted, demand, around)
                    rows = len(able) * len(CONCURRENCY_GRID)
                    part = Candidates(
                        precision=np.full(rows, precision_at),
                        layout=np.full(rows, layout_at),
                        offer=np.repeat(able, len(CONCURRENCY_GRID)),
                        **figures,
                    )
                    parts.append(part.chosen(part.accelerators <= space.most_accelerators))
    joined: dict[str, Any] = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        if parts
        else np.empty(0, dtype=np.intp)
        for field in fields(Candidates)
    }
    return Candidates(**joined), tuple(small)


def _weights_bytes(
    architecture: ModelArchitecture,
    precision: Precision,
    layout: Parallelism,
    serving: ServingSettings,
) -> float:
    """Weights on the rank that holds most of them [B]."""
    plans = stage_plans(architecture, precision, layout, serving.kv_block_tokens)
    return max(plan.weights.total_bytes for plan in plans)


def _runs(accelerator: Accelerator, precisions: Sequence[str], native_only: bool) -> bool:
    """Whether the accelerator multiplies each of the precisions, or a wider one if that will do."""
    if accelerator.thermal_design_power_w is None:
        return False
    for precision in precisions:
        try:
            peak_flops_per_s(accelerator, precision)
        except ValueError:
            return False
        if native_only and not _HALVES.get(precision, {precision}) & set(
            accelerator.peak_flops_per_s
        ):
            return False
    return True


#: The 16-bit formats stand for each other.
_HALVES = {name: {"bf16", "fp16"} for name in ("bf16", "fp16", "fp16_accumulate")}


def _pass(
    architecture: ModelArchitecture,
    precision: Precision,
    layout: Parallelism,
    offers: Sequence[Offer],
    wanted: Sequence[str],
    demand: Demand,
    around: Around,
) -> dict[str, FloatArray]:
    infrastructure = around.infrastructure
    times = len(CONCURRENCY_GRID)
    accelerators = [offer.accelerator for offer in offers]
    idle = [infrastructure.idle_power_w(one) for one in accelerators]
    accelerator = replace(
        stacked_accelerator(accelerators, times, wanted), idle_power=stacked_interval(idle, times)
    )
    calibration = stacked_calibration(
        [offer.calibration for offer in offers], accelerators, times, wanted
    )
    running = np.tile(np.array(CONCURRENCY_GRID, dtype=float), len(offers))
    workload = InferenceWorkload(
        demand.input_tokens,
        demand.output_tokens,
        running,
        prefix_cached_ratio=demand.prefix_cached_ratio,
        calls_per_task=demand.calls_per_task,
    )
    deployment = InferenceDeployment(architecture, precision, accelerator, layout)
    memory = inference_memory(deployment, workload, around.serving, around.runtime)
    fitting = memory.max_concurrency.value
    latency = inference_latency(
        deployment, workload, around.serving, calibration, np.maximum(fitting, running)
    )
    rate = latency.requests_per_s.value
    replicas = _replicas(demand, running, rate)
    # Replicas are whole: what they could carry beyond the demand, they wait.
    carried = rate if demand.requests_per_s is None else demand.requests_per_s / replicas
    share = np.minimum(carried / rate, 1.0)
    usage = Usage(
        memory_ratio=latency.usage.memory_ratio,
        compute_ratio=latency.usage.compute_ratio * share,
        busy_ratio=np.minimum(running * share, 1.0),
        kernel_ratio=latency.usage.kernel_ratio,
    )
    ranks = layout.replica_accelerators
    power = deployment_power(accelerator, ranks, usage, calibration.power, infrastructure)
    energy = request_energy(
        power, latency.requests_per_s if demand.requests_per_s is None else exact(carried)
    )
    fits = (running <= np.maximum(fitting * MOST_FILLED_RATIO, 1.0)) & memory.fits
    headroom = memory.headroom.value / memory.capacity_bytes
    return {
        "concurrency": running,
        "replicas": replicas,
        "accelerators": replicas * ranks,
        "headroom_ratio": np.where(fits, headroom, np.minimum(headroom, -_NOTHING)),
        "memory_spread": memory.total.high / memory.total.value,
        "ttft_s": latency.ttft_s.value,
        "tpot_s": latency.tpot_s.value,
        "e2e_s": latency.e2e_s.value,
        "latency_spread": latency.e2e_s.high / latency.e2e_s.value,
        "requests_per_s": rate * replicas,
        "it_wh": energy.it_wh.value,
        "it_wh_spread": energy.it_wh.high / energy.it_wh.value,
        "accelerator_hours": ranks / carried / 3600.0,
        "power_w": power.it_w.value * replicas,
    }


def _replicas(demand: Demand, running: FloatArray, rate: FloatArray) -> FloatArray:
    """Replicas that carry the demand, each running so many sequences [-]."""
    if demand.requests_per_s is not None:
        return np.ceil(demand.requests_per_s / rate)
    if demand.concurrency is not None:
        return np.ceil(demand.concurrency / running)
    return np.ones_like(running)
