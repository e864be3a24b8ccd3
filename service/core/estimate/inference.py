"""An inference deployment from its setup to memory, speed, power, energy and footprint.

All estimates are computed here: a single one with plain floats, searches and sweeps with stacks of
accelerators and loads, whose figures are arrays with an element a configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from service.core.deployment import (
    WITHOUT_LIMIT,
    Deployment,
    InferenceWorkload,
    Region,
    ServingSettings,
)
from service.core.elementwise import Number, Truth, both, hypot, log, maximum, minimum, where
from service.core.impacts.energy import (
    NO_POWER,
    SECONDS_PER_HOUR,
    DeploymentPower,
    RequestEnergy,
    deployment_power,
    request_energy,
)
from service.core.impacts.footprint import Footprint, footprint
from service.core.impacts.infrastructure import Infrastructure, Making
from service.core.interval import Z_90, Interval, exact, independent_sum, quotient, scale
from service.core.lightweight import lightweight
from service.core.memory.inference.choices import over_choices
from service.core.memory.inference.memory import InferenceMemory, inference_memory
from service.core.memory.inference.runtime import RuntimeOverheads
from service.core.memory.inference.tier_costs import tiers_embodied_kgco2e, tiers_power_w
from service.core.memory.inference.tier_room import RoomWithTiers
from service.core.memory.inference.tiers import InferenceTiers, MemoryTiers, inference_tiers
from service.core.otherwise import Other, given, reaching, reaching_figures
from service.core.performance.calibration import CopiedWeights, PerformanceCalibration
from service.core.performance.inference.goodput import Goodput, TimeLimit, goodput
from service.core.performance.inference.latency import InferenceLatency, inference_latency
from service.core.performance.inference.tasks import is_plain, mean_call

#: Spread of decoding by copies that share experts, and wait at these for the one with most prompts:
#: DeepSeek-V3 on eight GB200 is as fast as one copy alone would let it be, or slower by 1.54 where
#: lengths differ (TensorRT-LLM, ADP Balance Strategy, 2025); all between is as likely.
_JOINED_LOG_SIGMA = 0.125
_KWH_PER_WH = 1e-3
#: Powers and energies that depend on how fast a deployment is.
_POWERS = (
    *("busy_power_w", "accelerator_mean_power_w", "host_power_w", "tiers_power_w"),
    "it_power_w",
)
_ENERGIES = ("accelerators_wh", "host_wh", "it_wh")


@lightweight
class InferenceSetup:
    """Everything that an inference estimate is computed from; figures may be arrays.

    ``tiers`` is memory beyond the accelerator, None where all stays within it.
    ``acceptance_log_sigma`` is what not knowing how many drafted tokens are accepted adds to the
    spread of decoding [-]. ``copies`` of the deployment share a load evenly and stand side by
    side; workload and results are those of one [-].
    """

    deployment: Deployment
    workload: InferenceWorkload
    serving: ServingSettings
    runtime: RuntimeOverheads
    calibration: PerformanceCalibration
    tiers: MemoryTiers | None = None
    acceptance_log_sigma: float = 0.0
    copies: Number = 1.0


@lightweight
class InferenceEstimate:
    """Memory and speed of a setup.

    ``deployment`` and ``calibration`` are what the latency was computed from: with memory beyond
    the accelerator its bandwidth is that of all tiers together. Where it does not fit, the latency
    is what it would be if memory were enough for all requests, or for one at a time to wait for
    its turn. ``otherwise`` are estimates by other choices that a request leaves open, over which
    intervals reach.
    """

    setup: InferenceSetup
    memory: InferenceMemory
    tiers: InferenceTiers | None
    deployment: Deployment
    calibration: PerformanceCalibration
    latency: InferenceLatency
    otherwise: tuple[Other[InferenceEstimate], ...] = ()

    @property
    def call_s(self) -> Interval:
        """Time of a call of average context [s]."""
        return self.latency.call_s

    @property
    def fits(self) -> Truth:
        """Whether everything has a place, in the accelerator or outside it."""
        return self.memory.fits if self.tiers is None else self.tiers.fits

    @property
    def room(self) -> InferenceMemory | RoomWithTiers:
        """What the accelerator holds and has room for, with the tiers around it."""
        return self.memory if self.tiers is None else RoomWithTiers(self.tiers)

    @property
    def spilled(self) -> Truth:
        """Whether it fits because a part of it lies outside the accelerator."""
        if self.tiers is None:
            return both(self.memory.fits, False)
        return self.tiers.spilled


def estimate_inference(
    setup: InferenceSetup, memory: InferenceMemory | None = None
) -> InferenceEstimate:
    """Memory, placement and latency; memory that is known already does not depend on copies."""
    deployment, workload, serving = setup.deployment, setup.workload, setup.serving
    if memory is None:
        memory = inference_memory(deployment, workload, serving, setup.runtime)
    joined = deployment.parallelism.joined_copies > 1
    calibration = _with_decode_spread(
        setup.calibration, hypot(setup.acceptance_log_sigma, _JOINED_LOG_SIGMA * joined)
    )
    tiers = None
    if setup.tiers is not None:
        tiers = inference_tiers(memory, setup.tiers, setup.copies)
        deployment, calibration = with_tiers(deployment, calibration, tiers)
    running = running_sequences(workload, serving, memory, tiers)
    latency = inference_latency(deployment, workload, serving, calibration, running)
    if workload.calls_per_task > 1 and not is_plain(workload):
        average = mean_call(workload)
        call = inference_latency(deployment, average, serving, calibration, running)
        latency = replace(latency, average=call)
    return InferenceEstimate(setup, memory, tiers, deployment, calibration, latency)


@lightweight
class OtherChoice:
    """Another choice of a ``setting`` that a request leaves open, made in a share of cases [-].

    Times and power depend on it if ``timed``, memory if ``sized``.
    """

    setting: str
    setup: InferenceSetup
    share_ratio: float
    timed: bool
    sized: bool


def reaching_over(estimate: InferenceEstimate, choices: Iterable[OtherChoice]) -> InferenceEstimate:
    """An estimate whose intervals reach over what it is by other choices; its values stay.

    Parameters
    ----------
    estimate
        By the usual choices.
    choices
        The others.
    """
    memories: dict[str, list[Other[InferenceMemory]]] = {}
    estimates: list[Other[InferenceEstimate]] = []
    for choice in choices:
        setup = choice.setup
        memory = inference_memory(setup.deployment, setup.workload, setup.serving, setup.runtime)
        if choice.sized:
            memories.setdefault(choice.setting, []).append(Other(memory, choice.share_ratio))
        if choice.timed:
            estimates.append(Other(estimate_inference(setup, memory), choice.share_ratio))
    found = tuple(estimates)
    latency = replace(
        estimate.latency, otherwise=tuple(one.then(lambda each: each.latency) for one in found)
    )
    if latency.average is not None:
        calls = tuple(
            Other(one.found.average, one.share_ratio)
            for one in latency.otherwise
            if one.found.average is not None
        )
        latency = replace(latency, average=replace(latency.average, otherwise=calls))
    reached, tiers = over_choices(estimate.memory, memories), estimate.tiers
    if tiers is not None and estimate.setup.tiers is not None:
        tiers = inference_tiers(reached, estimate.setup.tiers, estimate.setup.copies)
    return replace(estimate, memory=reached, tiers=tiers, latency=latency, otherwise=found)


def fitting_sequences(
    workload: InferenceWorkload, memory: InferenceMemory, tiers: InferenceTiers | None
) -> Number:
    """Sequences that a replica has room for; all there are where it has not room for one [-]."""
    replicas = memory.deployment.parallelism.data
    concurrency_per_replica = workload.concurrency / replicas
    fitting: Number = memory.sequences_that_fit / replicas
    if tiers is not None:
        # What has no room in the accelerator lies outside: all sequences run.
        fitting = where(tiers.fits, maximum(fitting, concurrency_per_replica), fitting)
    return where(fitting < 1.0, maximum(concurrency_per_replica, 1.0), fitting)


def running_sequences(
    workload: InferenceWorkload,
    serving: ServingSettings,
    memory: InferenceMemory,
    tiers: InferenceTiers | None,
) -> Number:
    """Sequences that a replica has room for; a whole batch where none waits and it may fit [-].

    An engine without a limit on sequences runs a batch or ends for lack of memory: whoever asks how
    long it takes has it run, unless it surely does not fit.
    """
    fitting = fitting_sequences(workload, memory, tiers)
    if workload.requests_per_s is not None:
        return fitting
    whole = both(serving.max_running_sequences >= WITHOUT_LIMIT, memory.headroom_bytes.high >= 0.0)
    batch = workload.concurrency / memory.deployment.parallelism.data
    return where(whole, maximum(fitting, batch), fitting)


def goodput_of(estimate: InferenceEstimate, limits: Sequence[TimeLimit]) -> Goodput:
    """The highest rate of requests at which the deployment of an estimate keeps limits."""
    setup = estimate.setup
    running = fitting_sequences(setup.workload, estimate.memory, estimate.tiers)

    def latency_at(requests_per_s: Number) -> InferenceLatency:
        workload = replace(setup.workload, requests_per_s=requests_per_s)
        return inference_latency(
            estimate.deployment, workload, setup.serving, estimate.calibration, running
        )

    found = goodput(latency_at, limits)
    rates = [
        one.then(lambda each: goodput_of(each, limits).requests_per_s) for one in estimate.otherwise
    ]
    return replace(found, requests_per_s=reaching(found.requests_per_s, rates))


#: How unsure it is what drives deliver, by file systems, sizes of blocks and mapping: judged to be
#: within a factor of two [-].
_DRIVES_LOG_SIGMA = 0.45


def with_tiers(
    deployment: Deployment, calibration: PerformanceCalibration, tiers: InferenceTiers
) -> tuple[Deployment, PerformanceCalibration]:
    """Deployment and calibration as steps see them when part of what they read lies outside.

    The bandwidth becomes what all tiers together amount to for the bytes of a step, and its
    spread comes beside that of kernels; what that adds to the time of memory is as
    unsure as other waiting for a host. Where the host computes experts, so do its rates and their
    spread; where it computes layers in small steps, others see what copying amounts to.
    """
    bandwidth, copying = tiers.bandwidth_bytes_per_s, tiers.copying_bytes_per_s
    reading = log(bandwidth.high / bandwidth.low) / 2.0 / Z_90
    computing = reading if copying is None else log(copying.high / copying.low) / 2.0 / Z_90
    if tiers.processors is not None:
        computing, reading = map(hypot, (computing, reading), tiers.processors.log_sigmas)
    of_drives = _DRIVES_LOG_SIGMA * tiers.drives_ratio
    alone_per_s = deployment.accelerator.memory_bandwidth_bytes_per_s
    slower = replace(deployment.accelerator, memory_bandwidth_bytes_per_s=bandwidth.value)

    def outside_ratio(seen_per_s: Number) -> Number:
        return maximum(1.0 - seen_per_s / alone_per_s, 0.0)

    return replace(deployment, accelerator=slower), replace(
        calibration,
        outside_ratio=outside_ratio(bandwidth.value),
        added_decode_log_sigma=hypot(calibration.added_decode_log_sigma, hypot(reading, of_drives)),
        added_prompts_log_sigma=hypot(computing, of_drives),
        host=tiers.processors,
        copied=None
        if copying is None
        else CopiedWeights(copying.value, outside_ratio(copying.value), tiers.computed_ratio),
    )


def _with_decode_spread(
    calibration: PerformanceCalibration, log_sigma: Number
) -> PerformanceCalibration:
    """The calibration with a further spread of decoding, which stands beside that of kernels."""
    if isinstance(log_sigma, float) and not log_sigma:
        return calibration
    return replace(calibration, added_decode_log_sigma=log_sigma)


@lightweight
class InferenceEnergy:
    """Power of a deployment and energy of a request, at the rate at which requests end.

    ``requests_per_s`` [1/s], power and ``accelerators`` are those of one of ``copies``;
    ``request_hours`` is the accelerator time that a request takes up, idle time included [h].
    ``tiers_kgco2e`` is the making of memory beside the machine, for each accelerator.
    """

    requests_per_s: Interval
    power: DeploymentPower
    request: RequestEnergy
    request_hours: Interval
    accelerators: int
    copies: Number
    tiers_kgco2e: Interval | None = None

    def made(self, alone: Making) -> Making:
        """Making of an accelerator with its machine, and with its part of memory beside that."""
        if self.tiers_kgco2e is None or alone.embodied_kgco2e is None:
            return alone
        both = independent_sum((alone.embodied_kgco2e, self.tiers_kgco2e))
        return replace(alone, embodied_kgco2e=both)

    @property
    def request_kwh(self) -> Interval:
        """IT energy of a request [kWh]."""
        return scale(self.request.it_wh, _KWH_PER_WH)

    @property
    def hour_kwh(self) -> Interval:
        """IT energy of an hour of all copies, whatever the rate turns out to be [kWh]."""
        return scale(self.power.it_power_w, self.copies * _KWH_PER_WH)

    @property
    def hour_hours(self) -> Interval:
        """Accelerator time of an hour of all copies [h]."""
        return exact(self.accelerators * self.copies)


def inference_energy(
    estimate: InferenceEstimate, infrastructure: Infrastructure, offered_per_s: Number | None = None
) -> InferenceEnergy:
    """Power and energy of a deployment under its load.

    Idle time and idle accelerators are part of a request's share: a request carries the power of
    the whole deployment over the time between two requests.

    Parameters
    ----------
    estimate
        The deployment, whose accelerator has a known thermal design power.
    infrastructure
        What stands around the accelerators.
    offered_per_s
        Requests that come to all copies together, where that may be fewer than they could end:
        the rest of the time they wait [1/s].
    """
    setup, latency, usage = estimate.setup, estimate.latency, estimate.latency.usage
    count, rate = setup.deployment.parallelism.accelerator_count, latency.own_requests_per_s
    if offered_per_s is not None:
        ended_per_s = minimum(offered_per_s / setup.copies, rate.value)
        share = minimum(ended_per_s / rate.value, 1.0)
        usage = usage.less(share, minimum(latency.running_sequences_per_replica * share, 1.0))
        rate = exact(ended_per_s)
    tiers = estimate.tiers
    power = deployment_power(
        setup.deployment.accelerator,
        count,
        usage,
        setup.calibration.power,
        infrastructure,
        NO_POWER if tiers is None else tiers_power_w(tiers, usage),
        setup.copies,
    )
    found = InferenceEnergy(
        rate,
        power,
        request_energy(power, rate),
        scale(quotient(exact(1.0), rate), count / SECONDS_PER_HOUR),
        count,
        setup.copies,
        None if tiers is None else tiers_embodied_kgco2e(tiers),
    )
    others = [
        one.then(lambda each: inference_energy(each, infrastructure, offered_per_s))
        for one in estimate.otherwise
    ]
    return _reaching_energy(found, others) if others else found


def _reaching_energy(
    energy: InferenceEnergy, others: Sequence[Other[InferenceEnergy]]
) -> InferenceEnergy:
    """Power and energy over those by other choices: what is slower mostly draws less."""
    powers = [one.then(lambda each: each.power) for one in others]
    requests = [one.then(lambda each: each.request) for one in others]
    return replace(
        energy,
        **reaching_figures(energy, others, ("requests_per_s", "request_hours")),
        power=replace(energy.power, **reaching_figures(energy.power, powers, _POWERS)),
        request=given(
            replace(energy.request), reaching_figures(energy.request, requests, _ENERGIES)
        ),
    )


@lightweight
class InferenceFootprints:
    """Footprints of one request, and of an hour of all copies of the deployment."""

    request: Footprint
    hour: Footprint


def inference_footprints(
    energy: InferenceEnergy, made: Making, region: Region, infrastructure: Infrastructure
) -> InferenceFootprints:
    """Carbon, water and hardware worn by a request, and by an hour of the deployment."""
    made = energy.made(made)

    def worn(kwh: Interval, hours: Interval) -> Footprint:
        return footprint(kwh, hours, None, region, infrastructure, made)

    return InferenceFootprints(
        request=worn(energy.request_kwh, energy.request_hours),
        hour=worn(energy.hour_kwh, energy.hour_hours),
    )
