"""Efficiencies of inference, fitted to measured speed by engine and hardware family."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import ValidationError

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
from service.core.engines import Engine, SpeedFit, engine_of_release, release_key
from service.core.figures import from_figures
from service.core.interval import Z_90, exact
from service.core.performance.calibration import (
    EngineOverhead,
    PerformanceCalibration,
    PowerModel,
    hardware_efficiency,
)
from service.core.performance.inference.latency import InferenceLatency, inference_latency
from service.estimation.inference.deployment import (
    ComputedDeployment,
    compute_deployment,
    resolve_deployment,
)
from service.estimation.rejection import Rejected
from service.estimation.requests import LatencyInferenceRequest, WorkloadRequest
from service.estimation.resolution import Problems
from service.validation.rows.latency import measured_figure, speed_request
from service.validation.rows.tables import Row, RowRefused
from service.validation.rows.vocabulary import Vocabulary, unit_size

COMMENT = (
    "Efficiencies of engine and hardware family, written by `./headroom calibrate --write` from",
    "published speed measurements: never per model, never per row. `prefill_log_sigma` and",
    "`decode_log_sigma` are the spread of errors for models that the fit has not seen, from which",
    "intervals of latencies come; `pipelined_log_sigma` is what pipeline stages add to that of",
    "prompts.",
)
_ANY = "default"
_FEWEST_ROWS = 8
_LEAST_LOG_SIGMA = 0.10
#: Spread of prompts' times where a group has no measurements of them: as of other tokens, or more.
_UNMEASURED_PREFILL_RATIO = 1.25
_LEAST_UNMEASURED_PREFILL_LOG_SIGMA = 0.20
_UNMEASURED_PIPELINED_LOG_SIGMA = 0.25
_PREFILL = "prefill"
#: How much less freely hardware's constants move where families are taken together.
_TIGHTER_RATIO = 0.1

#: From so many models on, others can be predicted from a fit to the rest of them, in so many parts.
_FEWEST_MODELS = 5
_PARTS = 5
#: What fits to fewer models are taken to be further off for others than for their own: the median
#: over the groups with enough models of nine tenths of the errors left out, over those of the fit.
_HOLDOUT_RATIO = 1.3

_HARDWARE = (
    Constant("matrix_16bit_ratio", 0.62, 0.10, 0.80, 0.15),
    Constant("matrix_8bit_ratio", 0.55, 0.10, 0.80, 0.15),
    Constant("memory_ratio", 0.82, 0.40, 0.95, 0.10),
    Constant("attention_matrix_ratio", 0.45, 0.005, 0.90, 0.40),
    Constant("attention_memory_ratio", 0.60, 0.10, 0.95, 0.30),
    Constant("overlap_ratio", 0.90, 0.0, 1.0, 0.30),
    Constant("tile_rows", 32.0, 0.0, 256.0, 0.20),
    Constant("expert_ratio", 0.75, 0.20, 1.0, 0.20),
    Constant("link_ratio", 0.60, 0.10, 0.95, 0.30),
    Constant("dequantised_ratio", 0.90, 0.20, 1.0, 0.30),
)
#: What cards of one chip and different power, alone and in pipelines, tell.
_LAYER_SPLIT = (
    Constant("matrix_flops_per_joule", 8e11, 5e10, 5e12, 0.30, logarithmic=True),
    Constant("pipelined_ratio", 0.8, 0.0, 1.0, 0.3),
)
#: What engines add: usual values are those of engines that run steps as graphs.
_ENGINE = (
    Constant("step_s", 1e-3, 1e-6, 3e-2, 0.25, logarithmic=True),
    Constant("layer_s", 3e-5, 1e-6, 2e-3, 0.25, logarithmic=True),
    Constant("sequence_s", 1e-5, 1e-7, 4e-4, 0.25, logarithmic=True),
    Constant("collective_s", 1.2e-5, 1e-6, 6e-5, 0.30, logarithmic=True),
)


def _across_families(engine: Engine) -> tuple[Constant, ...]:
    """What is fitted over several families: the engine's own as ever, hardware's close to usual.

    What an engine adds to a step is the same on all hardware; what hardware reaches of its peaks
    is not, and what some families reach says little of another.
    """
    own = {constant.name for constant in _ENGINE}
    return tuple(
        one if one.name in own else replace(one, spread=one.spread * _TIGHTER_RATIO)
        for one in constants_of(engine)
    )


@dataclass(frozen=True, slots=True)
class _Spreads:
    """Spreads of prompts' and of other times, and what a pipeline adds to that of prompts."""

    prefill: float
    decode: float
    pipelined: float


#: Of engines that were not measured at all.
_UNMEASURED = _Spreads(0.4375, 0.35, _UNMEASURED_PIPELINED_LOG_SIGMA)
#: Of engines on families that they were not measured on: about what families left out of the fit
#: show (`./headroom cross-validate`).
_OTHER_FAMILIES = _Spreads(0.40, 0.25, _UNMEASURED_PIPELINED_LOG_SIGMA)


def constants_of(engine: Engine) -> tuple[Constant, ...]:
    """What is fitted for an engine, with its usual values."""
    fit_of = engine.speed_fit or SpeedFit()
    return tuple(
        replace(constant, usual=fit_of.usual.get(constant.name, constant.usual))
        for constant in (*_HARDWARE, *_ENGINE, *(_LAYER_SPLIT if fit_of.layer_split else ()))
    )


@dataclass(frozen=True, slots=True)
class MeasuredDeployment:
    """A row with the deployment it measured, its memory, and what of it in SI units."""

    row: Row
    measured: float
    workload: WorkloadRequest
    computed: ComputedDeployment
    fitting: float


def measured_deployments(
    rows: Sequence[Row], vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> list[MeasuredDeployment]:
    """The rows that can be fitted to: those of known settings and sound value."""
    found = []
    for row in rows:
        if row.confidence == "low":
            continue
        try:
            measured = row.needed("value") * unit_size(row, vocabulary)
            fields, _ = speed_request(row, vocabulary, snapshot)
            request = LatencyInferenceRequest(**fields)
            computed = compute_deployment(resolve_deployment(request, snapshot, Problems()))
            measured_figure(_figures_of(computed.latency), request.workload, row, vocabulary)
        except (RowRefused, Rejected, ValidationError):
            continue
        fitting = computed.memory.max_concurrency.value
        fitting = fitting / computed.resolved.deployment.parallelism.data
        if fitting < 1:
            fitting = float(request.workload.concurrency)
        found.append(MeasuredDeployment(row, measured, request.workload, computed, float(fitting)))
    return found


def inference_entries(
    rows: Sequence[Row], vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> list[CalibrationEntry]:
    """Entries of all groups that the rows give, and of every engine on hardware without rows.

    Parameters
    ----------
    rows
        Rows of ``latency_inference``.
    vocabulary, snapshot
        Names of the rows; accelerators and models.
    """
    groups: dict[tuple[str, str], list[MeasuredDeployment]] = defaultdict(list)
    for found in measured_deployments(rows, vocabulary, snapshot):
        resolved = found.computed.resolved
        # Versions of an engine that differ in memory only share its entries here.
        _, timed, _ = resolved.calibration.performance.source.split("/")
        groups[timed, resolved.deployment.accelerator.family].append(found)
    entries = []
    engines = fitted_engines(snapshot)
    for (name, family), chosen in sorted(groups.items()):
        if name not in engines or len(chosen) < _FEWEST_ROWS:
            continue
        engine = engines[name]
        fitted = fit_inference(engine, chosen, vocabulary)
        held_out = holdout_residuals(engine, chosen, vocabulary)
        used = [found.row for found in chosen]
        source, year = main_source(used, vocabulary, snapshot)
        entries.append(
            CalibrationEntry(
                f"performance/{name}/{family}",
                {**applies_to(name), "family": family},
                f"{fit_note(fitted, used)} {_holdout_note(held_out)}",
                _written(
                    engine,
                    fitted.values,
                    _spreads(
                        fitted.residuals * _HOLDOUT_RATIO if held_out is None else held_out, chosen
                    ),
                ),
                source,
                year,
            )
        )
    for engine in engines.values():
        families = [
            chosen
            for (name, _), chosen in sorted(groups.items())
            if name == (engine.like or engine.id) and len(chosen) >= _FEWEST_ROWS
        ]
        entries.append(_default(engine, families, vocabulary, snapshot))
    return entries


def fitted_engines(snapshot: CatalogSnapshot) -> dict[str, Engine]:
    """Engines whose speed is fitted, and their generations with a fit of their own, by key."""
    found = {}
    for id_, entry in snapshot.engines.items():
        if entry.value.speed_fit is not None:
            found[id_] = entry.value
        for one in entry.value.generations:
            if one.speed_fit is not None:
                key = release_key(id_, one.id)
                found[key] = replace(entry.value, id=key, like=None, speed_fit=one.speed_fit)
    return found


def applies_to(key: str) -> dict[str, str]:
    """What an entry of calibrations says that it is about, from the key of a release."""
    engine = engine_of_release(key)
    generation = key.removeprefix(engine)[1:]
    return {"engine": engine} | ({"generation": generation} if generation else {})


def _default(
    engine: Engine,
    families: Sequence[Sequence[MeasuredDeployment]],
    vocabulary: Vocabulary,
    snapshot: CatalogSnapshot,
) -> CalibrationEntry:
    """What an engine does on hardware without rows of it: as on all others, else as usual."""
    chosen = [found for family in families for found in family]
    if not chosen:
        source, year = ASSUMPTION, int(snapshot.sources[ASSUMPTION].document["year"])
        values: Mapping[str, float] = {one.name: one.usual for one in constants_of(engine)}
        note = "Not measured on any hardware: the values at which fits start, with a wider spread."
    else:
        used = [found.row for found in chosen]
        source, year = main_source(used, vocabulary, snapshot)
        # Every family counts once.
        weights = [len(chosen) / len(families) / len(family) for family in families for _ in family]
        fitted = fit_inference(engine, chosen, vocabulary, _across_families(engine), weights)
        values = fitted.values
        note = (
            f"For hardware families without measurements of this engine, by those with them of "
            f"{engine.like or 'it'}, each counting once, with a wider spread. "
            f"{fit_note(fitted, used)}"
        )
    known = chosen and engine.like is None
    return CalibrationEntry(
        f"performance/{engine.id}/{_ANY}",
        {**applies_to(engine.id), "family": _ANY},
        note,
        _written(engine, values, _OTHER_FAMILIES if known else _UNMEASURED),
        source,
        year,
        fitted=False,
    )


def fit_inference(
    engine: Engine,
    chosen: Sequence[MeasuredDeployment],
    vocabulary: Vocabulary,
    constants: Sequence[Constant] | None = None,
    weights: Sequence[float] | None = None,
) -> Fit:
    """Constants for which the estimates come closest to what was measured.

    ``constants`` are those of the engine if None; ``weights`` say how much each row counts.
    """
    return fit(
        lambda values: _log_estimates(engine, chosen, values, vocabulary),
        [found.measured for found in chosen],
        constants_of(engine) if constants is None else constants,
        weights,
    )


def holdout_residuals(
    engine: Engine, chosen: Sequence[MeasuredDeployment], vocabulary: Vocabulary
) -> FloatArray | None:
    """Log errors of rows by constants that were fitted to other models.

    Returns
    -------
    array or None
        In the order of the rows; None where there are too few models to leave any out.
    """
    names = np.array([found.row.text("model") for found in chosen])
    models = sorted(set(names.tolist()))
    if len(models) < _FEWEST_MODELS:
        return None
    residuals = np.empty(len(chosen))
    for part in range(_PARTS):
        left_out = np.isin(names, models[part::_PARTS])
        known = [found for found, out in zip(chosen, left_out, strict=True) if not out]
        held_out = [found for found, out in zip(chosen, left_out, strict=True) if out]
        values = {
            name: np.array([value])
            for name, value in fit_inference(engine, known, vocabulary).values.items()
        }
        logs = _log_estimates(engine, held_out, values, vocabulary)[:, 0]
        residuals[left_out] = logs - np.log([found.measured for found in held_out])
    return residuals


def _holdout_note(residuals: FloatArray | None) -> str:
    if residuals is None:
        return (
            f"Of fewer than {_FEWEST_MODELS} models none is left out to see how others are "
            f"predicted: their errors are taken to be {_HOLDOUT_RATIO} times as large."
        )
    return (
        f"Of models left out of the fit, nine in ten lie within a factor "
        f"{np.exp(np.quantile(np.abs(residuals), 0.9)):.2f}."
    )


def _log_estimates(
    engine: Engine,
    chosen: Sequence[MeasuredDeployment],
    values: Mapping[str, FloatArray],
    vocabulary: Vocabulary,
) -> FloatArray:
    """Logarithms of the estimates; a row for each measurement, a column for each set of values."""
    power = chosen[0].computed.resolved.calibration.performance.power
    calibration = _calibration(engine, values, power)
    logs = np.empty((len(chosen), len(values["step_s"])))
    for index, found in enumerate(chosen):
        resolved = found.computed.resolved
        latency = inference_latency(
            resolved.deployment, resolved.workload, resolved.serving, calibration, found.fitting
        )
        figure = measured_figure(_figures_of(latency), found.workload, found.row, vocabulary)
        logs[index] = np.log(figure["value"])
    return logs


def _figures_of(latency: InferenceLatency) -> dict[str, Any]:
    """The times and rates of a latency answer, which may be arrays."""
    times = {
        name: {"value": part.value, "low": part.low, "high": part.high}
        for name, part in (
            ("ttft_s", latency.ttft_s),
            ("tpot_s", latency.tpot_s),
            ("e2e_s", latency.e2e_s),
            ("output_tokens_per_s", latency.output_tokens_per_s),
        )
    }
    return times | {"decode": {"step_s": latency.decode.step_s}}


def _calibration(
    engine: Engine, values: Mapping[str, Any], power: PowerModel
) -> PerformanceCalibration:
    figures = {
        name: exact(value)
        for name, value in (
            *_complete(engine, values).items(),
            ("prefill_log_sigma", 0.0),
            ("decode_log_sigma", 0.0),
        )
    }
    return PerformanceCalibration(
        hardware_efficiency(figures), from_figures(EngineOverhead, figures), power, "", True
    )


def _complete(engine: Engine, values: Mapping[str, Any]) -> dict[str, Any]:
    """All figures but the spreads: 32-bit products reach what 16-bit ones do, 4-bit what 8-bit."""
    fit_of = engine.speed_fit or SpeedFit()
    return {
        "matrix_32bit_ratio": values["matrix_16bit_ratio"],
        "matrix_16bit_ratio": values["matrix_16bit_ratio"],
        "matrix_8bit_ratio": values["matrix_8bit_ratio"],
        "matrix_4bit_ratio": values["matrix_8bit_ratio"],
        **values,
        "launch_bound": fit_of.launch_bound,
        "half_accumulation": fit_of.half_accumulation,
    }


def _written(engine: Engine, values: Mapping[str, float], spreads: _Spreads) -> dict[str, float]:
    complete = _complete(engine, values) | {
        "prefill_log_sigma": spreads.prefill,
        "decode_log_sigma": spreads.decode,
    }
    if engine.speed_fit is not None and engine.speed_fit.layer_split:
        complete["pipelined_log_sigma"] = spreads.pipelined
    return {name: rounded(float(value)) for name, value in complete.items()}


def _spreads(residuals: FloatArray, chosen: Sequence[MeasuredDeployment]) -> _Spreads:
    """Spreads of a group's log errors: nine in ten lie within 1.645 of each."""
    prefill = np.array([found.row.text("metric").startswith(_PREFILL) for found in chosen])
    staged = np.array(
        [found.computed.resolved.deployment.parallelism.pipeline > 1 for found in chosen]
    )
    decode = _LEAST_LOG_SIGMA
    if not prefill.all():
        decode = max(_spread(residuals[~prefill]), _LEAST_LOG_SIGMA)
    alone, together = prefill & ~staged, prefill & staged
    if not prefill.any():
        plain = max(decode * _UNMEASURED_PREFILL_RATIO, _LEAST_UNMEASURED_PREFILL_LOG_SIGMA)
    else:
        measured = alone if alone.any() else prefill
        plain = max(_spread(residuals[measured]), _LEAST_LOG_SIGMA)
    added = _UNMEASURED_PIPELINED_LOG_SIGMA
    if alone.any() and together.any():
        added = max(_spread(residuals[together]) ** 2 - plain**2, 0.0) ** 0.5
    return _Spreads(plain, decode, added)


def _spread(residuals: FloatArray) -> float:
    return float(np.quantile(np.abs(residuals), 0.9) / Z_90)
