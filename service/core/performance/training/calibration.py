"""Measured efficiencies of training, per framework and hardware family."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from service.core.elementwise import Number
from service.core.figures import Figures, from_figures
from service.core.learning import Corrections
from service.core.performance.calibration import (
    EngineOverhead,
    HardwareEfficiency,
    PerformanceCalibration,
    PowerModel,
    matrix_ratios,
)
from service.core.performance.spread import NO_WIDENING, Widening
from service.core.stacking import FIGURE

#: What narrowing an operand moves where nothing tells: read in 16 bit for its largest value, read
#: again, and written as it is and transposed.
#: Source: NVIDIA, Transformer Engine user guide, FP8 primer, 2024 (casts and transposes).
_CAST_BYTES = 6.0
#: What unpacking an element moves where nothing tells: shifted, masked and scaled by one kernel
#: after the other, each of which writes 16 or 32 bit.
#: Source: AutoGPTQ, qlinear_cuda.py, 2023 (the path that trains).
_UNPACKED_BYTES = 20.0


@dataclass(frozen=True, slots=True)
class TrainingCalibration:
    """What training reaches of a datasheet, and the time a framework adds.

    ``performance`` has the shares of peak that matrix products, attention and messages reach;
    its engine's times are those of training: ``step_s`` once an optimizer step, ``layer_s`` to
    issue the kernels of a layer's forward pass, beside which the accelerator works.
    ``elementwise_passes`` is how often elementwise kernels of the forward and backward pass move
    what the forward pass keeps. ``tensor_overlap_ratio`` is the share of messages among
    tensor-parallel ranks, ``data_overlap_ratio`` the share of computation behind which gradients
    and gathered weights hide. ``sharded_layer_s`` is what gathering a layer's fully sharded
    weights adds to ``layer_s``; ``routing_s`` what choosing experts, sorting tokens and waiting
    for their counts takes in a layer's pass; ``expert_kernel_s`` how long the host takes to
    issue a kernel that each expert of a rank has for itself; ``dequantised_bytes`` what turning an
    element of a quantised base into 16 bit moves [B], ``unpacked_bytes`` the same of formats that
    pack elements of several rows into a word, as GPTQ does, and ``cast_bytes`` what narrowing an
    operand of a product to 8 or fewer bits does, forward and backward. ``scaled_sums_ratio`` is how
    fast 8-bit products are that scale their sums, beside others. ``score_features`` is for how many
    features of a head a score's exponential and sums take as long as its products. ``ring_hop_s``
    is how much longer a ring takes for each machine of eight that it passes. ``log_sigma`` is the
    spread of a step, spent in kernels alone.
    """

    performance: PerformanceCalibration = field(metadata=FIGURE)
    elementwise_passes: Number = field(metadata=FIGURE)
    tensor_overlap_ratio: Number = field(metadata=FIGURE)
    data_overlap_ratio: Number = field(metadata=FIGURE)
    sharded_layer_s: Number = field(metadata=FIGURE)
    routing_s: Number = field(metadata=FIGURE)
    dequantised_bytes: Number = field(metadata=FIGURE)
    log_sigma: float = field(metadata=FIGURE)
    cast_bytes: Number = field(default=_CAST_BYTES, metadata=FIGURE)
    unpacked_bytes: Number = field(default=_UNPACKED_BYTES, metadata=FIGURE)
    scaled_sums_ratio: Number = field(default=1.0, metadata=FIGURE)
    expert_kernel_s: Number = field(default=0.0, metadata=FIGURE)
    score_features: Number = field(default=0.0, metadata=FIGURE)
    ring_hop_s: Number = field(default=0.0, metadata=FIGURE)

    def corrected(self, corrections: Corrections) -> TrainingCalibration:
        """The calibration as own measurements correct it."""
        return replace(self, performance=self.performance.corrected(corrections))


def training_calibration(
    figures: Figures,
    power: PowerModel,
    source: str,
    measured: bool,
    widening: Widening = NO_WIDENING,
    *,
    halved: bool = False,
) -> TrainingCalibration:
    """Efficiencies from figures, and how much less well parts of a step are known.

    Parameters
    ----------
    figures
        Constants by name. ``halved_ratio`` is the share of peak that products reach whose sums in
        32 bit halve the rate of matrix units: nothing else holds these back, and GeForce boards
        clock higher than their datasheets say. Catalogs of earlier releases have none.
    power, source, measured, widening
        The power model, where the figures come from, whether they were measured, and by what times
        are less well known.
    halved
        Whether the hardware multiplies at such a rate.
    """
    ratios = matrix_ratios(figures)
    if halved and "halved_ratio" in figures:
        ratios |= dict.fromkeys((16, 8), figures["halved_ratio"].value)
    log_sigma = figures["step_log_sigma"].value
    hardware = from_figures(
        HardwareEfficiency,
        figures,
        matrix_ratio=ratios,
        attention_memory_ratio=figures["memory_ratio"].value,
        # Long products hide their own loads; what moves memory alone is counted by itself.
        overlap_ratio=1.0,
        prefill_log_sigma=log_sigma,
        decode_log_sigma=log_sigma,
        throughput_log_sigma=log_sigma,
    )
    engine = from_figures(EngineOverhead, figures, sequence_s=0.0, launch_bound=True)
    return from_figures(
        TrainingCalibration,
        figures,
        performance=PerformanceCalibration(
            hardware, engine, power, source, measured, widening=widening
        ),
        log_sigma=log_sigma,
    )
