"""Picks the measured efficiencies that apply to a deployment from the catalog's calibrations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import EstimateWarning
from service.core.impacts.infrastructure import Infrastructure, infrastructure
from service.core.memory.inference.runtime import (
    RuntimeOverheads,
    engine_fallbacks,
    runtime_overheads,
)
from service.core.performance.calibration import (
    PerformanceCalibration,
    PowerModel,
    engine_overhead,
    hardware_efficiency,
    power_model,
)

_FALLBACK = "default"
_RUNTIME = "memory-runtime/"


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
        Inference engine and hardware family.

    Returns
    -------
    Calibration
        With a warning for each part that had to fall back on figures of other hardware.
    """
    known = snapshot.calibrations
    warnings: list[EstimateWarning] = []
    timed = next(
        name for name in engine_fallbacks(engine) if f"performance/{name}/{_FALLBACK}" in known
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
    runtime_documents = [entry.document for id_, entry in known.items() if id_.startswith(_RUNTIME)]
    runtime = runtime_overheads(runtime_documents)
    figures = known[performance_id].document["figures"]
    return Calibration(
        performance=PerformanceCalibration(
            hardware=hardware_efficiency(figures),
            engine=engine_overhead(figures),
            power=power,
            source=performance_id,
            measured=not warnings,
        ),
        infrastructure=around,
        runtime=runtime,
        entries=(
            performance_id,
            power_id,
            runtime.of(engine).calibration,
            infrastructure_id,
        ),
        warnings=tuple(warnings),
    )


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
    return id_, power_model(snapshot.calibrations[id_].document["figures"], id_), warnings


def infrastructure_of(snapshot: CatalogSnapshot) -> tuple[str, Infrastructure]:
    """What stands around accelerators, with the id of its figures."""
    id_ = "infrastructure/default"
    return id_, infrastructure(snapshot.calibrations[id_].document["figures"])
