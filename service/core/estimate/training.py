"""A training run from its setup to memory, speed, power, energy and footprint.

A single estimate comes with plain floats, searches with stacks of accelerators and micro-batches,
whose figures are arrays with an element a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from service.core.deployment import Deployment, Region
from service.core.elementwise import Number, everywhere, exp, log, maximum, sqrt
from service.core.impacts.footprint import Footprint, footprint
from service.core.impacts.infrastructure import Infrastructure, making
from service.core.impacts.training_energy import TrainingEnergy, training_energy
from service.core.interval import Interval, bounded, exact, from_log_sigma, quotient, scale
from service.core.learning import NO_CORRECTION
from service.core.lightweight import lightweight
from service.core.memory.training.settings import LeftOpen, MicroBatch, TrainingSettings
from service.core.otherwise import RARE_RATIO, Other, part_of_spread
from service.core.performance.training.calibration import TrainingCalibration
from service.core.performance.training.run import Failures, TrainingRun, training_run
from service.core.performance.training.step import TrainingStep, training_step
from service.core.performance.training.traffic import HostRates

_KWH_PER_WH = 1e-3
#: Of other settings nobody has counted how often they are in use: ranges reach over all [-].
_ANY_CASE = 1.0
_TFLOP_PER_FLOP = 1e-12


@lightweight
class TrainingSpeedSetup:
    """Everything that the speed of a training run is computed from; figures may be arrays.

    ``paged_bytes`` are optimizer states that found no room on the accelerator [B]. ``releases``
    hold what is measured of other releases of the framework that may be meant.
    """

    deployment: Deployment
    micro_batch: MicroBatch
    settings: TrainingSettings
    calibration: TrainingCalibration
    host: HostRates
    paged_bytes: Number = 0.0
    releases: Mapping[str, TrainingCalibration] = field(default_factory=dict)

    def otherwise(self, choice: LeftOpen, settings: TrainingSettings) -> TrainingSpeedSetup:
        """The same run by another outcome of a choice."""
        return replace(
            self,
            deployment=choice.deployed(self.deployment),
            settings=settings,
            calibration=self.releases.get(settings.release, self.calibration),
        )


@lightweight
class TrainingSpeed:
    """A training run's speed, with its intervals.

    ``settled_step_s`` is the time of a step with the spread that its calibration gives; ``step_s``
    reaches over choices that nobody told besides. ``otherwise_s`` has the times in which the same
    tokens take a step under their other outcomes, by the first setting that would tell [s].
    ``run`` is that of :func:`whole_run`, None where the number of tokens is not known;
    ``useful_ratio`` of the tokens are no filling of shorter sequences.
    """

    setup: TrainingSpeedSetup
    step: TrainingStep
    step_s: Interval
    settled_step_s: Interval
    otherwise_s: Mapping[str, tuple[Other[Number], ...]] = field(default_factory=dict)
    run: TrainingRun | None = None
    useful_ratio: float = 1.0

    @property
    def tokens_per_s(self) -> Interval:
        """Throughput of all accelerators [token/s]."""
        return quotient(exact(self.step.tokens_per_step), self.step_s)

    @property
    def tokens_per_s_per_accelerator(self) -> Interval:
        """Throughput of one accelerator [token/s]."""
        count = self.setup.deployment.parallelism.accelerator_count
        return scale(self.tokens_per_s, 1.0 / count)

    @property
    def mfu_ratio(self) -> Interval:
        """Model FLOPs utilisation: without recomputation, over dense peak [-]."""
        return _share(self.step.mfu_ratio, self.step_s)

    @property
    def hfu_ratio(self) -> Interval:
        """Hardware FLOPs utilisation: with recomputation, over dense peak [-]."""
        return _share(self.step.hfu_ratio, self.step_s)

    @property
    def model_tflops_per_accelerator(self) -> Interval:
        """Operations that the model asks for, without recomputation, in a second [TFLOP/s]."""
        return _achieved(self.step.model_flops, self.step_s)

    @property
    def hardware_tflops_per_accelerator(self) -> Interval:
        """Operations that are computed, recomputation included, in a second [TFLOP/s]."""
        return _achieved(self.step.hardware_flops, self.step_s)

    @property
    def global_batch_sequences(self) -> Number:
        """Sequences of all model copies in an optimizer step."""
        setup = self.setup
        each = setup.micro_batch.sequences * setup.settings.gradient_accumulation_steps
        return each * setup.deployment.parallelism.data


def training_speed(setup: TrainingSpeedSetup) -> TrainingSpeed:
    """Time of a step and throughput."""
    step = _step(setup)
    performance = setup.calibration.performance
    wider = performance.widening.ratio(step.shares, setup.deployment.architecture.routes)
    log_sigma = setup.calibration.log_sigma * wider * performance.corrections.step.spread_ratio
    step_s = from_log_sigma(step.step_s, log_sigma)
    speed = TrainingSpeed(setup, step, step_s, step_s)
    settings, weights = setup.settings, setup.deployment.precision.weights
    others: dict[str, list[Other[TrainingSpeedSetup]]] = {}
    for choice in settings.left_open:
        if choice.is_open(settings, weights):
            share = _ANY_CASE if choice.share_ratio is None else choice.share_ratio
            found = others.setdefault(choice.names[0], [])
            found += [
                Other(setup.otherwise(choice, one), share) for one in settings.otherwise(choice)
            ]
    return reaching(speed, others)


def reaching(
    speed: TrainingSpeed, others: Mapping[str, Sequence[Other[TrainingSpeedSetup]]]
) -> TrainingSpeed:
    """The same speed with intervals that reach over other outcomes of choices that nobody told.

    Under each outcome the time is as uncertain as under the usual one, so that ends of intervals
    move by as much as times do, and by less where few cases have it (`service.core.otherwise`): by
    logarithms, of several choices in quadrature. The value stays that of what most people mean.

    Parameters
    ----------
    speed
        As estimated.
    others
        Runs with each other outcome, by the first setting that would tell it.
    """
    if not others:
        return speed
    tokens = speed.step.tokens_per_step
    found = {
        name: tuple(one.then(lambda setup: tokens / _step(setup).tokens_per_s) for one in setups)
        for name, setups in others.items()
    }
    otherwise_s = {**speed.otherwise_s, **found}
    usual, settled = speed.step.step_s, speed.settled_step_s
    faster: Number = 0.0
    slower: Number = 0.0
    for times in otherwise_s.values():
        sooner: Number = 0.0
        later: Number = 0.0
        for one in times:
            if one.share_ratio <= RARE_RATIO:
                continue
            nearer = 1.0 - part_of_spread(one.share_ratio)
            moved = log(one.found / usual)
            sooner = maximum(sooner, -moved - nearer * log(settled.value / settled.low))
            later = maximum(later, moved - nearer * log(settled.high / settled.value))
        faster, slower = faster + sooner**2, slower + later**2
    reached = Interval(
        settled.value, settled.low * exp(-sqrt(faster)), settled.high * exp(sqrt(slower))
    )
    return replace(speed, step_s=reached, otherwise_s=otherwise_s)


def _step(setup: TrainingSpeedSetup) -> TrainingStep:
    """The step of a run, as own measurements correct it."""
    step = training_step(
        setup.deployment,
        setup.settings,
        setup.micro_batch,
        setup.host,
        setup.calibration,
        setup.paged_bytes,
    )
    correction = setup.calibration.performance.corrections.step
    return step if correction is NO_CORRECTION else step.slowed(correction.ratio)


def with_utilisation(speed: TrainingSpeed, mfu_ratio: float) -> TrainingSpeed:
    """The same run with a known utilisation, which says how long a step takes.

    Parameters
    ----------
    speed
        As estimated.
    mfu_ratio
        Model FLOPs over what the accelerators could do at dense peak in that time [-].
    """
    step = speed.step.slowed(speed.step.mfu_ratio / mfu_ratio)
    known_s = exact(step.step_s)
    return replace(speed, step=step, step_s=known_s, settled_step_s=known_s, otherwise_s={})


def whole_run(speed: TrainingSpeed, tokens: Number, failures: Failures) -> TrainingRun:
    """Time and accelerator-hours of a run of so many tokens, failures included."""
    count = speed.setup.deployment.parallelism.accelerator_count
    return training_run(tokens, speed.step.tokens_per_step, speed.step_s, count, failures)


def _achieved(flops: Number, step_s: Interval) -> Interval:
    """What an accelerator computes in a second of what it computes in a step [TFLOP/s]."""
    return quotient(exact(flops * _TFLOP_PER_FLOP), step_s)


def _share(value: Number, step_s: Interval) -> Interval:
    """A share of peak with the relative spread of the step's time."""
    return bounded(quotient(exact(value * step_s.value), step_s), 0.0, maximum(value, 1.0))


def run_energy(speed: TrainingSpeed, infrastructure: Infrastructure) -> TrainingEnergy:
    """Power and energy of a training run on accelerators of known thermal design power."""
    deployment, tier = speed.setup.deployment, speed.setup.settings.offload.tier
    return training_energy(
        deployment.accelerator,
        deployment.parallelism.accelerator_count,
        speed.step,
        speed.step_s,
        speed.run,
        speed.setup.calibration.performance.power,
        infrastructure,
        None if tier is None else tier.worth,
    )


@dataclass(frozen=True, slots=True)
class TrainingFootprints:
    """Footprints of a step, of an hour of all accelerators, and of the run.

    ``run`` is None without one, or where it never ends.
    """

    step: Footprint
    hour: Footprint
    run: Footprint | None


def training_footprints(
    speed: TrainingSpeed, energy: TrainingEnergy, region: Region, infrastructure: Infrastructure
) -> TrainingFootprints:
    """Carbon, water and hardware worn by a step, by an hour, and by the whole run."""
    deployment, run = speed.setup.deployment, speed.run
    made = making(deployment.accelerator, infrastructure)

    def worn(kwh: Interval, hours: Interval) -> Footprint:
        return footprint(kwh, hours, None, region, infrastructure, made)

    whole = None
    if run is not None and energy.run_kwh is not None and everywhere(run.wall_s.value < inf):
        whole = worn(energy.run_kwh, run.accelerator_hours)
    return TrainingFootprints(
        step=worn(energy.step_kwh, energy.step_hours),
        hour=worn(
            scale(energy.power.it_power_w, _KWH_PER_WH),
            exact(float(deployment.parallelism.accelerator_count)),
        ),
        run=whole,
    )
