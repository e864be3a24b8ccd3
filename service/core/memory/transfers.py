"""How long bytes take over a link or out of a memory, alone or beside the traffic of others."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.elementwise import Number, minimum
from service.core.explanation import Formula
from service.core.interval import Interval, exact, scale
from service.core.memory.tiers import shared_bandwidth

#: Share of time from which on waiting grows without end; callers stay below.
MOST_UTILISATION_RATIO = 0.95
_BITS_PER_BYTE = 8.0
_JOULES_PER_PICOJOULE = 1e-12
_BYTES_PER_GB = 1e9

#: Paths start at a ``Transfer``.
TRANSFER = (
    Formula(
        "Latency under load",
        "idle_latency_s * (1 + utilisation_ratio / (2 * (1 - utilisation_ratio)))",
        "Wait of an M/D/1 queue in units of the service time (Pollaczek, 1930; Khinchine, 1932)",
        "latency_s",
        unit="s",
    ),
    Formula(
        "Time of a transfer",
        "latency_s + bytes / bandwidth_bytes_per_s",
        "definition",
        "transfer_s",
        unit="s",
    ),
)


@dataclass(frozen=True, slots=True)
class Load:
    """What else goes over the same way.

    ``efficiency_ratio`` is the share of peak bandwidth that is reached, ``utilisation_ratio`` the
    share of time that others take, ``users`` how many share the source at the same time, and
    ``outstanding`` accesses of ``access_bytes`` are in flight where data is not streamed.
    """

    efficiency_ratio: Number = 1.0
    utilisation_ratio: Number = 0.0
    users: Number = 1.0
    access_bytes: Number | None = None
    outstanding: Number = 1.0


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes on their way: the bandwidth that is left for them, latency, and time.

    Latency is None where nobody states it; then the time is that of the bandwidth alone.
    """

    bytes: Number
    bandwidth_bytes_per_s: Interval
    latency_s: Interval | None
    transfer_s: Interval


def loaded_latency_s(idle_s: Interval, utilisation_ratio: Number) -> Interval:
    """Latency beside the traffic of others, ``L0·(1 + ρ/(2(1 − ρ)))`` [s].

    Parameters
    ----------
    idle_s
        Latency without other traffic [s].
    utilisation_ratio
        Share of time that others take, below `MOST_UTILISATION_RATIO` [-].
    """
    return scale(idle_s, 1.0 + utilisation_ratio / (2.0 * (1.0 - utilisation_ratio)))


def transfer(
    size_bytes: Number,
    peak_bytes_per_s: Number,
    idle_latency_s: Interval | None,
    load: Load,
    link_bytes_per_s: Number | None = None,
) -> Transfer:
    """Time that bytes take over a link or out of a memory.

    Parameters
    ----------
    size_bytes
        Bytes to move [B].
    peak_bytes_per_s, idle_latency_s
        Peak bandwidth of one direction [B/s] and latency without traffic [s].
    load
        What else goes over the same way.
    link_bytes_per_s
        What each user's own link carries [B/s]; None where nothing limits it.
    """
    usable = peak_bytes_per_s * load.efficiency_ratio
    link = usable if link_bytes_per_s is None else link_bytes_per_s * load.efficiency_ratio
    share = shared_bandwidth(usable, load.users, link) * (1.0 - load.utilisation_ratio)
    latency = None
    if idle_latency_s is not None:
        latency = loaded_latency_s(idle_latency_s, load.utilisation_ratio)
    bandwidth = exact(share)
    if load.access_bytes is not None and latency is not None:
        in_flight = load.outstanding * load.access_bytes
        ends = (latency.value, latency.high, latency.low)
        bandwidth = Interval(*(minimum(share, in_flight / end) for end in ends))
    moving = (bandwidth.value, bandwidth.high, bandwidth.low)
    first = exact(0.0) if latency is None else latency
    waits = (first.value, first.low, first.high)
    times = (wait + size_bytes / rate for wait, rate in zip(waits, moving, strict=True))
    return Transfer(size_bytes, bandwidth, latency, Interval(*times))


def transfer_energy_j(size_bytes: Number, energy_pj_per_bit: Interval) -> Interval:
    """Energy of moving bytes in or out of a memory [J]."""
    return scale(energy_pj_per_bit, size_bytes * _BITS_PER_BYTE * _JOULES_PER_PICOJOULE)


def of_size(per_gb: Interval, size_bytes: Number) -> Interval:
    """What so many bytes of memory cost or emit in the making, from a figure per gigabyte."""
    return scale(per_gb, size_bytes / _BYTES_PER_GB)
