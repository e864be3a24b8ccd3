"""Power of accelerators over what they do, fitted to measured power by hardware family."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from service.calibration.documents import ASSUMPTION, CalibrationEntry, main_source, rounded
from service.calibration.least_squares import Constant, Fit, fit
from service.catalog.snapshot import CatalogSnapshot
from service.core.elementwise import FloatArray
from service.core.interval import Z_90
from service.core.performance.inference.latency import Usage
from service.estimation.inference.deployment import compute_deployment, resolve_deployment
from service.estimation.rejection import Rejected
from service.estimation.requests import LatencyInferenceRequest
from service.estimation.resolution import Problems
from service.validation.rows.latency import speed_request
from service.validation.rows.tables import Row, RowRefused
from service.validation.rows.vocabulary import Vocabulary, unit_size

COMMENT = (
    "Power of an accelerator as a share of the span from idle to thermal design power, by hardware",
    "family, written by `./headroom calibrate --write` from published power and energy: never per",
    "model, never per row. `power_log_sigma` is the spread of estimates of models left out of the",
    "fit, from which the interval comes.",
)
_ANY = "default"
_FEWEST_ROWS = 10
#: Least spread for hardware that nobody measured: it may be of another maker than what was.
_UNMEASURED_LOG_SIGMA = 0.3
#: What identifies a run in two tables of one source.
_SAME_RUN = (
    *("model", "hardware", "hardware_count", "concurrency", "batch"),
    *("tp", "pp", "ep", "flags"),
)

#: What is fitted. A model that is resident and idle draws 60 to 70 W above an empty accelerator
#: (listings of nvidia-smi), a tenth of the span; what kernels draw is left to the rows.
CONSTANTS = (
    Constant("resident_ratio", 0.08, 0.0, 0.3, 0.5),
    Constant("active_ratio", 0.4, 0.0, 1.2, 0.5),
    Constant("memory_ratio", 0.5, 0.0, 2.0, 0.5),
    Constant("compute_ratio", 0.9, 0.0, 2.5, 0.5),
)


@dataclass(frozen=True, slots=True)
class MeasuredPower:
    """Measured mean power of one accelerator [W], and what it did meanwhile."""

    row: Row
    model: str
    family: str
    measured_w: float
    idle_w: float
    thermal_design_power_w: float
    usage: Usage


def measured_powers(
    rows: Sequence[Row], vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> list[MeasuredPower]:
    """Power of every run whose power, or energy and throughput, was measured.

    Parameters
    ----------
    rows
        Rows of ``energy_inference`` and ``latency_inference``.
    vocabulary, snapshot
        Names of the rows; accelerators, models and efficiencies.
    """
    rates = {
        _run_of(row): row.needed("value")
        for row in rows
        if row.text("metric") == "output_tokens_per_s_total"
    }
    found = []
    for row in rows:
        if row.confidence == "low" or row.text("metric") not in _POWER_OF:
            continue
        try:
            power = _measured(row, vocabulary, snapshot, rates)
        except (RowRefused, Rejected):
            continue
        if power is not None:
            found.append(power)
    return found


def power_entries(
    rows: Sequence[Row], vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> list[CalibrationEntry]:
    """Entries of all families that the rows give, and the one for hardware without rows."""
    powers = measured_powers(rows, vocabulary, snapshot)
    families: dict[str, list[MeasuredPower]] = defaultdict(list)
    for power in powers:
        families[power.family].append(power)
    entries = []
    for family, group in sorted(families.items()):
        if len(group) < _FEWEST_ROWS:
            continue
        source, year = main_source([power.row for power in group], vocabulary, snapshot)
        spread = left_out_log_sigma(group, lambda power: power.model)
        entries.append(
            CalibrationEntry(
                f"power/{family}",
                {"family": family},
                _note(group, spread, "models"),
                _figures(fit_power(group), spread),
                source,
                year,
            )
        )
    known = [power for power in powers if len(families[power.family]) >= _FEWEST_ROWS]
    if known:
        spread = left_out_log_sigma(known, lambda power: power.family)
        entries.append(
            CalibrationEntry(
                f"power/{_ANY}",
                {"family": _ANY},
                "For families without power measurements. " + _note(known, spread, "families"),
                _figures(fit_power(known), max(spread, _UNMEASURED_LOG_SIGMA)),
                ASSUMPTION,
                int(snapshot.sources[ASSUMPTION].document["year"]),
                fitted=False,
            )
        )
    return entries


def fit_power(powers: Sequence[MeasuredPower]) -> Fit:
    """Constants for which power comes closest to what was measured; every family counts once."""
    counts = Counter(power.family for power in powers)
    mean = len(powers) / len(counts)
    return fit(
        _estimates(powers),
        [power.measured_w for power in powers],
        CONSTANTS,
        [mean / counts[power.family] for power in powers],
    )


def left_out_log_sigma(
    powers: Sequence[MeasuredPower], group_of: Callable[[MeasuredPower], str]
) -> float:
    """Spread of the estimates of each group by constants fitted to all the others.

    Nine tenths of the residuals lie within 1.645 of it.
    """
    residuals: list[float] = []
    for name in sorted({group_of(power) for power in powers}):
        left_out = [power for power in powers if group_of(power) == name]
        others = [power for power in powers if group_of(power) != name]
        if not others:
            continue
        values = {key: np.array([value]) for key, value in fit_power(others).values.items()}
        logs = _estimates(left_out)(values)[:, 0]
        residuals += list(np.abs(logs - np.log([power.measured_w for power in left_out])))
    return float(np.quantile(residuals, 0.9)) / Z_90


def _estimates(powers: Sequence[MeasuredPower]) -> Callable[[Mapping[str, FloatArray]], FloatArray]:
    """Log power of every run, for given constants, as `deployment_power` computes it."""

    def column(read: Callable[[MeasuredPower], float]) -> FloatArray:
        return np.array([read(power) for power in powers])[:, None]

    idle = column(lambda power: power.idle_w)
    span = column(lambda power: power.thermal_design_power_w) - idle
    kernels = column(lambda power: float(power.usage.kernel_ratio))
    memory = column(lambda power: float(power.usage.memory_utilisation_ratio))
    compute = column(lambda power: float(power.usage.compute_utilisation_ratio))

    def predict(values: Mapping[str, FloatArray]) -> FloatArray:
        share = (
            values["resident_ratio"][None, :]
            + values["active_ratio"][None, :] * kernels
            + values["memory_ratio"][None, :] * memory
            + values["compute_ratio"][None, :] * compute
        )
        logs: FloatArray = np.log(idle + span * np.minimum(share, 1.0))
        return logs

    return predict


def _measured(
    row: Row,
    vocabulary: Vocabulary,
    snapshot: CatalogSnapshot,
    rates: Mapping[tuple[str, ...], float],
) -> MeasuredPower | None:
    fields, _ = speed_request(row, vocabulary, snapshot)
    request = LatencyInferenceRequest(**fields)
    resolved = resolve_deployment(request, snapshot, Problems())
    accelerator = resolved.deployment.accelerator
    tdp_w = accelerator.thermal_design_power_w
    tokens_per_s = rates.get(_run_of(row))
    all_w = _POWER_OF[row.text("metric")](
        row.needed("value") * unit_size(row, vocabulary),
        tokens_per_s,
        float(resolved.workload.output_tokens),
    )
    if tdp_w is None or all_w is None:
        return None
    return MeasuredPower(
        row=row,
        model=row.text("model"),
        family=accelerator.family,
        measured_w=all_w / resolved.deployment.parallelism.accelerator_count,
        idle_w=float(resolved.calibration.infrastructure.idle_power_w(accelerator).value),
        thermal_design_power_w=float(tdp_w),
        usage=compute_deployment(resolved).latency.usage,
    )


#: Power of all accelerators [W], from a metric's value, measured tokens/s and tokens a request.
_POWER_OF: Mapping[str, Callable[[float, float | None, float], float | None]] = {
    "avg_power": lambda watts, _rate, _tokens: watts,
    "energy_per_request": lambda joules, rate, tokens: (
        None if rate is None else joules * rate / tokens
    ),
}


def _run_of(row: Row) -> tuple[str, ...]:
    return (row.source, *(row.text(name) for name in _SAME_RUN))


def _figures(found: Fit, log_sigma: float) -> dict[str, float]:
    return {name: rounded(value) for name, value in found.values.items()} | {
        "power_log_sigma": rounded(log_sigma)
    }


def _note(powers: Sequence[MeasuredPower], log_sigma: float, left_out: str) -> str:
    counts = Counter(power.row.source for power in powers)
    named = ", ".join(f"{count} of {name}" for name, count in sorted(counts.items()))
    return (
        f"Robust least squares in log power on {len(powers)} steady-state runs ({named}; NVML, "
        "accelerators only; energy times measured throughput where power was not printed). Nine in "
        f"ten runs of {left_out} left out of the fit lie within a factor "
        f"{np.exp(log_sigma * Z_90):.2f}."
    )
