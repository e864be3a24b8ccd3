"""Use case: what the core computes of a measured configuration, for the quantities to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import EstimateWarning
from service.core.interval import Interval
from service.estimation.impacts.estimate import impacts_answer
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.deployment import (
    compute_deployment,
    resolve_deployment,
)
from service.estimation.inference.echo import echo
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.quantities import Kind, quantity_of
from service.estimation.measurements.views import served, trained
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems
from service.estimation.training.echo import echo_training
from service.estimation.training.memory import fit_warnings
from service.estimation.training.requests import TrainingRequest
from service.estimation.training.resolve import resolve_training
from service.estimation.training.speed import run_warnings

#: Stands for what a measurement does not name.
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Computed:
    """A measured configuration as it was understood, and how its quantities are estimated.

    ``read`` gives the estimate of a quantity by its name, or raises ``NotEstimated``. ``fits``
    says whether all of it has room in the accelerators' whole memory, None where that means
    nothing. ``software`` is the engine or framework.
    """

    kind: Kind
    model: str
    accelerator: str
    family: str
    software: str
    deployment: Mapping[str, JsonValue]
    fits: bool | None
    warnings: tuple[EstimateWarning, ...]
    read: Callable[[str], Interval]


def computed(document: MeasurementDocument, snapshot: CatalogSnapshot) -> Computed:
    """Compute what a document measured.

    Raises
    ------
    Rejected
        If the request cannot be answered, with pointers into it.
    """
    request = document.request
    if isinstance(request, ImpactsRequest):
        return _impacts(request, snapshot)
    if isinstance(request, TrainingRequest):
        return _training(request, snapshot)
    return _inference(request, document.limits, snapshot)


def _inference(
    request: DeploymentRequest, limits: Mapping[str, float], snapshot: CatalogSnapshot
) -> Computed:
    found = compute_deployment(resolve_deployment(request, snapshot, Problems()))
    resolved, view = found.resolved, served(found, limits)
    memory = found.memory
    return Computed(
        kind="inference",
        model=resolved.model.id,
        accelerator=resolved.accelerator.id,
        family=resolved.deployment.accelerator.family,
        software=resolved.serving.engine,
        deployment=_plain(echo(resolved)),
        # Ran out means all memory, whatever share an engine would have limited itself to.
        fits=found.fits or bool(memory.total_bytes.value <= memory.capacity_bytes),
        warnings=found.warnings,
        read=lambda name: quantity_of(name, "inference").of_served(view),
    )


def _training(request: TrainingRequest, snapshot: CatalogSnapshot) -> Computed:
    resolved = resolve_training(request, snapshot, Problems())
    view = trained(resolved, request, snapshot)
    figures = resolved.figures(snapshot)
    return Computed(
        kind="training",
        model=resolved.model.id,
        accelerator=resolved.accelerator.id,
        family=resolved.setup.deployment.accelerator.family,
        software=resolved.setup.settings.framework,
        deployment=_plain(echo_training(resolved)),
        fits=bool(view.memory.fits),
        warnings=(
            *resolved.warnings,
            *fit_warnings(resolved, view.memory),
            *run_warnings(view.speed, figures),
        ),
        read=lambda name: quantity_of(name, "training").of_trained(view),
    )


def _impacts(request: ImpactsRequest, snapshot: CatalogSnapshot) -> Computed:
    answer = impacts_answer(request, snapshot)
    deployment = answer["deployment"]
    accelerator, family = _UNKNOWN, _UNKNOWN
    if isinstance(request.accelerator, str):
        entry = snapshot.find("accelerators", request.accelerator)
        accelerator, family = entry.id, entry.value.family
    warnings = tuple(
        EstimateWarning(warning["code"], warning["message"]) for warning in answer["warnings"]
    )
    return Computed(
        kind="impacts",
        model=_UNKNOWN if deployment is None else deployment["model"],
        accelerator=accelerator,
        family=family,
        software=_UNKNOWN if deployment is None else deployment["serving"]["engine"],
        deployment=_plain(deployment or {"region": answer["region"], "accelerator": accelerator}),
        fits=None,
        warnings=warnings,
        read=lambda name: quantity_of(name, "impacts").of_spent(answer),
    )


def _plain(echoed: Mapping[str, Any]) -> dict[str, JsonValue]:
    """An echo of what was asked as plain data."""
    return dict(echoed)
