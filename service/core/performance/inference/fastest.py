"""The fastest that decoding can be, whatever kernels reach."""

from __future__ import annotations

from service.core.deployment import Deployment
from service.core.elementwise import Number, maximum, minimum, where
from service.core.interval import Interval
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.inference.batching import SteadyState

#: Share of a step's bytes that it moves at least: sizes of checkpoints and caches are known within
#: a few per cent.
_SURE_RATIO = 0.97


def no_faster(
    tpot_s: Interval,
    state: SteadyState,
    deployment: Deployment,
    calibration: PerformanceCalibration,
) -> Interval:
    """Time of a token whose range ends where memory does; the value itself stays [s]."""
    least_s = minimum(fastest_tpot_s(state, deployment, calibration), tpot_s.value)
    return Interval(tpot_s.value, maximum(tpot_s.low, least_s), tpot_s.high)


def fastest_tpot_s(
    state: SteadyState, deployment: Deployment, calibration: PerformanceCalibration
) -> Number:
    """Time of a token in which memory delivers at its peak what a step of decoding reads [s].

    Zero where that is not known: which experts tokens choose may spare some, and what lies outside
    the accelerator comes by links whose rate is an estimate.

    References
    ----------
    Williams, Waterman, Patterson, Roofline, 2009, https://doi.org/10.1145/1498765.1498785.
    """
    if deployment.architecture.routes:
        return 0.0
    step = state.decode
    peak_s = step.memory_bytes / deployment.accelerator.memory_bandwidth_bytes_per_s
    # Several tokens of one step share what it reads; prompts of others only add to it.
    spent_s = minimum(step.total_s, state.tpot_s)
    known_s = _SURE_RATIO * minimum(peak_s / step.total_s, 1.0) * spent_s
    return where(calibration.outside_ratio == 0.0, known_s, 0.0)
