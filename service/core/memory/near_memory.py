"""Memory that is part of the processor, and memory that computes by itself."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.elementwise import Number, ceil
from service.core.explanation import Formula
from service.core.interval import Interval, scale

#: Paths start at chips that hold everything.
ON_CHIP = (
    Formula(
        "Chips that hold everything",
        "ceil(held_bytes / room_bytes)",
        "Abts et al., Think Fast: A Tensor Streaming Processor, 2020 (no external memory)",
        "chips",
        unit="chip",
    ),
    Formula(
        "Least time of a decoding step",
        "held_bytes / chips / bandwidth_bytes_per_s + (chips - 1) * hop_s",
        "Every chip reads what it holds once",
        "step_s",
    ),
)
#: Paths start at memory that speeds up a share of decoding.
IN_MEMORY = (
    Formula(
        "Speed-up of decoding",
        "1 / (1 - memory_bound_time_ratio + memory_bound_time_ratio / kernel_speedup_ratio)",
        "Amdahl, 1967, https://doi.org/10.1145/1465482.1465560",
        "decode_speedup_ratio",
        unit="-",
    ),
)
#: Paths start at memory that compares what it holds.
SEARCH = (
    Formula(
        "Search through memory that compares",
        "scan_s * stored_bytes / array_bytes",
        "In proportion to size; see the tier's source",
        "search_s",
    ),
)


def chips_needed(stored_bytes: Number, bytes_per_chip: Number) -> Number:
    """Chips without external memory over which a model is spread [-].

    Parameters
    ----------
    stored_bytes
        Weights, caches and programs together [B].
    bytes_per_chip
        On-chip memory of one of them [B].
    """
    return ceil(stored_bytes / bytes_per_chip)


def on_chip_step_s(
    stored_bytes: Number, chips: Number, bandwidth_bytes_per_s: Number, hop_s: Number
) -> Number:
    """Least time of a decoding step over chips that each read what they hold once [s].

    Parameters
    ----------
    stored_bytes
        Bytes read, divided evenly [B].
    chips
        Chips that work at the same time [-].
    bandwidth_bytes_per_s
        On-chip bandwidth of one of them [B/s].
    hop_s
        Time from one chip to the next; a token passes all of them [s].
    """
    return stored_bytes / chips / bandwidth_bytes_per_s + (chips - 1.0) * hop_s


def amdahl_speedup(accelerated_time_ratio: Number, kernel_speedup_ratio: Number) -> Number:
    """Speed-up of a whole from that of a part [-].

    Parameters
    ----------
    accelerated_time_ratio
        Share of the time that the part takes before it is accelerated [-].
    kernel_speedup_ratio
        How many times faster the part becomes [-].

    References
    ----------
    Amdahl, Validity of the single processor approach to achieving large scale computing
    capabilities, 1967, https://doi.org/10.1145/1465482.1465560
    """
    return 1.0 / (1.0 - accelerated_time_ratio + accelerated_time_ratio / kernel_speedup_ratio)


def memory_bound_time_ratio(
    step_bytes: Number,
    bandwidth_bytes_per_s: Number,
    step_flops: Number,
    flops_per_s: Number,
) -> Number:
    """Share of a decode step's time that memory takes, where reading and computing take turns [-].

    It falls as more sequences share the weights that are read.

    Parameters
    ----------
    step_bytes, bandwidth_bytes_per_s
        Weights and caches read in a step [B], and the bandwidth [B/s].
    step_flops, flops_per_s
        Operations of the step [FLOP], and the peak [FLOP/s].
    """
    reading_s = step_bytes / bandwidth_bytes_per_s
    return reading_s / (reading_s + step_flops / flops_per_s)


def processing_in_memory_speedup(accelerated_time: Interval, kernel_speedup: Interval) -> Interval:
    """As :func:`amdahl_speedup`, for a share and a speed-up that are known within bounds.

    It grows with both, so its bounds are those of both together.
    """
    return Interval(
        amdahl_speedup(accelerated_time.value, kernel_speedup.value),
        amdahl_speedup(accelerated_time.low, kernel_speedup.low),
        amdahl_speedup(accelerated_time.high, kernel_speedup.high),
    )


@dataclass(frozen=True, slots=True)
class InMemorySearch:
    """One search through memory that compares while it reads: time, energy and silicon."""

    time_s: Interval
    energy_j: Interval
    area_mm2: Number


def in_memory_search(
    stored_bytes: Number,
    array_bytes: Number,
    array_scan_s: Interval,
    array_scan_j: Interval,
    density_bits_per_mm2: Number,
) -> InMemorySearch:
    """One search through embeddings held in memory that computes, scaled from a smaller array.

    Parameters
    ----------
    stored_bytes
        Embeddings to search [B].
    array_bytes
        Size of the array that was measured or simulated [B].
    array_scan_s, array_scan_j
        Time [s] and energy [J] of one search over that array.
    density_bits_per_mm2
        Bits that a square millimetre holds [bit/mm²].

    Returns
    -------
    InMemorySearch
        In proportion to size: arrays of larger stores are searched one after the other.
    """
    arrays = stored_bytes / array_bytes
    return InMemorySearch(
        time_s=scale(array_scan_s, arrays),
        energy_j=scale(array_scan_j, arrays),
        area_mm2=8.0 * stored_bytes / density_bits_per_mm2,
    )
