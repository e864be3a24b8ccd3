"""Picks the measured efficiencies that apply to a deployment from the catalog's calibrations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from service.catalog.entries.engines import figures_of
from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import FALLBACK_ENGINE
from service.core.explanation import EstimateWarning
from service.core.figures import Figures, from_figures
from service.core.impacts.infrastructure import Infrastructure
from service.core.memory.inference.runtime import CALIBRATIONS, RuntimeOverheads, runtime_overheads
from service.core.performance.calibration import (
    EngineOverhead,
    PerformanceCalibration,
    PowerModel,
    hardware_efficiency,
    power_model,
)

_FALLBACK = "default"

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Calibration:
    """Everything measured that an estimate uses besides the catalog's hardware and regions.

    ``entries`` are the ids of the calibrations used, ``warnings`` say where a fallback was taken.
    """

    performance: PerformanceCalibration
    infrastructure: Infrastructure
    runtime: RuntimeOverheads
    entries: tuple[str, ...]
    warnings: tuple[EstimateWarning, ...]


@lru_cache(maxsize=256)
def calibration(snapshot: CatalogSnapshot, engine: str, family: str) -> Calibration:
    """Calibration of an engine on a hardware family, with documented fallbacks.

    Parameters
    ----------
    snapshot
        The catalog, whose calibrations are read.
    engine, family
        Id of an inference engine, and hardware family.

    Returns
    -------
    Calibration
        With a warning for each part that had to fall back on figures of other hardware.
    """
    known = snapshot.calibrations
    warnings: list[EstimateWarning] = []
    timed, stands_in = next(
        (id_, stands_in)
        for id_, stands_in in figures_of(snapshot.engines[engine].value, snapshot.engines)
        if f"performance/{id_}/{_FALLBACK}" in known
    )
    if stands_in:
        warnings.append(
            EstimateWarning(
                "efficiency_not_measured",
                f"there are no speed measurements of {engine}; those of {timed} are used",
            )
        )
    performance_id = f"performance/{timed}/{family}"
    if performance_id not in known:
        performance_id = f"performance/{timed}/{_FALLBACK}"
        warnings.append(
            EstimateWarning(
                "efficiency_not_measured",
                f"there are no speed measurements of {engine} on {family}; typical efficiencies of "
                "other hardware are used, with a wider interval",
            )
        )
    power_id, power, power_warnings = power_of(snapshot, family)
    warnings += power_warnings
    infrastructure_id, around = infrastructure_of(snapshot)
    runtime = runtime_memory(snapshot)
    figures = known[performance_id].value
    return Calibration(
        performance=PerformanceCalibration(
            hardware=hardware_efficiency(figures),
            engine=from_figures(EngineOverhead, figures),
            power=power,
            source=performance_id,
            measured=not warnings,
        ),
        infrastructure=around,
        runtime=runtime,
        entries=(performance_id, power_id, runtime.of(engine).calibration, infrastructure_id),
        warnings=tuple(warnings),
    )


@lru_cache(maxsize=16)
def runtime_memory(snapshot: CatalogSnapshot) -> RuntimeOverheads:
    """Measured memory of every engine of the catalog; kept for each snapshot."""
    own = runtime_overheads(figures_by_engine(snapshot, CALIBRATIONS)).engines
    return RuntimeOverheads(with_stand_ins(own, snapshot))


def figures_by_engine(snapshot: CatalogSnapshot, prefix: str) -> dict[str, Figures]:
    """Figures of the calibrations whose ids are a prefix and an engine's id."""
    return {
        id_.removeprefix(prefix): entry.value
        for id_, entry in snapshot.calibrations.items()
        if id_.startswith(prefix)
    }


def with_stand_ins(own: Mapping[str, Kept], snapshot: CatalogSnapshot) -> dict[str, Kept]:
    """What is held for some engines, and for every other one what holds for it or stands in."""
    held = dict(own)
    for id_, entry in snapshot.engines.items():
        nearest = (name for name, _ in figures_of(entry.value, snapshot.engines) if name in own)
        held[id_] = own[next(nearest, FALLBACK_ENGINE)]
    return held


def power_of(
    snapshot: CatalogSnapshot, family: str
) -> tuple[str, PowerModel, tuple[EstimateWarning, ...]]:
    """Power model of a hardware family, with its id, and a warning where it is another's."""
    id_ = f"power/{family}"
    warnings: tuple[EstimateWarning, ...] = ()
    if id_ not in snapshot.calibrations:
        id_ = f"power/{_FALLBACK}"
        warnings = (
            EstimateWarning(
                "power_not_measured",
                f"there are no power measurements of {family}; the power draw of other hardware, "
                "as a share of thermal design power, is used, with a wider interval",
            ),
        )
    return id_, power_model(snapshot.calibrations[id_].value, id_), warnings


def infrastructure_of(snapshot: CatalogSnapshot) -> tuple[str, Infrastructure]:
    """What stands around accelerators, with the id of its figures."""
    id_ = "infrastructure/default"
    return id_, from_figures(Infrastructure, snapshot.calibrations[id_].value)
