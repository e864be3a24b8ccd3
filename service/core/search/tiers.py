"""Memory beyond the accelerator in passes over many configurations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from service.core.deployment import Accelerator
from service.core.elementwise import FloatArray
from service.core.interval import Z_90
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.inference.tiers import Offload, SharedTier, tiered
from service.core.performance.calibration import PerformanceCalibration

#: Bytes that rounding of sums may leave over.
_NOTHING_BYTES = 1e-3


class Surrounded(Protocol):
    """What stands around accelerators, as far as memory goes."""

    @property
    def tiers(self) -> Sequence[SharedTier]:
        """Memory beyond the accelerator's own."""

    @property
    def offload(self) -> Offload:
        """What is moved there whether there is room or not."""


@dataclass(frozen=True, slots=True)
class Tiered:
    """Accelerator and calibration as steps see them, where part of what they read lies outside.

    ``fits`` says where everything has a place, ``spilled`` where a part of it lies outside.
    """

    accelerator: Accelerator
    calibration: PerformanceCalibration
    fits: NDArray[np.bool_]
    spilled: NDArray[np.bool_]


def host_link_bytes_per_s(accelerator: Accelerator) -> float:
    """What an accelerator reads of its host at most; infinite where that is not known [B/s]."""
    known = accelerator.host_link_bandwidth_bytes_per_s
    return np.inf if accelerator.unified_memory or known is None else float(known)


def with_tiers(
    memory: InferenceMemory,
    calibration: PerformanceCalibration,
    accelerators: Sequence[Accelerator],
    times: int,
    replicas: FloatArray,
    around: Surrounded,
) -> Tiered:
    """Place what has no room in the accelerators of a stack in the tiers around them.

    Parameters
    ----------
    memory
        Memory of the stack's configurations, one replica each.
    calibration
        Of the stack.
    accelerators, times
        What was stacked, each so many times; alike in which tier is faster.
    replicas
        How many there are of each configuration [-]: those on one host share what it has.
    around
        The tiers.
    """
    stacked = memory.deployment.accelerator
    domains = np.repeat([one.scale_up_domain_accelerators for one in accelerators], times)
    links = np.repeat([host_link_bytes_per_s(one) for one in accelerators], times)
    ranks = memory.deployment.parallelism.replica_accelerators
    users = np.minimum(replicas * ranks, domains)
    outside = [tier.seen(users, links) for tier in around.tiers]
    fits, held_bytes, bandwidth = tiered(memory, outside, around.offload)
    spread = np.log(bandwidth.high / bandwidth.low) / 2.0 / Z_90
    hardware = calibration.hardware
    wider = replace(
        hardware,
        decode_log_sigma=np.hypot(hardware.decode_log_sigma, spread),
        prefill_log_sigma=np.hypot(hardware.prefill_log_sigma, spread),
    )
    return Tiered(
        accelerator=replace(stacked, memory_bandwidth_bytes_per_s=bandwidth.value),
        calibration=replace(calibration, hardware=wider),
        fits=np.asarray(fits),
        spilled=np.asarray(fits & (held_bytes > _NOTHING_BYTES)),
    )


def with_decode_spread(
    calibration: PerformanceCalibration, log_sigma: float
) -> PerformanceCalibration:
    """The calibration with a further spread of decoding."""
    hardware = calibration.hardware
    sigma = np.hypot(hardware.decode_log_sigma, log_sigma)
    return replace(calibration, hardware=replace(hardware, decode_log_sigma=sigma))
