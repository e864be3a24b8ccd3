"""Power of accelerators over what they do, fitted to measured power of whole hardware families."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from service.calibration.hierarchy import Fitted, Keys, Level, Predict, Term, fit, shared_weights
from service.catalog.snapshot import CatalogSnapshot
from service.core.elementwise import FloatArray
from service.core.learning import is_implausible
from service.core.performance.inference.latency import Usage
from service.estimation.inference.deployment import compute_deployment, resolve_deployment
from service.estimation.levels import hardware_keys
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.rejection import Rejected
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems

COMMENT = (
    "Power of an accelerator as a share of the span from idle to thermal design power, for all",
    "hardware, for what a vendor makes and by hardware family, written by `./headroom calibrate",
    "--write` from published power and energy: never per model, never per row.",
)
_LEVELS = (Level("vendor", 0.10), Level("family", 0.20))

#: What is fitted, of the span from idle to thermal design power. A model that is resident and idle
#: draws 60 to 70 W above an empty accelerator (listings of nvidia-smi), a tenth of the span; what
#: kernels draw is left to the rows.
TERMS: Mapping[str, tuple[Term, ...]] = {
    "power": (
        Term("resident_ratio", 0.08, 0.0, 0.3, 0.3, _LEVELS),
        Term("active_ratio", 0.4, 0.0, 1.2, 0.3, _LEVELS),
        Term("memory_ratio", 0.5, 0.0, 2.0, 0.3, _LEVELS),
        Term("compute_ratio", 0.9, 0.0, 2.5, 0.3, _LEVELS),
    )
}
_SHARED_POWER = 0.5
_ASSUMED_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class MeasuredPower:
    """Measured mean power of one accelerator [W], and what it did meanwhile."""

    document: MeasurementDocument
    source: str
    model: str
    measured: float
    idle_w: float
    thermal_design_power_w: float
    usage: Usage
    keys: Keys


def measured_powers(
    documents: Iterable[MeasurementDocument], snapshot: CatalogSnapshot
) -> list[MeasuredPower]:
    """Power of every run whose power was measured, or energy and rate."""
    found = []
    for document in documents:
        if document.kind != "inference" or document.confidence == "low":
            continue
        if not any(name in document.figures for name in _POWER_OF):
            continue
        request = cast("DeploymentRequest", document.request)
        try:
            computed = compute_deployment(resolve_deployment(request, snapshot, Problems()))
        except Rejected:
            continue
        resolved = computed.resolved
        accelerator, count = resolved.deployment.accelerator, resolved.deployment.parallelism
        measured_w = _power_w(
            document, float(resolved.workload.output_tokens), count.accelerator_count
        )
        tdp_w = accelerator.thermal_design_power_w
        if tdp_w is None or measured_w is None or is_implausible(float(tdp_w), measured_w):
            continue
        idle_w = resolved.calibration.infrastructure.idle_power_w(accelerator)
        found.append(
            MeasuredPower(
                document=document,
                source=str(document.source),
                model=resolved.model.id,
                measured=measured_w,
                idle_w=float(idle_w.value),
                thermal_design_power_w=float(tdp_w),
                usage=computed.latency.usage,
                keys=hardware_keys(accelerator.family),
            )
        )
    return found


def fit_power(rows: Sequence[MeasuredPower]) -> Fitted:
    """Constants at all levels for which the estimates come closest to what was measured."""
    alike = [(row.source, row.keys["family"]) for row in rows]
    weights = [
        shared * (_ASSUMED_WEIGHT if row.document.assumed else 1.0)
        for row, shared in zip(rows, shared_weights(alike, _SHARED_POWER), strict=True)
    ]
    return fit(
        predictor(rows),
        [row.measured for row in rows],
        [row.keys for row in rows],
        TERMS["power"],
        weights,
    )


def predictor(rows: Sequence[MeasuredPower]) -> Predict:
    """Log power of rows, for constants by row and point, as `deployment_power` computes it."""

    def column(read: Callable[[MeasuredPower], float]) -> FloatArray:
        return np.array([read(row) for row in rows])[:, None]

    idle = column(lambda row: row.idle_w)
    span = column(lambda row: row.thermal_design_power_w) - idle
    kernels = column(lambda row: float(row.usage.kernel_ratio))
    memory = column(lambda row: float(row.usage.memory_utilisation_ratio))
    compute = column(lambda row: float(row.usage.compute_utilisation_ratio))

    def predict(chosen: Sequence[int], values: Mapping[str, FloatArray]) -> FloatArray:
        at = list(chosen)
        share = (
            values["resident_ratio"]
            + values["active_ratio"] * kernels[at]
            + values["memory_ratio"] * memory[at]
            + values["compute_ratio"] * compute[at]
        )
        logs: FloatArray = np.log(idle[at] + span[at] * np.minimum(share, 1.0))
        return logs

    return predict


def _power_w(
    document: MeasurementDocument, output_tokens: float, accelerators: int
) -> float | None:
    """Mean power of one accelerator: as measured, or from its energy and rate [W]."""
    figures = document.figures
    for name, power_w in _POWER_OF.items():
        found = None if name not in figures else power_w(figures, output_tokens)
        if found is not None:
            return found if name == "accelerator_power_w" else found / accelerators
    return None


def _of_token(figures: Mapping[str, float], _output_tokens: float) -> float | None:
    rate = figures.get("output_tokens_per_s")
    return None if rate is None else figures["accelerator_energy_per_output_token_j"] * rate


def _of_request(figures: Mapping[str, float], output_tokens: float) -> float | None:
    rate = figures.get("output_tokens_per_s")
    if rate is None:
        return None
    return figures["accelerator_energy_per_request_j"] * rate / output_tokens


#: Power [W] of one accelerator or of all, by what of a document tells.
_POWER_OF: Mapping[str, Callable[[Mapping[str, float], float], float | None]] = {
    "accelerator_power_w": lambda figures, _tokens: figures["accelerator_power_w"],
    "accelerator_energy_per_output_token_j": _of_token,
    "accelerator_energy_per_request_j": _of_request,
}
