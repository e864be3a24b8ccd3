"""Efficiencies of training, fitted to measured throughput by framework and hardware family."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from service.calibration.documents import (
    ASSUMPTION,
    CalibrationEntry,
    fit_note,
    main_source,
    rounded,
)
from service.calibration.least_squares import Constant, Fit, fit
from service.catalog.snapshot import CatalogSnapshot
from service.core.elementwise import FloatArray
from service.core.interval import Z_90, exact
from service.core.performance.training.calibration import training_calibration
from service.core.performance.training.step import training_step
from service.core.techniques.setup import TrainingSetup
from service.estimation.rejection import Rejected
from service.estimation.training.calibrations import training_figures
from service.validation.rows.tables import Row, RowRefused
from service.validation.rows.training_speed import measured_quantity, measured_setup
from service.validation.rows.vocabulary import Vocabulary, unit_size

COMMENT = (
    "Efficiencies of training, per framework and hardware family, written by",
    "`./headroom calibrate --write` from published throughput: never per model, never per row.",
    "`step_log_sigma` is the spread of the residuals, from which the interval comes. Entries of",
    "framework `default` are fitted to all rows on a family, with every source counting once;",
    "their spread is that of estimates for sources left out of the fit.",
)
_ANY = "default"
#: Fewer rows than this say too little about a group of their own.
_FEWEST_ROWS = 3
#: With fewer sources none can be left out, and share of left-out rows that intervals are to hold.
_FEWEST_SOURCES = 2
_COVERED_SHARE = 0.9
#: Spread below which an interval would claim more than a group's own rows can show: they were
#: fitted to, and leave out what differs between one site and the next.
_LEAST_LOG_SIGMA = 0.10
_LEAST_LOG_SIGMA_OF_FEW = 0.14
_FEW_ROWS = 15
#: Spread where nothing was measured, and where products were.
_UNMEASURED_LOG_SIGMA = 0.35
_PRODUCTS_MEASURED_LOG_SIGMA = 0.25
#: Share of dense 16-bit peak that the best product reaches, on families without training rows,
#: and where it stands.
_BEST_PRODUCT_RATIO = {"amd-cdna2": 0.767, "amd-cdna3": 0.601, "intel-gaudi": 0.969}
_BEST_PRODUCT_SOURCE = "ml-engineering-accelerators"
#: The same of the A100 and H100, for the share of it that training reaches.
_USUAL_BEST_PRODUCT_RATIO = 0.83

#: What is fitted. Usual values: what large products, streaming kernels and collectives reach in
#: vendors' and users' published microbenchmarks of data-centre accelerators.
CONSTANTS = (
    Constant("matrix_16bit_ratio", 0.70, 0.10, 0.98, 0.08),
    Constant("matrix_8bit_ratio", 0.55, 0.10, 0.95, 0.15),
    Constant("matrix_4bit_ratio", 0.40, 0.10, 0.95, 0.15),
    Constant("memory_ratio", 0.80, 0.30, 0.95, 0.10),
    Constant("attention_matrix_ratio", 0.50, 0.05, 0.90, 0.20),
    Constant("elementwise_passes", 4.0, 1.0, 16.0, 0.20, logarithmic=True),
    Constant("tile_rows", 64.0, 0.0, 512.0, 0.10),
    Constant("expert_ratio", 0.60, 0.10, 1.0, 0.30),
    Constant("link_ratio", 0.70, 0.20, 0.95, 0.20),
    Constant("tensor_overlap_ratio", 0.30, 0.0, 0.95, 0.30),
    Constant("data_overlap_ratio", 0.80, 0.0, 1.0, 0.30),
    Constant("step_s", 5e-3, 1e-4, 0.03, 0.20, logarithmic=True),
    Constant("layer_s", 3e-4, 1e-5, 5e-3, 0.20, logarithmic=True),
    Constant("sharded_layer_s", 2e-4, 1e-6, 2e-2, 0.30, logarithmic=True),
    Constant("routing_s", 2e-4, 1e-5, 3e-3, 0.30, logarithmic=True),
    Constant("collective_s", 2e-5, 1e-6, 1e-4, 0.20, logarithmic=True),
    Constant("dequantised_bytes", 6.0, 3.0, 60.0, 0.30, logarithmic=True),
)
_PRODUCTS = ("matrix_16bit_ratio", "matrix_8bit_ratio", "matrix_4bit_ratio")


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A row with the run that it measured, and what of it, in SI units."""

    row: Row
    measured: float
    setup: TrainingSetup


def measured_runs(
    rows: Sequence[Row], vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> list[MeasuredRun]:
    """The rows that can be fitted to: those of known settings and sound value."""
    runs = []
    for row in rows:
        if row.confidence == "low":
            continue
        try:
            measured = row.needed("value") * unit_size(row, vocabulary)
            setup = measured_setup(row, vocabulary, snapshot)
        except (RowRefused, Rejected):
            continue
        runs.append(MeasuredRun(row, measured, setup))
    return runs


def training_entries(
    rows: Sequence[Row], vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> list[CalibrationEntry]:
    """Entries of all groups that the rows give, and the one for hardware without rows.

    Parameters
    ----------
    rows
        Rows of ``training_speed``.
    vocabulary, snapshot
        Names of the rows; accelerators, models and host figures.
    """
    groups: dict[tuple[str, str], list[MeasuredRun]] = defaultdict(list)
    for run in measured_runs(rows, vocabulary, snapshot):
        framework, family = run.setup.settings.framework, run.setup.deployment.accelerator.family
        if framework != _ANY:
            groups[framework, family].append(run)
        groups[_ANY, family].append(run)
    entries = []
    for (framework, family), runs in sorted(groups.items()):
        if len(runs) < _FEWEST_ROWS:
            continue
        found = fit_training(runs, snapshot)
        used = [run.row for run in runs]
        source, year = main_source(used, vocabulary, snapshot)
        entries.append(
            CalibrationEntry(
                f"training/{framework}/{family}",
                {"framework": framework, "family": family},
                fit_note(found, used),
                _figures(
                    found.values,
                    log_sigma_of(found)
                    if framework != _ANY
                    else max(log_sigma_of(found), left_out_log_sigma(runs, snapshot)),
                ),
                source,
                year,
            )
        )
    usual = {constant.name: constant.usual for constant in CONSTANTS}
    year = int(snapshot.sources[_BEST_PRODUCT_SOURCE].document["year"])
    for family, best in _BEST_PRODUCT_RATIO.items():
        if (_ANY, family) in groups:
            continue
        slower = best / _USUAL_BEST_PRODUCT_RATIO
        products = {
            name: min(value * slower, 0.95) if name in _PRODUCTS else value
            for name, value in usual.items()
        }
        entries.append(
            CalibrationEntry(
                f"training/{_ANY}/{family}",
                {"framework": _ANY, "family": family},
                f"Training was not measured, but the best product: {best} of dense peak. Products "
                "in training are taken to reach as much of that as usual.",
                _figures(products, _PRODUCTS_MEASURED_LOG_SIGMA),
                _BEST_PRODUCT_SOURCE,
                year,
                fitted=False,
            )
        )
    entries.append(
        CalibrationEntry(
            f"training/{_ANY}/{_ANY}",
            {"framework": _ANY, "family": _ANY},
            "For hardware families without measurements: the values at which fits start, with a "
            "wider spread.",
            _figures(usual, _UNMEASURED_LOG_SIGMA),
            ASSUMPTION,
            int(snapshot.sources[ASSUMPTION].document["year"]),
            fitted=False,
        )
    )
    return entries


def fit_training(runs: Sequence[MeasuredRun], snapshot: CatalogSnapshot) -> Fit:
    """Constants for which the estimates come closest to what the runs measured."""
    sources = Counter(run.row.source for run in runs)
    share = len(runs) / len(sources)
    return fit(
        lambda values: _log_estimates(runs, values, snapshot),
        [run.measured for run in runs],
        CONSTANTS,
        [share / sources[run.row.source] for run in runs],
    )


def left_out_log_sigma(runs: Sequence[MeasuredRun], snapshot: CatalogSnapshot) -> float:
    """Spread of estimates for sources that they were not fitted to.

    Each source's rows are estimated from a fit to the others'; with one source alone nothing is
    known of others, and the spread is that of hardware whose products alone were measured.
    """
    sources = sorted({run.row.source for run in runs})
    if len(sources) < _FEWEST_SOURCES:
        return _PRODUCTS_MEASURED_LOG_SIGMA
    errors: list[float] = []
    weights: list[float] = []
    for left_out in sources:
        known = [run for run in runs if run.row.source != left_out]
        held_out = [run for run in runs if run.row.source == left_out]
        found = fit_training(known, snapshot)
        values = {name: np.array([value]) for name, value in found.values.items()}
        logs = _log_estimates(held_out, values, snapshot)[:, 0]
        errors += np.abs(logs - np.log([run.measured for run in held_out])).tolist()
        weights += [1.0 / len(held_out)] * len(held_out)
    order = np.argsort(errors)
    passed = np.cumsum(np.array(weights)[order]) / sum(weights)
    return float(np.array(errors)[order][np.searchsorted(passed, _COVERED_SHARE)]) / Z_90


def _log_estimates(
    runs: Sequence[MeasuredRun], values: Mapping[str, FloatArray], snapshot: CatalogSnapshot
) -> FloatArray:
    """Logarithms of the estimates; a row for each run, a column for each set of constants."""
    known = training_figures(snapshot, _ANY, _ANY)
    figures = _complete(values) | {"step_log_sigma": 0.0}
    efficiency = training_calibration(
        {name: exact(value) for name, value in figures.items()},
        known.efficiency.performance.power,
        "",
        True,
    )
    logs = np.empty((len(runs), len(values["step_s"])))
    for index, run in enumerate(runs):
        setup = run.setup
        step = training_step(
            setup.deployment,
            setup.settings,
            setup.micro_batch,
            known.host(setup.deployment.accelerator),
            efficiency,
        )
        logs[index] = np.log(measured_quantity(step, run.row, setup))
    return logs


def log_sigma_of(found: Fit) -> float:
    """Spread for the interval: that of the residuals, but no less than such rows can show."""
    least = _LEAST_LOG_SIGMA if found.rows >= _FEW_ROWS else _LEAST_LOG_SIGMA_OF_FEW
    return max(found.log_sigma, least)


def _complete(values: Mapping[str, float | FloatArray]) -> dict[str, float | FloatArray]:
    """All figures of an entry but the spread: 32-bit products reach what 16-bit ones do."""
    return {"matrix_32bit_ratio": values["matrix_16bit_ratio"], **values}


def _figures(values: Mapping[str, float], log_sigma: float) -> dict[str, float]:
    complete = {**_complete(values), "step_log_sigma": log_sigma}
    return {name: rounded(float(value)) for name, value in complete.items()}
