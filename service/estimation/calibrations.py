"""Picks the measured efficiencies that apply to a deployment from the catalog's calibrations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from service.catalog.entries.engines import figures_of, kin_of
from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import (
    FALLBACK_ENGINE,
    EngineWorkload,
    engine_of_release,
    release_key,
)
from service.core.explanation import EstimateWarning
from service.core.figures import Figures, from_figures
from service.core.impacts.infrastructure import Infrastructure
from service.core.learning import Corrections
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

    def corrected(self, release: str, corrections: Corrections) -> Calibration:
        """The same as own measurements correct it, for a release of an engine."""
        return replace(
            self,
            performance=self.performance.corrected(corrections),
            runtime=self.runtime.corrected(release, corrections.memory),
        )


@lru_cache(maxsize=256)
def calibration(snapshot: CatalogSnapshot, release: str, family: str) -> Calibration:
    """Calibration of an engine's release on a hardware family, with documented fallbacks.

    Parameters
    ----------
    snapshot
        The catalog, whose calibrations are read.
    release, family
        Key of the release of an inference engine, or the engine's id; and hardware family.

    Returns
    -------
    Calibration
        With a warning for each part that had to fall back on figures of other hardware.
    """
    known = snapshot.calibrations
    warnings: list[EstimateWarning] = []
    engine = engine_of_release(release)
    timed, stands_in = next(
        (name, stands_in)
        for name, stands_in in figures_of(release, snapshot.engines, "inference").items()
        if f"performance/{name}/{_FALLBACK}" in known
    )
    if stands_in is not None:
        warnings.append(
            EstimateWarning(
                "efficiency_not_measured",
                f"there are no speed measurements of {engine}; those of {stands_in} are used",
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
        entries=(performance_id, power_id, runtime.of(release).calibration, infrastructure_id),
        warnings=(
            *warnings,
            *_memory_warnings(engine, engine_of_release(runtime.of(release).engine)),
        ),
    )


def _memory_warnings(engine: str, measured: str) -> Iterator[EstimateWarning]:
    """What to say where an engine's memory is that of others."""
    if measured != engine:
        others = "typical overheads of measured engines"
        yield EstimateWarning(
            "overheads_not_measured",
            f"there are no memory measurements of {engine}; "
            f"{others if measured == FALLBACK_ENGINE else f'those of {measured}'} are used",
        )


@lru_cache(maxsize=16)
def runtime_memory(snapshot: CatalogSnapshot) -> RuntimeOverheads:
    """Measured memory of every engine and release of the catalog; kept for each snapshot."""
    own = runtime_overheads(figures_by_release(snapshot, CALIBRATIONS)).engines
    return RuntimeOverheads(with_stand_ins(own, snapshot, "inference"))


def figures_by_release(snapshot: CatalogSnapshot, prefix: str) -> dict[str, Figures]:
    """Figures of the calibrations whose ids are a prefix and the key of a release or an engine.

    What those of a release do not state is as in those of its engine.
    """
    stated = {
        id_.removeprefix(prefix): entry.value
        for id_, entry in snapshot.calibrations.items()
        if id_.startswith(prefix)
    }
    return {key: {**stated.get(engine_of_release(key), {}), **own} for key, own in stated.items()}


def with_stand_ins(
    own: Mapping[str, Kept], snapshot: CatalogSnapshot, workload: EngineWorkload
) -> dict[str, Kept]:
    """What is held for some engines, and for every other one what holds for it or stands in.

    Each engine is there by its id, and by the keys of its releases. What its class has stands in
    after what the engines have that it is like, then what lies between all that were measured.
    """
    held = dict(own)
    for id_, entry in snapshot.engines.items():
        generations = (one.id for one in entry.value.generations)
        for key in (id_, *(release_key(id_, generation) for generation in generations)):
            kin = [name for name, _ in kin_of(key, snapshot.engines)]
            names = (*kin, entry.value.classes.get(workload, FALLBACK_ENGINE))
            held[key] = own[next((name for name in names if name in own), FALLBACK_ENGINE)]
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
