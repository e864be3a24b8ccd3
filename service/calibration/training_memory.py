"""Constants of training memory, fitted together to everything that was measured of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import log, sqrt
from statistics import fmean
from typing import Any, cast

import numpy as np

from service.calibration.documents import CalibrationEntry, rounded
from service.calibration.groups import Group
from service.calibration.hierarchy import Fitted, Keys, Level, Predict, Term
from service.calibration.sizes import (
    STEP,
    SizedPart,
    fit_sizes,
    log_sigma_of,
)
from service.calibration.spread import interval_score
from service.catalog.snapshot import CatalogSnapshot
from service.core.elementwise import FloatArray
from service.core.engines import FALLBACK_ENGINE, engine_of_release
from service.core.interval import Z_90, Interval, exact, from_log_sigma
from service.core.learning import is_implausible
from service.core.memory.training.memory import training_memory
from service.core.memory.training.runtime import TrainingOverheads
from service.estimation.levels import TRAINING_MEMORY_SPREAD, UNSTATED_FRAMEWORK, engine_keys
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.measurable import NotEstimated, Trained
from service.estimation.measurements.quantities import quantity_of
from service.estimation.measurements.views import trained
from service.estimation.rejection import Rejected
from service.estimation.resolution import Problems
from service.estimation.training.overheads import training_memory_overheads
from service.estimation.training.requests import TrainingRequest
from service.estimation.training.resolve import resolve_training

COMMENT = (
    "Memory of training beside what follows from shapes, at the levels that cause it, written by",
    "`./headroom calibrate --write` from published measurements: never per model, never per row.",
    "What frameworks do with it stands in memory_training.yaml; `training-memory/spread` says how",
    "far sizes and overheads are off for sources that constants were fitted without.",
)
_LEVELS = (Level("class", 0.06), Level("engine", 0.08), Level("generation", 0.06))
_LOGITS = (Level("class", 0.03), Level("engine", 0.05), Level("generation", 0.03))

#: Terms of frameworks. Usual values: buffers of NCCL as start-up logs print them, an allocator that
#: reserves a tenth beyond what it hands out, activations by their formula, and logits once in 16
#: bit and twice, with their gradient, in 32.
TERMS: Mapping[str, tuple[Term, ...]] = {
    "training-memory/frameworks": (
        Term("collectives_bytes", 5e8, 1e8, 4e9, 0.15, _LEVELS, logarithmic=True),
        Term("fragmentation_ratio", 0.10, 0.0, 0.6, 0.08, _LEVELS),
        Term("activation_ratio", 1.0, 0.5, 2.0, 0.03, _LEVELS, logarithmic=True),
        Term("bytes_per_logit", 13.0, 6.0, 24.0, 0.05, _LOGITS, logarithmic=True),
    ),
}
ALL_TERMS = tuple(term for terms in TERMS.values() for term in terms)

#: What tensors take, whatever the allocator reserves.
ALLOCATED = frozenset({"allocated_bytes", "allocated_total_bytes"})
#: Quantities of memory that are fitted to, and compared without their source.
QUANTITIES = ALLOCATED | {
    *("reserved_bytes", "reserved_total_bytes"),
    *("process_bytes", "process_total_bytes"),
}
#: Constants of activations, which follow from shapes but for what a framework keeps beside; the
#: others are overheads.
_OF_ACTIVATIONS = frozenset({"activation_ratio"})
#: Share of left-out figures that intervals are to hold.
_COVERED_SHARE = 0.9
#: Spreads that are tried, and how much wider they are made until intervals hold enough. Activations
#: are no surer than other sizes, whatever few rows that have many of them say, and overheads no
#: surer than their priors: a tenth that an allocator reserves is one of five hundredths as well.
_SIZES = np.linspace(0.03, 0.11, 17)
_ACTIVATIONS = np.linspace(0.03, 0.26, 24)
_RATIOS = np.geomspace(1.0, 4.0, 200)
_OVERHEADS = np.linspace(0.4, 0.8, 17)
#: As of inference, but sources of training state less of what they ran.
_WEIGHT = 6.0
_PASSES = 3


@dataclass(frozen=True, slots=True)
class MeasuredTrainingMemory:
    """A measured size [B] with the run that it was measured of; ``keys`` are of its levels."""

    quantity: str
    source: str
    model: str
    measured: float
    assumed: bool
    trained: Trained
    keys: Keys
    document: MeasurementDocument


def measured_training_memory(
    documents: Iterable[MeasurementDocument], snapshot: CatalogSnapshot
) -> list[MeasuredTrainingMemory]:
    """The figures of memory that can be fitted to: those of known settings and sound value."""
    found = []
    for document in documents:
        names = sorted(QUANTITIES.intersection(document.figures))
        if not names or document.confidence == "low" or document.kind != "training":
            continue
        request = cast("TrainingRequest", document.request)
        try:
            resolved = resolve_training(request, snapshot, Problems())
        except Rejected:
            continue
        view = trained(resolved, request, snapshot)
        found += [
            MeasuredTrainingMemory(
                quantity=name,
                source=str(document.source),
                model=resolved.model.id,
                measured=document.figures[name],
                assumed=bool(document.assumed),
                trained=view,
                keys=engine_keys(resolved.setup.settings.release, snapshot.engines, "training"),
                document=document,
            )
            for name in names
            if _is_sound(view, name, document.figures[name])
        ]
    return found


def _is_sound(view: Trained, name: str, measured: float) -> bool:
    try:
        estimate = quantity_of(name, "training").of_trained(view)
    except NotEstimated:
        return False
    return not is_implausible(float(estimate.value), measured)


def fit_training_memory(rows: Sequence[MeasuredTrainingMemory]) -> Fitted:
    """Constants at all levels for which the estimates come closest to what was measured."""
    return fit_sizes(rows, predictor(rows), ALL_TERMS, _WEIGHT)


def predictor(rows: Sequence[MeasuredTrainingMemory]) -> Predict:
    """Log estimates of rows, for constants by row and point."""

    def predict(chosen: Sequence[int], values: Mapping[str, FloatArray]) -> FloatArray:
        logs = np.empty(next(iter(values.values())).shape)
        for at, number in enumerate(chosen):
            own = {name: exact(column[at]) for name, column in values.items()}
            logs[at] = np.log(_read(rows[number], own).value)
        return logs

    return predict


def _read(
    row: MeasuredTrainingMemory, given: Mapping[str, Interval], sizes: float = 0.0
) -> Interval:
    """The estimate of a row by given constants and a spread of sizes."""
    memory = row.trained.memory
    figures: dict[str, Any] = dict(given)
    figures["bytes_per_logit"] = figures["bytes_per_logit"].value
    for name in ("context_bytes", "unified_context_bytes"):
        own = getattr(memory.framework, name)
        if name not in figures and own is not None:
            figures[name] = exact(own.value)
    framework = replace(memory.framework, size_log_sigma=sizes, **figures)
    found = training_memory(
        memory.deployment,
        row.trained.speed.setup.micro_batch,
        replace(memory.settings, left_open=()),
        TrainingOverheads({memory.settings.release: framework}),
    )
    view = replace(row.trained, memory=found)
    return quantity_of(row.quantity, "training").of_trained(view)


@dataclass(frozen=True, kw_only=True)
class TrainingMemoryPart(SizedPart):
    """Constants whose spread is that of sizes, of activations and of overheads."""

    rows: Sequence[MeasuredTrainingMemory]

    def spreads(self, without: Group | None = None) -> list[CalibrationEntry]:
        """The spreads, with what it adds to that of all to say nothing of the framework."""
        first, *others = super().spreads(without)
        apart = {UNSTATED_FRAMEWORK: rounded(self._frameworks_apart(without))}
        return [replace(first, figures={**first.figures, **apart}), *others]

    def _frameworks_apart(self, without: Group | None) -> float:
        """Root mean square of what sizes of frameworks differ from those of any framework [-].

        Logarithms of sizes by the framework over those of the same recipe by none, averaged over
        the rows of each framework.
        """
        shifts: dict[str, list[float]] = {}
        runtime = training_memory_overheads(self.snapshot).of(FALLBACK_ENGINE)
        anyones = {name: exact(value) for name, value in self.fitted.values({}).items()}
        for row in self.rows:
            memory = row.trained.memory
            framework = engine_of_release(memory.settings.release)
            if framework == FALLBACK_ENGINE or (without is not None and without.holds(row)):
                continue
            unstated = replace(
                memory,
                deployment=row.trained.speed.setup.deployment,
                framework=runtime,
                settings=replace(
                    memory.settings,
                    framework=FALLBACK_ENGINE,
                    framework_version=None,
                    framework_generation=None,
                ),
            )
            own = {name: exact(one) for name, one in self.fitted.values(row.keys).items()}
            anyone = replace(row, trained=replace(row.trained, memory=unstated))
            shift = log(_read(row, own).value / _read(anyone, anyones).value)
            shifts.setdefault(framework, []).append(shift)
        means = [fmean(found) for found in shifts.values()]
        return sqrt(fmean(mean * mean for mean in means)) if means else 0.0

    def spread_of_errors(
        self,
        _numbers: Sequence[int],
        errors: FloatArray,
        shares: FloatArray,
        weights: FloatArray,
        _besides: Mapping[str, float],
    ) -> tuple[dict[str, float], FloatArray]:
        """Spreads whose intervals have the best score, and hold enough.

        The narrowest intervals that hold enough take of two spreads the one that few rows depend
        on to be large and the other to be none; by their score they are right on either kind of
        rows, as large runs of one source and small ones of another bear out.
        """
        tried = []
        for spread in product(_SIZES, _ACTIVATIONS, _OVERHEADS):
            score = interval_score(errors, _spread_of(shares, spread), weights)
            tried.append((score, tuple(map(float, spread))))
        _, best = min(tried)
        for ratio in _RATIOS:
            found = tuple(float(ratio * one) for one in best)
            sigmas = _spread_of(shares, found)
            if float(weights @ (errors <= Z_90 * sigmas)) >= _COVERED_SHARE:
                break
        names = ("size_log_sigma", "activation_log_sigma", "overhead_log_sigma")
        return dict(zip(names, found, strict=True)), sigmas


def _spread_of(shares: FloatArray, spread: Sequence[float]) -> FloatArray:
    """Standard deviations of the logarithms of rows, by the spreads of what they are made of."""
    found: FloatArray = np.sqrt((shares[:, :3] ** 2) @ np.square(spread) + shares[:, 3] ** 2)
    return found


def training_memory_part(
    rows: Sequence[MeasuredTrainingMemory], snapshot: CatalogSnapshot
) -> TrainingMemoryPart:
    """The constants of training memory as rows give them."""
    return TrainingMemoryPart(
        terms=TERMS,
        rows=rows,
        fitted=fit_training_memory(rows),
        snapshot=snapshot,
        complete=dict,
        spread_of=lambda _row: TRAINING_MEMORY_SPREAD,
        spread_levels={TRAINING_MEMORY_SPREAD: ("class",)},
        passes=_PASSES,
        shares_of=_shares,
        besides=lambda _class, _without: {},
        of_overheads=TERMS,
    )


def _shares(row: MeasuredTrainingMemory, values: Mapping[str, float]) -> tuple[float, ...]:
    """What an estimate's logarithm moves by with sizes, activations and overheads, and the rest."""
    certain = {name: exact(value) for name, value in values.items()}
    activations = {
        name: from_log_sigma(values[name], STEP) for name in values if name in _OF_ACTIVATIONS
    }
    overheads = {
        name: from_log_sigma(values[name], STEP) for name in values if name not in _OF_ACTIVATIONS
    }
    framework = row.trained.memory.framework
    driver = {"context_bytes": framework.context_bytes}
    if framework.unified_context_bytes is not None:
        driver["unified_context_bytes"] = framework.unified_context_bytes
    return (
        log_sigma_of(_read(row, certain, STEP)) / STEP,
        log_sigma_of(_read(row, certain | activations)) / STEP,
        log_sigma_of(_read(row, certain | overheads)) / STEP,
        log_sigma_of(_read(row, certain | driver)),
    )
