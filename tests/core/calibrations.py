"""Figures of the packaged calibrations, as the core takes them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from service.core.memory.inference.runtime import RuntimeOverheads
from service.core.memory.training.runtime import TrainingOverheads
from service.estimation.overheads import runtime_memory
from service.estimation.training.overheads import training_memory_overheads
from tests.conftest import packaged_catalog

CALIBRATION = Path(__file__).parents[2] / "hardware_catalog" / "calibration"


@cache
def packaged_overheads() -> RuntimeOverheads:
    """Runtime memory of the packaged engines."""
    return runtime_memory(packaged_catalog())


@cache
def packaged_training_overheads() -> TrainingOverheads:
    """Runtime memory of the packaged training frameworks."""
    return training_memory_overheads(packaged_catalog())
