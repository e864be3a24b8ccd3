"""Measured efficiencies of training, per framework and hardware family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service.core.elementwise import Number
from service.core.performance.calibration import (
    EngineOverhead,
    HardwareEfficiency,
    PerformanceCalibration,
    PowerModel,
)
from service.core.stacking import FIGURE


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
    for their counts takes in a layer's pass; ``dequantised_bytes`` what turning an element of a
    quantised base into 16 bit moves [B]. ``log_sigma`` is the spread of the residuals.
    """

    performance: PerformanceCalibration = field(metadata=FIGURE)
    elementwise_passes: Number = field(metadata=FIGURE)
    tensor_overlap_ratio: Number = field(metadata=FIGURE)
    data_overlap_ratio: Number = field(metadata=FIGURE)
    sharded_layer_s: Number = field(metadata=FIGURE)
    routing_s: Number = field(metadata=FIGURE)
    dequantised_bytes: Number = field(metadata=FIGURE)
    log_sigma: float = field(metadata=FIGURE)


def training_calibration(
    figures: Mapping[str, Any], power: PowerModel, source: str, measured: bool
) -> TrainingCalibration:
    """Read efficiencies from plain figures ``{name: {"value": …}}``.

    Parameters
    ----------
    figures
        Figures of a calibration entry.
    power
        Power model of the hardware family.
    source
        Id of the entry.
    measured
        Whether it was fitted to measurements of that framework on that hardware family.
    """

    def value(name: str) -> Any:
        return figures[name]["value"]

    hardware = HardwareEfficiency(
        matrix_ratio={
            32: value("matrix_32bit_ratio"),
            16: value("matrix_16bit_ratio"),
            8: value("matrix_8bit_ratio"),
            4: value("matrix_4bit_ratio"),
        },
        memory_ratio=value("memory_ratio"),
        attention_matrix_ratio=value("attention_matrix_ratio"),
        attention_memory_ratio=value("memory_ratio"),
        # Long products hide their own loads; what moves memory alone is counted by itself.
        overlap_ratio=1.0,
        tile_rows=value("tile_rows"),
        expert_ratio=value("expert_ratio"),
        link_ratio=value("link_ratio"),
        prefill_log_sigma=value("step_log_sigma"),
        decode_log_sigma=value("step_log_sigma"),
    )
    engine = EngineOverhead(
        step_s=value("step_s"),
        layer_s=value("layer_s"),
        sequence_s=0.0,
        collective_s=value("collective_s"),
        launch_bound=True,
    )
    return TrainingCalibration(
        performance=PerformanceCalibration(hardware, engine, power, source, measured),
        elementwise_passes=value("elementwise_passes"),
        tensor_overlap_ratio=value("tensor_overlap_ratio"),
        data_overlap_ratio=value("data_overlap_ratio"),
        sharded_layer_s=value("sharded_layer_s"),
        routing_s=value("routing_s"),
        dequantised_bytes=value("dequantised_bytes"),
        log_sigma=value("step_log_sigma"),
    )
