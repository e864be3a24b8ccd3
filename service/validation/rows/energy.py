"""Measured energy and power of inference deployments, beside the whole estimate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.validation.former.statistics import Compared
from service.validation.rows.deployments import warned
from service.validation.rows.latency import speed_request
from service.validation.rows.tables import Row, RowRefused
from service.validation.rows.vocabulary import Vocabulary, unit_size

_JOULES_PER_WH = 3600.0
#: Energy of accelerators does not depend on the place, but an estimate needs one.
_ANY_REGION = "country/US"
_UNITS = {"avg_power": "W", "energy_per_output_token": "J", "energy_per_request": "J"}


def energy_row(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> Compared:
    """Compare one row of ``energy_inference``: energy and power of accelerators alone."""
    metric = row.text("metric")
    if metric not in _UNITS:
        raise RowRefused(f"{metric[:40]}: a statement about an undisclosed model and prompt")
    size = unit_size(row, vocabulary)
    fields, assumptions = speed_request(row, vocabulary, snapshot)
    answer: Mapping[str, Any] = inference_estimate(
        InferenceRequest(**fields, region=_ANY_REGION), snapshot
    )
    if answer["energy"] is None:
        raise RowRefused("the accelerator's thermal design power is not known")
    name, factor = _figure(metric, answer)
    estimate = {end: value * factor for end, value in answer["energy"][name].items()}
    return Compared(
        row=row,
        metric=metric,
        family=snapshot.accelerators[fields["accelerator"]].value.family,
        unit=_UNITS[metric],
        measured=row.needed("value") * size,
        value=estimate["value"],
        low=estimate["low"],
        high=estimate["high"],
        warnings=(*assumptions, *warned(answer)),
    )


def _figure(metric: str, answer: Mapping[str, Any]) -> tuple[str, float]:
    """Name of the figure that a metric measures, and what to multiply it by."""
    if metric == "avg_power":
        return "accelerator_mean_power_w", float(answer["deployment"]["accelerator_count"])
    if metric == "energy_per_request":
        return "accelerator_energy_per_request_wh", _JOULES_PER_WH
    return "accelerator_energy_per_output_token_j", 1.0
