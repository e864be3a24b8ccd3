"""Memory that training frameworks take beside what follows from shapes, from the calibrations.

What a framework does stands in ``memory-training/framework``, its class and the frameworks that it
is like saying what is otherwise than usual; how much it takes is fitted at levels. What the driver
holds is the same as for inference.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot

from service.catalog.derived import derived
from service.catalog.entries.engines import kin_of, releases_of
from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import FALLBACK_ENGINE, engine_of_release
from service.core.figures import Figures, from_figures
from service.core.interval import Interval, exact, from_log_sigma
from service.core.memory.training.runtime import CALIBRATIONS, FrameworkRuntime, TrainingOverheads
from service.estimation.levels import (
    MEMORY,
    MEMORY_SPREAD,
    TRAINING_MEMORY,
    TRAINING_MEMORY_SPREAD,
    UNSTATED_FRAMEWORK,
    Held,
    Keys,
    engine_keys,
    held,
    unmeasured,
)

_SIZES, _OVERHEADS, _DRIVER = "size_log_sigma", "overhead_log_sigma", "driver_log_sigma"
#: Spread of activations, which follow from shapes as overheads do not. Revisions of earlier
#: releases have one spread for both.
_ACTIVATIONS, _OF_ACTIVATIONS = "activation_log_sigma", "activation_ratio"
_OF_DRIVER = "memory/driver"
#: Whether measurements bear out what is stated of a framework, and what else runs are off by of
#: which there are none.
_COMPARED, _UNMEASURED = "compared", "unmeasured_log_sigma"


@derived()
def training_memory_overheads(snapshot: CatalogSnapshot) -> TrainingOverheads:
    """Runtime memory of every framework and release of the catalog; kept for each snapshot."""
    return TrainingOverheads(
        {
            key: _runtime(snapshot, key)
            for key in (FALLBACK_ENGINE, *releases_of(snapshot.engines, "training"))
        }
    )


@derived(most=512)
def training_memory_entries(snapshot: CatalogSnapshot, release: str) -> tuple[str, ...]:
    """Ids of the calibrations that the runtime memory of a release comes from, the main one first.

    That is the narrowest one that was fitted; of revisions without any, what is stated.
    """
    stated = tuple(f"{CALIBRATIONS}{name}" for name in _stated(snapshot, release))
    levels = _level(snapshot, release).entries
    if not levels:
        return stated[:1]
    others = (*_driver(snapshot).entries, *_spread(snapshot, release).entries, *stated)
    return (*reversed(levels), *others)


@derived(most=512)
def measured_framework(snapshot: CatalogSnapshot, release: str) -> str | None:
    """The framework whose memory measurements hold for a release; None for those of others.

    Figures of all frameworks, or of all of a class, are those of others.
    """
    level = _level(snapshot, release)
    if not level.entries:
        first = _stated(snapshot, release)[0]
        return None if first == FALLBACK_ENGINE else engine_of_release(first)
    names = {id_.removeprefix(f"{level.part}/") for id_ in level.entries}
    return next((name for name in _kin(snapshot, release) if name in names), None)


def _runtime(snapshot: CatalogSnapshot, release: str) -> FrameworkRuntime:
    names = _stated(snapshot, release)
    stated: dict[str, Interval] = {}
    for name in reversed(names):
        stated |= snapshot.calibrations[f"{CALIBRATIONS}{name}"].value
    compared = bool(stated.get(_COMPARED, exact(1.0)).value) and release != FALLBACK_ENGINE
    figures = dict(_fitted(snapshot, release, compared=compared)) | stated
    entries = training_memory_entries(snapshot, release)
    framework = measured_framework(snapshot, release) or FALLBACK_ENGINE
    return from_figures(FrameworkRuntime, figures, framework=framework, calibration=entries[0])


def _kin(snapshot: CatalogSnapshot, release: str) -> tuple[str, ...]:
    if engine_of_release(release) not in snapshot.engines:
        return ()
    return tuple(name for name, _ in kin_of(release, snapshot.engines))


def _stated(snapshot: CatalogSnapshot, release: str) -> tuple[str, ...]:
    """Whose stated figures hold for a release, the nearest first and those of any last."""
    engine = snapshot.engines.get(engine_of_release(release))
    classes = () if engine is None else (engine.value.classes.get("training", FALLBACK_ENGINE),)
    names = dict.fromkeys((*_kin(snapshot, release), *classes, FALLBACK_ENGINE))
    return tuple(name for name in names if f"{CALIBRATIONS}{name}" in snapshot.calibrations)


def _keys(snapshot: CatalogSnapshot, release: str) -> Keys:
    entry = snapshot.engines.get(engine_of_release(release))
    trains = entry is not None and "training" in entry.value.classes
    if not trains or release == FALLBACK_ENGINE:
        return {}
    return engine_keys(release, snapshot.engines, "training")


def _level(snapshot: CatalogSnapshot, release: str) -> Held:
    ((part, kinds),) = TRAINING_MEMORY.items()
    return held(snapshot, part, kinds, _keys(snapshot, release))


def _spread(snapshot: CatalogSnapshot, release: str) -> Held:
    return held(snapshot, TRAINING_MEMORY_SPREAD, ("class",), _keys(snapshot, release))


def _driver(snapshot: CatalogSnapshot) -> Held:
    return held(snapshot, _OF_DRIVER, MEMORY[_OF_DRIVER], {})


def _fitted(snapshot: CatalogSnapshot, release: str, *, compared: bool) -> Mapping[str, Interval]:
    """Fitted figures as wide as estimates of left-out sources are off by them.

    A framework that nobody names, or whose ways were never compared with measurements, may differ
    from what is taken as much as frameworks do from each other, and so may runs of a kind that
    nobody measured.
    """
    level = _level(snapshot, release)
    if not level.entries:
        return {}
    spread = _spread(snapshot, release).figures
    sigma = float(spread[_OVERHEADS].value) if spread else 0.0
    activations = float(spread[_ACTIVATIONS].value) if _ACTIVATIONS in spread else sigma
    sizes = float(spread[_SIZES].value) if _SIZES in spread else 0.0
    apart = float(spread[UNSTATED_FRAMEWORK].value) if UNSTATED_FRAMEWORK in spread else 0.0
    if not compared:
        sizes, activations, apart = hypot(sizes, apart), hypot(activations, apart), 0.0
    kinds = level.missing or (() if _keys(snapshot, release) else ("class", "engine"))
    wider = [
        float(spread[name].value)
        for kind in kinds
        if (name := unmeasured(level.part, kind)) in spread
    ]
    of_driver = held(snapshot, MEMORY_SPREAD, (), {}).figures.get(_DRIVER, exact(0.0))
    found = _widened(_driver(snapshot).figures, float(of_driver.value))
    found |= _widened(level.figures, hypot(sigma, *wider))
    if _OF_ACTIVATIONS in found:
        known = level.figures[_OF_ACTIVATIONS].value
        found[_OF_ACTIVATIONS] = from_log_sigma(known, hypot(activations, *wider))
    return found | ({_SIZES: exact(sizes), _UNMEASURED: exact(apart)} if _SIZES in spread else {})


def _widened(figures: Figures, log_sigma: float) -> dict[str, Interval]:
    return {name: from_log_sigma(figure.value, log_sigma) for name, figure in figures.items()}
