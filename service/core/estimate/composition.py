"""A step of post-training: phases of models that train, only compute forward, or generate.

Each phase is estimated by what estimates it elsewhere: a training step, its forward pass, or an
inference deployment. Phases of the same accelerators follow one another; pools of accelerators
work at the same time where one works ahead of the other, and else wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal, TypeAlias

from service.core.deployment import Deployment, Region
from service.core.elementwise import maximum, minimum
from service.core.estimate.training import TrainingSpeed, TrainingSpeedSetup, training_speed
from service.core.explanation import Formula, paths
from service.core.impacts.footprint import Footprint, footprint
from service.core.impacts.infrastructure import Infrastructure, making
from service.core.interval import Interval, exact, quotient, scale
from service.core.lightweight import lightweight
from service.core.memory.training.settings import MicroBatch
from service.core.performance.collectives import scale_out
from service.core.performance.training.run import TrainingRun

_SECONDS_PER_HOUR = 3_600.0
_WATTS = 1_000.0

#: Paths start at a ``Composition``.
COMPOSITION = (
    Formula(
        "step_s",
        "max(pool_s) if works_ahead else sum(pool_s)",
        "Phases of a pool follow one another",
        "step_s",
        paths("works_ahead", pool_s="busy_by_pool_s"),
    ),
    Formula(
        "tokens_per_s",
        "tokens_per_step / step_s",
        "definition",
        "tokens_per_s",
    ),
    Formula(
        "it_energy_per_step_kwh",
        "sum(phase_kwh) + sum(waiting_kwh)",
        "Energy of the phases, and of pools that wait for others at idle power",
        "step_kwh",
        paths(phase_kwh="phases_kwh", waiting_kwh="waiting_kwh"),
    ),
)


PoolName: TypeAlias = Literal["training", "teacher", "generation"]
#: Work of a step: of models that are trained, of frozen ones, and of what goes between pools.
PhaseName: TypeAlias = Literal[
    "training",
    "critic",
    "teacher",
    "reference",
    "old_policy",
    "values",
    "reward",
    "reward_model",
    "generation",
    "weights_sent",
    "logits_sent",
    "logits_read",
]


@lightweight
class Phase:
    """Work of a step on a pool of accelerators: its time [s], and IT energy [kWh] where known."""

    name: PhaseName
    pool: PoolName
    time_s: Interval
    it_kwh: Interval | None


@dataclass(frozen=True, slots=True)
class Pool:
    """Accelerators that work together; ``idle_it_w`` is the IT power of all while they wait [W]."""

    name: PoolName
    deployment: Deployment
    infrastructure: Infrastructure
    idle_it_w: Interval | None

    @property
    def accelerators(self) -> int:
        """How many there are."""
        return self.deployment.parallelism.accelerator_count


@dataclass(frozen=True, slots=True)
class Composition:
    """A step of post-training.

    ``works_ahead`` tells that pools work at the same time, each on another step; where they do not,
    a pool waits while others work. ``tokens_per_step`` are trained.
    """

    pools: tuple[Pool, ...]
    phases: tuple[Phase, ...]
    works_ahead: bool
    tokens_per_step: float

    @property
    def busy_by_pool_s(self) -> dict[str, Interval]:
        """What each pool does in a step [s]."""
        return {
            pool.name: _together(each.time_s for each in self.phases if each.pool == pool.name)
            for pool in self.pools
        }

    @property
    def step_s(self) -> Interval:
        """Time of a step [s]."""
        busy = self.busy_by_pool_s.values()
        if self.works_ahead:
            return reduce(_later, busy)
        return _together(busy)

    @property
    def tokens_per_s(self) -> Interval:
        """Trained tokens [token/s]."""
        return quotient(exact(self.tokens_per_step), self.step_s)

    @property
    def accelerators(self) -> int:
        """Accelerators of all pools."""
        return sum(pool.accelerators for pool in self.pools)

    @property
    def phases_kwh(self) -> dict[str, Interval | None]:
        """IT energy of each phase [kWh]."""
        return {each.name: each.it_kwh for each in self.phases}

    @property
    def waiting_kwh(self) -> dict[str, Interval | None]:
        """IT energy of each pool while it waits for others in a step [kWh]."""
        step_s, busy = self.step_s.value, self.busy_by_pool_s
        return {
            pool.name: None
            if pool.idle_it_w is None
            else scale(
                pool.idle_it_w,
                maximum(step_s - busy[pool.name].value, 0.0) / _SECONDS_PER_HOUR / _WATTS,
            )
            for pool in self.pools
        }

    def pool_kwh(self, pool: str) -> Interval | None:
        """IT energy of a pool in a step, waiting included, where power is known [kWh]."""
        parts = [each.it_kwh for each in self.phases if each.pool == pool]
        return _known_sum([*parts, self.waiting_kwh[pool]])

    @property
    def step_kwh(self) -> Interval | None:
        """IT energy of a step [kWh]; None where the power of an accelerator is unknown."""
        return _known_sum([self.pool_kwh(pool.name) for pool in self.pools])


def forward_speed(setup: TrainingSpeedSetup, sequences: float) -> TrainingSpeed:
    """Time of a forward pass over sequences, by the kernels of the training step.

    Parameters
    ----------
    setup
        A training run; of its settings what belongs to a backward pass or an update is left out.
        A deployment with another number of data-parallel ranks takes other micro-batches.
    sequences
        Sequences of a step over all data-parallel ranks [-].
    """
    batch = setup.micro_batch
    each = sequences / setup.deployment.parallelism.data
    at_once = minimum(batch.sequences, each)
    settings = replace(setup.settings.forward, gradient_accumulation_steps=each / at_once)
    return training_speed(
        replace(
            setup,
            settings=settings,
            micro_batch=MicroBatch(at_once, batch.tokens),
            paged_bytes=0.0,
        )
    )


def sent_s(deployment: Deployment, each_bytes: float, link_ratio: float, *, apart: bool) -> float:
    """Time in which every accelerator of a deployment gets bytes of its own [s].

    Parameters
    ----------
    deployment
        What gets them.
    each_bytes
        What an accelerator gets [B].
    link_ratio
        Share of a link's bandwidth that messages reach [-].
    apart
        Whether they come from other accelerators, over links between machines, rather than from
        its own machine, or from its own memory where it is alone.
    """
    accelerator, ranks = deployment.accelerator, deployment.parallelism.accelerator_count
    if apart or ranks > accelerator.scale_up_domain_accelerators:
        rate = scale_out(accelerator).bandwidth_bytes_per_s
    elif ranks > 1:
        rate = accelerator.scale_up.bandwidth_bytes_per_s
    else:
        rate = accelerator.memory_bandwidth_bytes_per_s / 2.0
    return float(each_bytes / (rate * link_ratio))


def footprints(composition: Composition, region: Region) -> tuple[Footprint, ...] | None:
    """Footprint of a step of each pool; None where the power of an accelerator is unknown."""
    hours = scale(composition.step_s, 1.0 / _SECONDS_PER_HOUR)
    found = []
    for pool in composition.pools:
        kwh = composition.pool_kwh(pool.name)
        if kwh is None:
            return None
        made = making(pool.deployment.accelerator, pool.infrastructure)
        worn = scale(hours, float(pool.accelerators))
        found.append(footprint(kwh, worn, None, region, pool.infrastructure, made))
    return tuple(found)


def run_kwh(composition: Composition, run: TrainingRun) -> Interval | None:
    """IT energy of a whole run, through whose losses accelerators draw what they do in a step."""
    step = composition.step_kwh
    if step is None or not run.goodput_ratio.low:
        return None
    return scale(quotient(step, run.goodput_ratio), float(run.steps))


def _later(first: Interval, second: Interval) -> Interval:
    """The later of two ends."""
    return Interval(
        maximum(first.value, second.value),
        maximum(first.low, second.low),
        maximum(first.high, second.high),
    )


def _together(parts: Iterable[Interval]) -> Interval:
    """Sum of figures that the same efficiencies make all high or all low."""
    listed = list(parts)
    return Interval(
        sum(each.value for each in listed),
        sum(each.low for each in listed),
        sum(each.high for each in listed),
    )


def _known_sum(parts: Iterable[Interval | None]) -> Interval | None:
    """Sum of figures; None where one is unknown."""
    known = []
    for part in parts:
        if part is None:
            return None
        known.append(part)
    return _together(known)
