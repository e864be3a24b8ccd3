"""Measured efficiencies that turn peak rates into achieved ones.

Each set belongs to a hardware family and an engine, never to a model, and carries the spread of
its residuals, from which the intervals of latencies and powers come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from service.core.elementwise import Number
from service.core.stacking import ALIKE, FIGURE, NAME


@dataclass(frozen=True, slots=True)
class HardwareEfficiency:
    """What a hardware family reaches of its datasheet.

    ``matrix_ratio`` is the share of dense peak that large matrix products reach, by operand width
    in bits; ``memory_ratio`` the share of peak bandwidth that streaming reads reach;
    ``attention_matrix_ratio`` and ``attention_memory_ratio`` are the same for attention kernels;
    ``overlap_ratio`` how much of the shorter of compute and memory time hides behind the longer;
    ``tile_rows`` the rows by which a matrix product's height is effectively padded;
    ``expert_ratio`` how fast grouped products of routed experts are beside dense ones of the same
    work, routing and permutation included;
    ``link_ratio`` the share of link bandwidth that collectives reach; ``dequantised_ratio`` how
    fast products are that widen their weights first beside those that need not;
    ``matrix_flops_per_joule`` is what matrix products of 16-bit operands reach for each watt of
    thermal design power at most, because clocks fall when that power is drawn: infinite where
    nothing tells. Narrower operands reach in proportion more.
    """

    matrix_ratio: Mapping[int, float] = field(metadata=FIGURE)
    memory_ratio: float = field(metadata=FIGURE)
    attention_matrix_ratio: float = field(metadata=FIGURE)
    attention_memory_ratio: float = field(metadata=FIGURE)
    overlap_ratio: float = field(metadata=FIGURE)
    tile_rows: float = field(metadata=FIGURE)
    expert_ratio: float = field(metadata=FIGURE)
    link_ratio: float = field(metadata=FIGURE)
    prefill_log_sigma: float = field(metadata=FIGURE)
    decode_log_sigma: float = field(metadata=FIGURE)
    dequantised_ratio: float = field(default=1.0, metadata=FIGURE)
    matrix_flops_per_joule: float = field(default=inf, metadata=FIGURE)


@dataclass(frozen=True, slots=True)
class EngineOverhead:
    """Time an inference engine adds to the work itself.

    ``step_s`` per scheduler step, ``layer_s`` per layer (kernel launches or graph replay gaps),
    ``sequence_s`` per running sequence and step (scheduling, sampling, detokenising).
    ``launch_bound`` engines issue kernels one by one: their overhead runs beside the accelerator
    and counts only where it is longer than the work. Engines with ``half_accumulation`` add up
    products of 16-bit floats in 16 bit, which some hardware does faster. Of the pipeline stages
    that could work at the same time on parts of a prompt, ``pipelined_ratio`` do so beside the
    first; ``pipelined_log_sigma`` is what that adds to the spread of prompts' times.
    """

    step_s: float = field(metadata=FIGURE)
    layer_s: float = field(metadata=FIGURE)
    sequence_s: float = field(metadata=FIGURE)
    collective_s: float = field(metadata=FIGURE)
    launch_bound: bool = field(metadata=ALIKE)
    half_accumulation: bool = field(default=False, metadata=ALIKE)
    pipelined_ratio: float = field(default=1.0, metadata=FIGURE)
    pipelined_log_sigma: float = field(default=0.0, metadata=FIGURE)

    def stages_at_work(self, pipeline: int) -> Number:
        """Pipeline stages that work at the same time on parts of prompts [-]."""
        return 1.0 + self.pipelined_ratio * (pipeline - 1)


@dataclass(frozen=True, slots=True)
class PowerModel:
    """Share of the span between idle and thermal design power that work draws.

    ``resident_ratio`` is drawn as long as requests are in flight, clocks up and a model in memory;
    ``active_ratio`` in proportion to the time in which kernels run; ``memory_ratio`` and
    ``compute_ratio`` to the shares of peak bandwidth and of peak FLOP/s in use.
    """

    active_ratio: float = field(metadata=FIGURE)
    memory_ratio: float = field(metadata=FIGURE)
    compute_ratio: float = field(metadata=FIGURE)
    log_sigma: float = field(metadata=FIGURE)
    resident_ratio: float = field(default=0.0, metadata=FIGURE)
    source: str = field(default="", metadata=NAME)


@dataclass(frozen=True, slots=True)
class PerformanceCalibration:
    """The efficiencies that apply to one deployment, and where they come from."""

    hardware: HardwareEfficiency = field(metadata=FIGURE)
    engine: EngineOverhead = field(metadata=FIGURE)
    power: PowerModel = field(metadata=FIGURE)
    source: str = field(metadata=NAME)
    measured: bool = field(metadata=FIGURE)

    def prefill_log_sigma(self, pipeline: int) -> float:
        """Spread of the time of prompts through a number of pipeline stages [-]."""
        added = self.engine.pipelined_log_sigma if pipeline > 1 else 0.0
        spread: float = (self.hardware.prefill_log_sigma**2 + added**2) ** 0.5
        return spread


def hardware_efficiency(figures: Mapping[str, Any]) -> HardwareEfficiency:
    """Read a hardware family's efficiencies from plain figures ``{name: {"value": …}}``."""
    return HardwareEfficiency(
        matrix_ratio={
            32: figures["matrix_32bit_ratio"]["value"],
            16: figures["matrix_16bit_ratio"]["value"],
            8: figures["matrix_8bit_ratio"]["value"],
            4: figures["matrix_4bit_ratio"]["value"],
        },
        memory_ratio=figures["memory_ratio"]["value"],
        attention_matrix_ratio=figures["attention_matrix_ratio"]["value"],
        attention_memory_ratio=figures["attention_memory_ratio"]["value"],
        overlap_ratio=figures["overlap_ratio"]["value"],
        tile_rows=figures["tile_rows"]["value"],
        expert_ratio=figures["expert_ratio"]["value"],
        link_ratio=figures["link_ratio"]["value"],
        prefill_log_sigma=figures["prefill_log_sigma"]["value"],
        decode_log_sigma=figures["decode_log_sigma"]["value"],
        dequantised_ratio=figures["dequantised_ratio"]["value"]
        if "dequantised_ratio" in figures
        else 1.0,
        matrix_flops_per_joule=figures["matrix_flops_per_joule"]["value"]
        if "matrix_flops_per_joule" in figures
        else inf,
    )


def engine_overhead(figures: Mapping[str, Any]) -> EngineOverhead:
    """Read an engine's overheads from plain figures ``{name: {"value": …}}``."""
    return EngineOverhead(
        step_s=figures["step_s"]["value"],
        layer_s=figures["layer_s"]["value"],
        sequence_s=figures["sequence_s"]["value"],
        collective_s=figures["collective_s"]["value"],
        launch_bound=bool(figures["launch_bound_ratio"]["value"]),
        half_accumulation="half_accumulation_ratio" in figures
        and bool(figures["half_accumulation_ratio"]["value"]),
        pipelined_ratio=figures["pipelined_ratio"]["value"]
        if "pipelined_ratio" in figures
        else 1.0,
        pipelined_log_sigma=figures["pipelined_log_sigma"]["value"]
        if "pipelined_log_sigma" in figures
        else 0.0,
    )


def power_model(figures: Mapping[str, Any], source: str) -> PowerModel:
    """Read a power model from plain figures ``{name: {"value": …}}``, named by where they stand."""
    return PowerModel(
        active_ratio=figures["active_ratio"]["value"],
        memory_ratio=figures["memory_ratio"]["value"],
        compute_ratio=figures["compute_ratio"]["value"],
        log_sigma=figures["power_log_sigma"]["value"],
        resident_ratio=figures["resident_ratio"]["value"],
        source=source,
    )
