"""How fast data comes when it is spread over memories of different speed.

What counts is not what is stored in a tier but what of it is touched in a step: capacity in a slow
tier costs little, traffic to it a lot.

References
----------
Li et al., Pond: CXL-Based Memory Pooling Systems for Cloud Platforms, 2023,
https://arxiv.org/abs/2203.00241; Little, A Proof for the Queuing Formula L = λW, 1961,
https://doi.org/10.1287/opre.9.3.383
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.core.elementwise import Number, maximum, minimum
from service.core.interval import Interval

#: Stands for no time where something is divided by it [s].
_LEAST_S = 1e-300


@dataclass(frozen=True, slots=True)
class MemoryTier:
    """A kind of memory as the computation sees it, for one unit of it (stack, socket, drive).

    ``kind`` says where it sits: on-chip, device, host, expansion, pool, storage,
    processing-in-memory or compute-in-memory. Unknown figures are None. ``usual_capacity_bytes`` is
    what it is built with where nobody says, at most ``capacity_bytes``. ``kernel_speedup_ratio``
    and ``memory_bound_time_ratio`` are those of memory that computes; ``scan_s`` and ``scan_j``
    the time and energy of one search over its whole capacity.
    """

    id: str
    name: str
    kind: str
    bandwidth_bytes_per_s: Number | None = None
    capacity_bytes: Number | None = None
    usual_capacity_bytes: Number | None = None
    latency_s: Interval | None = None
    thermal_design_power_w: Number | None = None
    kernel_speedup_ratio: Interval | None = None
    memory_bound_time_ratio: Interval | None = None
    scan_s: Interval | None = None
    scan_j: Interval | None = None
    density_bits_per_mm2: Number | None = None
    embodied_kgco2e_per_gb: Interval | None = None
    energy_pj_per_bit: Interval | None = None
    price_usd_per_gb: Interval | None = None
    price_over_ddr5_ratio: Interval | None = None


@dataclass(frozen=True, slots=True)
class TierWorth:
    """What a kind of memory costs; None where unknown.

    Its price [USD/GB], its making [kgCO2e/GB], and what a bit that moves takes [pJ].
    """

    price_usd_per_gb: Interval | None = None
    embodied_kgco2e_per_gb: Interval | None = None
    energy_pj_per_bit: Interval | None = None


UNKNOWN_WORTH = TierWorth()


@dataclass(frozen=True, slots=True)
class Interconnect:
    """A link: bandwidth of one direction; least latency and energy of a bit where known."""

    id: str
    name: str
    bandwidth_bytes_per_s: Number
    latency_s: Interval | None
    energy_pj_per_bit: Interval | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes touched in one step in a tier, and the bandwidth at which they come."""

    touched_bytes: Number
    bandwidth_bytes_per_s: Number

    @property
    def time_s(self) -> Number:
        """Time that the tier alone needs [s]."""
        return self.touched_bytes / self.bandwidth_bytes_per_s


def step_time_s(traffic: Sequence[Traffic], overlap_ratio: Number) -> Number:
    """Time to touch everything once [s].

    Parameters
    ----------
    traffic
        What each tier delivers.
    overlap_ratio
        0 when tiers are read one after the other, 1 when all but the slowest are hidden behind
        it by prefetching; linear between [-].
    """
    serial: Number = 0.0
    hidden: Number = 0.0
    for tier in traffic:
        serial = serial + tier.time_s
        hidden = maximum(hidden, tier.time_s)
    return overlap_ratio * hidden + (1.0 - overlap_ratio) * serial


def effective_bandwidth(traffic: Sequence[Traffic], overlap_ratio: Number = 0.0) -> Number:
    """Bandwidth that all tiers together amount to, none where nothing is touched [B/s].

    Without overlap it is the harmonic mean of the bandwidths, weighted by the bytes touched.

    Parameters
    ----------
    traffic
        What each tier delivers.
    overlap_ratio
        As for :func:`step_time_s` [-].
    """
    touched: Number = 0.0
    for tier in traffic:
        touched = touched + tier.touched_bytes
    return touched / maximum(step_time_s(traffic, overlap_ratio), _LEAST_S)


def free_share(fast_bytes_per_s: Number, slow_bytes_per_s: Number) -> Number:
    """Largest share of the traffic that a slow tier can deliver hidden behind a fast one [-].

    Both then finish at the same time, as perfect prefetching allows; the share is of all bytes
    touched in a step.
    """
    return slow_bytes_per_s / (fast_bytes_per_s + slow_bytes_per_s)


def shared_bandwidth(total_bytes_per_s: Number, users: Number, link_bytes_per_s: Number) -> Number:
    """Bandwidth that one of several users of a pool gets through its own link [B/s].

    Parameters
    ----------
    total_bytes_per_s
        What the pool delivers to all of them [B/s].
    users
        Users that read at the same time [-].
    link_bytes_per_s
        What the user's link carries in one direction [B/s].
    """
    return minimum(link_bytes_per_s, total_bytes_per_s / users)


#: What a core copies of pageable memory into the pinned buffers that a link reads [B/s].
_STAGED_BYTES_PER_S = 12e9
#: What a core reads of a mapped file at most, with a fault for every few pages [B/s].
_MAPPED_BYTES_PER_S = 3e9


def copied_in_turn(own_bytes_per_s: Number, link_bytes_per_s: Number, *, mapped: bool) -> Number:
    """Bandwidth at which layers arrive that are copied when they are due, nothing beside [B/s].

    A core copies pageable memory into pinned buffers, and the link reads these; a ``mapped`` file
    is first read into pageable memory. One comes after the other, so that times add up.

    Parameters
    ----------
    own_bytes_per_s
        What the memory, or the drive, delivers [B/s].
    link_bytes_per_s
        What the link carries in one direction [B/s].
    mapped
        Whether it is a drive whose files are mapped.

    References
    ----------
    NVIDIA, How to Optimize Data Transfers in CUDA C/C++, 2012 (staging of pageable memory); NVIDIA
    developer forums, topic 56270, 2017 (8.3 GB/s of large pageable copies); Crotty et al., Are You
    Sure You Want to Use MMAP in Your Database Management System?, CIDR 2022 (sequential reads of
    mapped files); Accelerate, hooks.py, 2022 (weights are set on the device before a module's
    forward and taken off after it). Both rates are judged by these, within a factor of 1.6.
    """
    staged: Number = 1.0 / minimum(_STAGED_BYTES_PER_S, own_bytes_per_s) + 1.0 / link_bytes_per_s
    if mapped:
        read = minimum(_MAPPED_BYTES_PER_S, own_bytes_per_s)
        staged = 1.0 / _STAGED_BYTES_PER_S + 1.0 / link_bytes_per_s + 1.0 / read
    return 1.0 / staged
