"""Several accelerators as one whose figures are arrays, to evaluate them all in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from service.core.deployment import Accelerator, Link
from service.core.elementwise import FloatArray, Number
from service.core.interval import Interval
from service.core.memory.inference.runtime import SMALL_BATCH_FAMILY
from service.core.performance.calibration import (
    EngineOverhead,
    HardwareEfficiency,
    PerformanceCalibration,
    PowerModel,
)
from service.core.performance.collectives import scale_out
from service.core.performance.step import peak_flops_per_s
from service.core.performance.training.calibration import TrainingCalibration
from service.core.performance.training.traffic import HostRates


def stackable(accelerator: Accelerator, ranks: int, calibration: PerformanceCalibration) -> object:
    """What accelerators must share to be evaluated in one pass over ``ranks`` of each.

    Formulas choose by these before they compute: how far the ranks reach beyond a scale-up domain,
    whether the engine prepares a smaller sampler, whether its kernels are launch-bound, and how
    wide it adds up.
    """
    return (
        min(accelerator.scale_up_domain_accelerators, ranks),
        accelerator.family == SMALL_BATCH_FAMILY,
        calibration.engine.launch_bound,
        calibration.engine.half_accumulation,
    )


def stacked_accelerator(
    accelerators: Sequence[Accelerator], times: int, precisions: Sequence[str]
) -> Accelerator:
    """Accelerators as one, each standing ``times`` times in a row.

    Parameters
    ----------
    accelerators
        Alike as :func:`stackable` says, with known thermal design power.
    times
        How often each is repeated in the arrays.
    precisions
        Matrix precisions whose peaks are needed, each of a different width; those that hardware
        lacks are those of the next wider format that it has.

    Returns
    -------
    Accelerator
        Its figures are arrays of ``len(accelerators) × times`` elements.

    Raises
    ------
    ValueError
        If an accelerator has no peak in one of the precisions or wider.
    """

    def column(read: Callable[[Accelerator], Any]) -> FloatArray:
        return np.repeat([float(read(accelerator)) for accelerator in accelerators], times)

    def link(read: Callable[[Accelerator], Link]) -> Link:
        return Link(
            column(lambda one: read(one).bandwidth_bytes_per_s),
            column(lambda one: read(one).latency_s),
        )

    def peak(precision: str) -> FloatArray:
        return column(lambda one: peak_flops_per_s(one, precision)[0])

    return replace(
        accelerators[0],
        id="stacked",
        memory_bytes=column(lambda one: one.memory_bytes),
        memory_bandwidth_bytes_per_s=column(lambda one: one.memory_bandwidth_bytes_per_s),
        peak_flops_per_s={precision: peak(precision) for precision in precisions},
        scale_up=link(lambda one: one.scale_up),
        scale_out=link(scale_out),
        thermal_design_power_w=column(lambda one: one.thermal_design_power_w),
        idle_power=None,
        embodied_kgco2e=None,
        mass_kg=None,
    )


def stacked_calibration(
    calibrations: Sequence[PerformanceCalibration],
    accelerators: Sequence[Accelerator],
    times: int,
    precisions: Sequence[str],
) -> PerformanceCalibration:
    """Calibrations of the accelerators of a stack, in the same order.

    Efficiencies of matrix products stand under the width of the wanted precision, with the value
    of the width that the hardware computes it in.
    """

    def column(read: Callable[[PerformanceCalibration], float]) -> Number:
        return _column([float(read(one)) for one in calibrations], times)

    def matrix_ratio(precision: str) -> FloatArray:
        return np.repeat(
            [
                one.hardware.matrix_ratio[peak_flops_per_s(accelerator, precision)[1]]
                for one, accelerator in zip(calibrations, accelerators, strict=True)
            ],
            times,
        )

    first = calibrations[0]
    stacked = stacked_accelerator(accelerators, 1, precisions)
    hardware: dict[str, Any] = {
        name: column(lambda one, name=name: getattr(one.hardware, name))  # type: ignore[misc]
        for name in _numbers(HardwareEfficiency)
    }
    engine: dict[str, Any] = {
        name: column(lambda one, name=name: getattr(one.engine, name))  # type: ignore[misc]
        for name in _numbers(EngineOverhead)
    }
    power: dict[str, Any] = {
        name: column(lambda one, name=name: getattr(one.power, name))  # type: ignore[misc]
        for name in _numbers(PowerModel)
    }
    ratios: dict[int, Any] = {
        peak_flops_per_s(stacked, precision)[1]: matrix_ratio(precision) for precision in precisions
    }
    return replace(
        first,
        hardware=replace(
            first.hardware,
            **hardware,
            matrix_ratio=ratios,
        ),
        engine=replace(first.engine, **engine),
        power=replace(first.power, **power),
        source="stacked",
    )


def stacked_training(
    calibrations: Sequence[TrainingCalibration],
    accelerators: Sequence[Accelerator],
    times: int,
    precisions: Sequence[str],
) -> TrainingCalibration:
    """Calibrations of training of the accelerators of a stack, in the same order."""
    performance = stacked_calibration(
        [one.performance for one in calibrations], accelerators, times, precisions
    )
    figures: dict[str, Any] = {
        name: _column([float(getattr(one, name)) for one in calibrations], times)
        for name in (*_numbers(TrainingCalibration, "Number"), "log_sigma")
    }
    return replace(calibrations[0], performance=performance, **figures)


def stacked_hosts(hosts: Sequence[HostRates], times: int) -> HostRates:
    """Bandwidths around the accelerators of a stack, in the same order."""
    return HostRates(
        **{
            name: _column([float(getattr(one, name)) for one in hosts], times)
            for name in _numbers(HostRates, "Number")
        }
    )


def stacked_interval(figures: Sequence[Interval], times: int) -> Interval:
    """Intervals of single accelerators as one of arrays."""
    return Interval(
        *(
            np.repeat([float(getattr(figure, end)) for figure in figures], times)
            for end in ("value", "low", "high")
        )
    )


def _column(figures: Sequence[float], times: int) -> Number:
    """What is the same for all need not be repeated: formulas are faster with a plain number."""
    return figures[0] if len(set(figures)) == 1 else np.repeat(figures, times)


def _numbers(kind: type[Any], of_type: str = "float") -> list[str]:
    return [field.name for field in fields(kind) if field.type == of_type]
