"""Channels of a deployment: how sure published measurements are of each, and what moves with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import exp, log

from service.core.estimate.training import TrainingSpeed
from service.core.interval import Z_90, Interval, independent_sum
from service.core.learning import (
    NO_CORRECTIONS,
    Correction,
    Corrections,
    Observation,
)
from service.core.memory.training.memory import TrainingMemory
from service.estimation.inference.deployment import ComputedDeployment, ResolvedDeployment
from service.estimation.measurements.quantities import NotEstimated
from service.estimation.training.setup import ResolvedTraining

#: Channels that what an inference deployment, and a training run, measures can tell of.
SERVED = ("decode", "prefill", "memory", "power")
TRAINED = ("step", "memory", "power")

#: A channel is moved by this much (logarithm) to see how far a figure follows.
_NUDGE = 0.05
#: Decimals of how far it follows: less is rounding.
_DECIMALS = 6
#: A search over rates: what it takes to see how it follows is more than it tells.
_NOT_LEARNT = frozenset({"goodput_requests_per_s"})


def served_log_sigma(computed: ComputedDeployment) -> dict[str, float]:
    """Published spreads of an inference deployment by channel [-]."""
    estimate, memory = computed.estimate, computed.memory
    spread = estimate.latency.log_sigma
    return {
        "decode": float(spread["decode"]),
        "prefill": float(spread["prefill"]),
        "memory": _log_sigma(memory.activations_bytes, memory.runtime_bytes),
        "power": float(estimate.setup.calibration.power.log_sigma),
    }


def trained_log_sigma(memory: TrainingMemory, speed: TrainingSpeed) -> dict[str, float]:
    """Published spreads of a training run by channel [-]."""
    return {
        "step": _log_sigma(speed.step_s),
        "memory": _log_sigma(
            memory.activations_bytes, memory.logits_bytes, memory.unallocated_bytes
        ),
        "power": float(speed.setup.calibration.performance.power.log_sigma),
    }


def corrected_deployment(
    resolved: ResolvedDeployment, corrections: Corrections
) -> ResolvedDeployment:
    """A deployment whose calibration is corrected."""
    calibration = resolved.calibration.corrected(resolved.serving.release, corrections)
    return replace(resolved, calibration=calibration)


def corrected_training(resolved: ResolvedTraining, corrections: Corrections) -> ResolvedTraining:
    """A training run whose calibrations are corrected."""
    overheads = resolved.overheads.corrected(resolved.setup.settings.release, corrections.memory)
    return replace(resolved, overheads=overheads, corrections=corrections)


def nudged(channels: Iterable[str]) -> dict[str, Corrections]:
    """Corrections that move one channel each, by the channel."""
    return {
        channel: replace(NO_CORRECTIONS, **{channel: Correction(ratio=exp(_NUDGE))})
        for channel in channels
    }


def observed(
    measured: Mapping[str, float],
    published: Callable[[str], Interval],
    moved: Mapping[str, Callable[[str], Interval]],
) -> tuple[Observation, ...]:
    """Measured figures beside their estimates, with how far each follows the channels.

    Parameters
    ----------
    measured
        Figures by quantity.
    published
        Reads the estimate of a quantity.
    moved
        Read the same where one channel is nudged, by channel.
    """
    found = []
    for quantity, value in measured.items():
        if quantity in _NOT_LEARNT:
            continue
        try:
            estimate = float(published(quantity).value)
            others = {name: float(read(quantity).value) for name, read in moved.items()}
        except NotEstimated:
            continue
        if estimate <= 0.0 or min(others.values()) <= 0.0:
            continue
        found.append(
            Observation(
                quantity,
                log(value / estimate),
                {
                    name: round(log(other / estimate) / _NUDGE, _DECIMALS)
                    for name, other in others.items()
                },
            )
        )
    return tuple(found)


def _log_sigma(*parts: Interval) -> float:
    """Spread of the logarithm of a sum of figures [-]."""
    whole = independent_sum(parts)
    if whole.low <= 0.0:
        return 0.0
    return float(log(whole.high / whole.low)) / (2.0 * Z_90)
