"""Memory that engines take beside what follows from shapes, from the catalog's calibrations.

What an engine does stands in ``memory-runtime/engine``, its generations and the engines that it is
like saying only what is otherwise; how much it takes is fitted at levels, as speed is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import hypot

from service.catalog.derived import derived
from service.catalog.entries.engines import kin_of, releases_of
from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import FALLBACK_ENGINE, engine_of_release
from service.core.figures import Figures, from_figures
from service.core.interval import Interval, exact, from_log_sigma
from service.core.memory.inference.runtime import CALIBRATIONS, EngineRuntime, RuntimeOverheads
from service.core.performance.release_kernels import holds_widened
from service.estimation.levels import (
    MEMORY,
    MEMORY_SPREAD,
    Held,
    Keys,
    engine_keys,
    held,
    unmeasured,
)

_SIZES, _OVERHEADS, _DRIVER = "size_log_sigma", "overhead_log_sigma", "driver_log_sigma"
_WEIGHTS = "weights_log_sigma"
#: What revisions did not state that are older than levels of memory.
_UNSTATED: Figures = {
    "context_bytes": exact(0.0),
    "unified_context_bytes": exact(0.0),
    "workspace_bytes": exact(0.0),
    _SIZES: exact(0.01),
    _WEIGHTS: exact(0.01),
}


@derived()
def runtime_memory(snapshot: CatalogSnapshot) -> RuntimeOverheads:
    """Runtime memory of every engine and release of the catalog; kept for each snapshot."""
    return RuntimeOverheads(
        {
            key: _runtime(snapshot, key)
            for key in (FALLBACK_ENGINE, *releases_of(snapshot.engines, "inference"))
        }
    )


def memory_entries(snapshot: CatalogSnapshot, release: str) -> tuple[str, ...]:
    """Ids of the calibrations that the runtime memory of a release comes from."""
    levels = [id_ for part in _levels(snapshot, release) for id_ in part.entries]
    spread = _spread(snapshot, release)
    told: set[str] = set()
    stated: list[str] = []
    for name in _stated(snapshot, release):
        figures = snapshot.calibrations[f"{CALIBRATIONS}{name}"].value
        if figures.keys() - told:
            stated.append(f"{CALIBRATIONS}{name}")
        told |= figures.keys()
    return (*levels, *spread.entries, *stated)


def _runtime(snapshot: CatalogSnapshot, release: str) -> EngineRuntime:
    names = _stated(snapshot, release)
    stated = [snapshot.calibrations[f"{CALIBRATIONS}{name}"].value for name in names]
    figures: dict[str, Interval] = dict(_UNSTATED)
    figures |= _fitted(snapshot, release)
    for each in reversed(stated):
        figures |= each
    engine = snapshot.engines.get(engine_of_release(release))
    found = from_figures(
        EngineRuntime, figures, engine=names[0], calibration=f"{CALIBRATIONS}{names[0]}"
    )
    return replace(
        found,
        fills_share=engine is not None and engine.value.preallocating,
        holds_widened=holds_widened(release),
    )


def _stated(snapshot: CatalogSnapshot, release: str) -> tuple[str, ...]:
    """Whose figures hold for a release, the nearest first, and those of any engine at last."""
    engine = engine_of_release(release)
    kin = (
        [name for name, _ in kin_of(release, snapshot.engines)]
        if engine in snapshot.engines
        else []
    )
    known = (name for name in kin if f"{CALIBRATIONS}{name}" in snapshot.calibrations)
    return (*known, FALLBACK_ENGINE)


def _levels(snapshot: CatalogSnapshot, release: str) -> tuple[Held, Held]:
    """What was fitted of drivers and of the engine."""
    keys = _keys(snapshot, release)
    driver, engine = (held(snapshot, part, kinds, keys) for part, kinds in MEMORY.items())
    return driver, engine


def _spread(snapshot: CatalogSnapshot, release: str) -> Held:
    return held(snapshot, MEMORY_SPREAD, ("class",), _keys(snapshot, release))


def _keys(snapshot: CatalogSnapshot, release: str) -> Keys:
    """Keys of a release; none for what stands for any engine, where no catalog has it."""
    entry = snapshot.engines.get(engine_of_release(release))
    serves = entry is not None and "inference" in entry.value.classes
    return engine_keys(release, snapshot.engines) if serves else {}


def _fitted(snapshot: CatalogSnapshot, release: str) -> Mapping[str, Interval]:
    """Fitted figures as wide as estimates of left-out sources are off by them."""
    driver, engine = _levels(snapshot, release)
    if not engine.entries:
        return {}
    spread = _spread(snapshot, release).figures
    sigma = float(spread[_OVERHEADS].value) if spread else 0.0
    wider = [
        float(spread[name].value)
        for kind in engine.missing
        if (name := unmeasured(engine.part, kind)) in spread
    ]
    of_driver = float(spread[_DRIVER].value) if _DRIVER in spread else sigma
    found = _widened(driver.figures, of_driver) | _widened(engine.figures, hypot(sigma, *wider))
    if _SIZES not in spread:
        return found
    # Earlier revisions knew one spread of all sizes.
    return found | {_SIZES: spread[_SIZES], _WEIGHTS: spread.get(_WEIGHTS, spread[_SIZES])}


def _widened(figures: Figures, log_sigma: float) -> dict[str, Interval]:
    return {name: from_log_sigma(figure.value, log_sigma) for name, figure in figures.items()}
