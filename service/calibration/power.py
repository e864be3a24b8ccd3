"""Power of accelerators at work, fitted to measured power by hardware family."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import ValidationError

from service.calibration.documents import CalibrationEntry, fit_note, main_source, rounded
from service.calibration.least_squares import Constant, Fit, fit
from service.catalog.snapshot import CatalogSnapshot
from service.core.elementwise import FloatArray
from service.core.impact.energy import deployment_power
from service.core.performance.calibration import PowerModel
from service.estimation.deployments import (
    ComputedDeployment,
    compute_deployment,
    resolve_deployment,
)
from service.estimation.rejection import Rejected
from service.estimation.requests import LatencyInferenceRequest
from service.estimation.resolution import Problems
from service.validation.latency import speed_request
from service.validation.tables import Refused, Row
from service.validation.vocabulary import Vocabulary, unit_size

COMMENT = (
    "Power of an accelerator as a share of the span from idle to thermal design power, written by",
    "`./headroom calibrate --write` from measured power. `active_ratio` is drawn while kernels",
    "run, the others in proportion to the bandwidth and FLOP/s in use.",
)
_ANY = "default"
_METRIC = "avg_power"
_FEWEST_ROWS = 8
_LEAST_LOG_SIGMA = 0.12
#: Families without measurements differ from one another by more than rows of one family do.
_UNMEASURED_LOG_SIGMA = 0.30

CONSTANTS = (
    Constant("active_ratio", 0.40, 0.05, 1.0, 0.22),
    Constant("memory_ratio", 0.40, 0.0, 1.5, 0.22),
    Constant("compute_ratio", 1.0, 0.0, 2.5, 0.22),
)


@dataclass(frozen=True, slots=True)
class MeasuredPower:
    """A row with the deployment whose power it measured [W]."""

    row: Row
    measured_w: float
    computed: ComputedDeployment


def power_entries(
    rows: Sequence[Row], vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> list[CalibrationEntry]:
    """Entries of all families that the rows give, and the one for families without rows.

    Parameters
    ----------
    rows
        Rows of ``energy_inference``.
    vocabulary, snapshot
        Names of the rows; accelerators, models and the efficiencies that say how hard they work.
    """
    groups: dict[str, list[MeasuredPower]] = defaultdict(list)
    for found in _measured(rows, vocabulary, snapshot):
        groups[found.computed.resolved.deployment.accelerator.family].append(found)
    entries = []
    for family, chosen in sorted(groups.items()):
        if len(chosen) < _FEWEST_ROWS:
            continue
        fitted = fit_power(chosen)
        used = [found.row for found in chosen]
        source, year = main_source(used, vocabulary, snapshot)
        entries.append(
            CalibrationEntry(
                f"power/{family}",
                {"family": family},
                fit_note(fitted, used, "power"),
                _figures(fitted.values, max(fitted.log_sigma, _LEAST_LOG_SIGMA)),
                source,
                year,
            )
        )
    together = [found for _, chosen in sorted(groups.items()) for found in chosen]
    if together:
        fitted = fit_power(together)
        used = [found.row for found in together]
        source, year = main_source(used, vocabulary, snapshot)
        entries.append(
            CalibrationEntry(
                f"power/{_ANY}",
                {"family": _ANY},
                "For families without power measurements, those of all others together with a "
                f"wider spread. {fit_note(fitted, used, 'power')}",
                _figures(fitted.values, max(fitted.log_sigma, _UNMEASURED_LOG_SIGMA)),
                source,
                year,
                fitted=False,
            )
        )
    return entries


def fit_power(chosen: Sequence[MeasuredPower]) -> Fit:
    """Coefficients for which estimates come closest; every family counts the same."""

    def predict(values: Mapping[str, FloatArray]) -> FloatArray:
        model = PowerModel(
            values["active_ratio"], values["memory_ratio"], values["compute_ratio"], 0.0
        )
        logs = np.empty((len(chosen), len(values["active_ratio"])))
        for index, found in enumerate(chosen):
            resolved = found.computed.resolved
            count = resolved.deployment.parallelism.accelerator_count
            power = deployment_power(
                resolved.deployment.accelerator,
                count,
                found.computed.latency.usage,
                model,
                resolved.calibration.infrastructure,
            )
            logs[index] = np.log(power.mean_w.value * count)
        return logs

    families = [found.computed.resolved.deployment.accelerator.family for found in chosen]
    counts = Counter(families)
    share = len(chosen) / len(counts)
    return fit(
        predict,
        [found.measured_w for found in chosen],
        CONSTANTS,
        [share / counts[family] for family in families],
    )


def _measured(
    rows: Sequence[Row], vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> list[MeasuredPower]:
    found = []
    for row in rows:
        if row.confidence == "low" or row.text("metric") != _METRIC:
            continue
        try:
            measured_w = row.needed("value") * unit_size(row, vocabulary)
            fields, _ = speed_request(row, vocabulary, snapshot)
            request = LatencyInferenceRequest(**fields)
            resolved = resolve_deployment(request, snapshot, Problems())
        except (Refused, Rejected, ValidationError):
            continue
        if resolved.deployment.accelerator.thermal_design_power_w is not None:
            found.append(MeasuredPower(row, measured_w, compute_deployment(resolved)))
    return found


def _figures(values: Mapping[str, float], log_sigma: float) -> dict[str, float]:
    figures = {**values, "power_log_sigma": log_sigma}
    return {name: rounded(float(value)) for name, value in figures.items()}
