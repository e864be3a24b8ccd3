"""Measured speed of training runs, beside the estimate of a run with the row's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from service.catalog.snapshot import CatalogSnapshot
from service.core.elementwise import Number
from service.core.estimate.training import TrainingSpeed
from service.core.interval import Interval
from service.core.performance.training.step import TrainingStep
from service.core.techniques.setup import TrainingSetup
from service.estimation.training.calibrations import setup_figures
from service.estimation.training.speed import resolved_speed
from service.validation.former.statistics import Compared
from service.validation.rows.tables import Row, RowRefused
from service.validation.rows.training_runs import in_narrow_products, run_of
from service.validation.rows.vocabulary import Vocabulary, unit_size


@dataclass(frozen=True, slots=True)
class _Quantity:
    """What a metric measures, of a step and of an estimate with its interval."""

    unit: str
    of_step: Callable[[TrainingStep, TrainingSetup], Number]
    estimate: Callable[[TrainingSpeed], Interval]


def _sequences(speed: TrainingSpeed) -> Interval:
    tokens = speed.setup.micro_batch.tokens
    rate = speed.tokens_per_s
    return Interval(rate.value / tokens, rate.low / tokens, rate.high / tokens)


_QUANTITIES: Mapping[str, _Quantity] = {
    "tokens_per_s_per_gpu": _Quantity(
        "tokens/s",
        lambda step, _: step.tokens_per_s_per_accelerator,
        lambda speed: speed.tokens_per_s_per_accelerator,
    ),
    "seconds_per_iteration": _Quantity(
        "s", lambda step, _: step.step_s, lambda speed: speed.step_s
    ),
    "samples_per_s": _Quantity(
        "sequences/s", lambda step, setup: step.tokens_per_s / setup.micro_batch.tokens, _sequences
    ),
    "mfu": _Quantity("1", lambda step, _: step.mfu_ratio, lambda speed: speed.mfu_ratio),
    "hfu": _Quantity("1", lambda step, _: step.hfu_ratio, lambda speed: speed.hfu_ratio),
}


def training_speed_row(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> Compared:
    """Compare one row of ``training_speed``."""
    quantity = _quantity(row)
    size = unit_size(row, vocabulary)
    setup = measured_setup(row, vocabulary, snapshot)
    figures = setup_figures(setup, snapshot)
    speed = resolved_speed(setup, figures)
    estimate = quantity.estimate(speed)
    deployment = setup.deployment
    warnings = (*deployment.architecture.warnings, *figures.warnings)
    return Compared(
        row=row,
        metric=row.text("metric"),
        family=deployment.accelerator.family,
        unit=quantity.unit,
        measured=row.needed("value") * size,
        value=float(estimate.value),
        low=float(estimate.low),
        high=float(estimate.high),
        warnings=tuple(warning.message for warning in warnings),
    )


def measured_setup(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> TrainingSetup:
    """The run whose speed a row measured."""
    _quantity(row)
    return in_narrow_products(run_of(row, vocabulary, snapshot), row)


def measured_quantity(step: TrainingStep, row: Row, setup: TrainingSetup) -> Number:
    """The figure of a step that a row measured."""
    return _quantity(row).of_step(step, setup)


def _quantity(row: Row) -> _Quantity:
    metric = row.text("metric")
    if metric == "total_runtime":
        raise RowRefused("how many tokens a run of the whole data set had is not given")
    if metric not in _QUANTITIES:
        raise RowRefused(f"metric {metric[:40]!r} is not known")
    return _QUANTITIES[metric]
