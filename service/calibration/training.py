"""Constants of training speed, fitted together to everything that was measured of it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from statistics import fmean
from typing import Any, cast

import numpy as np

from service.calibration.documents import CalibrationEntry, rounded
from service.calibration.groups import Group
from service.calibration.hierarchy import Fitted, Keys, Predict, fit, shared_weights
from service.calibration.speed_terms import FLOPS_PER_JOULE
from service.calibration.timed import Spent, TimedPart
from service.calibration.training_terms import ALL_TERMS, TERMS
from service.catalog.snapshot import CatalogSnapshot
from service.core.elementwise import FloatArray
from service.core.engines import FALLBACK_ENGINE, engine_of_release
from service.core.interval import exact
from service.core.learning import is_implausible
from service.core.performance.kernels import sums_at_half_rate
from service.core.performance.training.calibration import training_calibration
from service.core.performance.training.step import TrainingStep, training_step
from service.estimation.levels import (
    TRAINING_SPREAD,
    UNSTATED_FRAMEWORK,
    hardware_keys,
    speed_keys,
    training_link_of,
)
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.quantities import Trained, quantity_of
from service.estimation.measurements.views import trained
from service.estimation.rejection import Rejected
from service.estimation.resolution import Problems
from service.estimation.training.requests import TrainingRequest
from service.estimation.training.resolve import resolve_training

COMMENT = (
    "Constants of training speed at the level that causes each, written by",
    "`./headroom calibrate --write` from published throughput: never per model, never per row.",
    "Entries of narrower levels say what is otherwise there. `spread` has the three variances of",
    "errors for sources that no constant was fitted to, and by what times are less well known.",
)

#: Of what priors let levels deviate that were not measured, errors bear out a third, beside a
#: spread of times of 0.2.
_UNMEASURED_RATIO = 0.35 / 0.2
#: By how much less well steps of models with routed experts are known, whatever they are spent on:
#: all experts are read, and what differs are the kernels that frameworks multiply them by.
ROUTED_WIDENINGS = {"experts_spread_ratio": 1.5}
#: Share of dense 16-bit peak that the best product reaches, on families without training rows,
#: and where it stands; the same of the A100 and H100, for the share of it that training reaches.
_BEST_PRODUCT_RATIO = {"amd-cdna2": 0.767, "amd-cdna3": 0.601, "intel-gaudi": 0.969}
_BEST_PRODUCT_SOURCE = "ml-engineering-accelerators"
_USUAL_BEST_PRODUCT_RATIO = 0.83
_MOST_PRODUCT_RATIO = 0.95
_PRODUCTS, _POWERED = "matrix_16bit_ratio", "matrix_flops_per_joule"

#: Figures of a document that tell the time of a step, the plainest first: one of them is fitted.
SPEEDS = (
    "step_s",
    "tokens_per_s_per_accelerator",
    "tokens_per_s",
    "samples_per_s",
    "mfu_ratio",
    "hfu_ratio",
    "model_tflops_per_accelerator",
    "hardware_tflops_per_accelerator",
)
#: What a source leaves open was assumed, and such a row says less: much less where that is how the
#: run was laid out or how much was computed twice.
_ASSUMED_WEIGHT = 0.5
_ASSUMED_LAYOUT_WEIGHT = 0.25
_OF_LAYOUT = (
    "/request/parallelism",
    "/request/training/micro_batch_size",
    "/request/training/activation_checkpointing",
    "/request/training/gradient_accumulation_steps",
    "/request/training/sequence_length",
)
#: Rows of one source on one kind of hardware say more than one of them, and less than all; the
#: first says as much as so many rows whose errors have nothing to do with each other.
_SHARED_POWER = 0.5
_VOTES = 4.0


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A measured speed [SI units] with the run that it was measured of.

    ``keys`` are those of its levels. Rows of the same ``configuration`` share a vote.
    """

    document: MeasurementDocument
    quantity: str
    source: str
    model: str
    measured: float
    configuration: str
    trained: Trained
    keys: Keys

    @property
    def weight(self) -> float:
        """How much it says by what it had to assume [-]."""
        if any(pointer.startswith(_OF_LAYOUT) for pointer in self.document.assumed):
            return _ASSUMED_LAYOUT_WEIGHT
        return _ASSUMED_WEIGHT if self.document.assumed else 1.0


def measured_runs(
    documents: Iterable[MeasurementDocument], snapshot: CatalogSnapshot
) -> list[MeasuredRun]:
    """The figures of speed that can be fitted to: those of known settings and sound value."""
    found = []
    for document in documents:
        if document.kind != "training" or document.confidence == "low":
            continue
        name = next((name for name in SPEEDS if name in document.figures), None)
        if name is None:
            continue
        request = cast("TrainingRequest", document.request)
        try:
            resolved = resolve_training(request, snapshot, Problems())
        except Rejected:
            continue
        view = trained(resolved, request, snapshot)
        measured = document.figures[name]
        if is_implausible(float(quantity_of(name, "training").of_trained(view).value), measured):
            continue
        accelerator = resolved.setup.deployment.accelerator
        found.append(
            MeasuredRun(
                document=document,
                quantity=name,
                source=str(document.source),
                model=resolved.model.id,
                measured=measured,
                configuration=request.model_dump_json(exclude_defaults=True),
                trained=view,
                keys=speed_keys(
                    resolved.setup.settings.release,
                    accelerator.family,
                    training_link_of(accelerator),
                    snapshot.engines,
                    "training",
                ),
            )
        )
    return found


@dataclass(frozen=True, kw_only=True)
class TrainingPart(TimedPart):
    """Constants of training speed, and how far frameworks lie apart."""

    rows: Sequence[MeasuredRun]

    def _entries(self, fitted: Fitted) -> list[CalibrationEntry]:
        """Entries of all levels, those of families of which the best product alone is known last.

        Where something else is usual of such a family, what its best product tells says more.
        """
        families = {self.rows[number].keys["family"] for number in fitted.rows}
        products = products_entries(fitted, families, self.snapshot)
        known = {entry.id for entry in products}
        return [
            *(entry for entry in super()._entries(fitted) if entry.id not in known),
            *products,
        ]

    def spreads(self, without: Group | None = None) -> list[CalibrationEntry]:
        """The spread, with what it adds to say nothing of the framework."""
        apart = {UNSTATED_FRAMEWORK: rounded(self._frameworks_apart(without))}
        return [
            replace(entry, figures={**entry.figures, **apart}) for entry in super().spreads(without)
        ]

    def _frameworks_apart(self, without: Group | None) -> float:
        """Root mean square of what steps of frameworks differ from those of any framework [-].

        Logarithms of times by constants of the framework over those that hold for all, averaged
        over the rows of each framework.
        """
        shifts: dict[str, list[float]] = {}
        for row in self.rows:
            framework = engine_of_release(row.trained.speed.setup.settings.release)
            if framework == FALLBACK_ENGINE or (without is not None and without.holds(row)):
                continue
            accelerator = row.trained.speed.setup.deployment.accelerator
            unstated = speed_keys(
                *(FALLBACK_ENGINE, accelerator.family, training_link_of(accelerator)),
                *(self.snapshot.engines, "training"),
            )
            own_s, unstated_s = (
                float(_step(row, self.fitted.values(keys)).step_s) for keys in (row.keys, unstated)
            )
            shifts.setdefault(framework, []).append(log(own_s / unstated_s))
        means = [fmean(found) for found in shifts.values()]
        return sqrt(fmean(mean * mean for mean in means)) if means else 0.0


def training_part(rows: Sequence[MeasuredRun], snapshot: CatalogSnapshot) -> TrainingPart:
    """Constants at all levels for which the estimates come closest to what was measured."""
    fitted = fit(
        predictor(rows),
        [row.measured for row in rows],
        [row.keys for row in rows],
        ALL_TERMS,
        weights_of(rows),
    )
    return TrainingPart(
        terms=TERMS,
        rows=rows,
        fitted=fitted,
        snapshot=snapshot,
        complete=complete,
        spread_of=lambda _row: TRAINING_SPREAD,
        spread_levels={TRAINING_SPREAD: ()},
        spent_of=_spent,
        widening_id=TRAINING_SPREAD,
        unmeasured_ratio=_UNMEASURED_RATIO,
        routed_widenings=ROUTED_WIDENINGS,
        # Large runs say little of what a framework adds to a step, which changes them little, too:
        # a framework with rows counts as measured.
        least_informed_ratio=0.0,
        passes=2,
    )


def products_entries(
    fitted: Fitted, measured: Container[str], snapshot: CatalogSnapshot
) -> list[CalibrationEntry]:
    """Entries of families that training was not measured on, but the best product was.

    Products in training are taken to reach as much of that as they do elsewhere.
    """
    year = int(snapshot.sources[_BEST_PRODUCT_SOURCE].document["year"])
    found = []
    for family, best in sorted(_BEST_PRODUCT_RATIO.items()):
        if family in measured:
            continue
        keys = hardware_keys(family)
        values = fitted.values(keys)
        slower = best / _USUAL_BEST_PRODUCT_RATIO
        products = {_PRODUCTS: min(values[_PRODUCTS] * slower, _MOST_PRODUCT_RATIO)}
        if family in FLOPS_PER_JOULE:
            products[_POWERED] = values[_POWERED]
        found.append(
            CalibrationEntry(
                f"training-speed/hardware/{family}",
                {"part": "training-speed/hardware", **keys},
                f"Training was not measured, but the best product: {best} of dense peak. Products "
                "in training are taken to reach as much of that as elsewhere.",
                {name: rounded(value) for name, value in complete(products).items()},
                _BEST_PRODUCT_SOURCE,
                year,
                fitted=False,
            )
        )
    return found


def weights_of(rows: Sequence[MeasuredRun]) -> list[float]:
    """How much each row counts: less beside many of its source, or where it assumes something."""
    alike = [(row.source, row.keys["family"]) for row in rows]
    repeated = [(row.configuration, row.quantity) for row in rows]
    return [
        _VOTES * of_source * of_configuration * row.weight
        for row, of_source, of_configuration in zip(
            rows, shared_weights(alike, _SHARED_POWER), shared_weights(repeated), strict=True
        )
    ]


def predictor(rows: Sequence[MeasuredRun]) -> Predict:
    """Log estimates of rows, for constants by row and point."""

    def predict(chosen: Sequence[int], values: Mapping[str, FloatArray]) -> FloatArray:
        logs = np.empty(next(iter(values.values())).shape)
        for at, number in enumerate(chosen):
            own = {name: column[at] for name, column in values.items()}
            logs[at] = np.log(_estimate(rows[number], own))
        return logs

    return predict


def _estimate(row: MeasuredRun, values: Mapping[str, Any]) -> Any:
    """The estimate of what a row measured, by given constants, which may be arrays."""
    speed, step = row.trained.speed, _step(row, values)
    view = replace(row.trained, speed=replace(speed, step=step, step_s=exact(step.step_s)))
    return quantity_of(row.quantity, "training").of_trained(view).value


def _spent(row: MeasuredRun, values: Mapping[str, float]) -> Spent:
    """What the step of a row is spent on, by given constants."""
    return Spent(_step(row, values).shares, row.trained.speed.setup.deployment.architecture.routes)


def _step(row: MeasuredRun, values: Mapping[str, Any]) -> TrainingStep:
    """The step of a row by given constants, which may be arrays."""
    speed = row.trained.speed
    setup = speed.setup
    figures = {name: exact(value) for name, value in (*complete(values).items(), _NO_SPREAD)}
    calibration = training_calibration(
        figures,
        setup.calibration.performance.power,
        "",
        True,
        halved=sums_at_half_rate(setup.deployment.accelerator),
    )
    return training_step(
        setup.deployment,
        setup.settings,
        setup.micro_batch,
        setup.host,
        calibration,
        setup.paged_bytes,
    )


_NO_SPREAD = ("step_log_sigma", 0.0)


def complete(values: Mapping[str, Any]) -> dict[str, Any]:
    """All figures: 32-bit products reach what 16-bit ones do."""
    if "matrix_16bit_ratio" not in values:
        return dict(values)
    return {"matrix_32bit_ratio": values["matrix_16bit_ratio"], **values}
