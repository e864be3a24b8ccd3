"""What the reports that a snapshot carries say, worked out once for each snapshot."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import ValidationError

from service.catalog.derived import derived
from service.catalog.snapshot import CatalogSnapshot
from service.core.figures import from_figures
from service.core.learning import CHANNELS, Kin, Lessons, Likeness, Observation, Report
from service.estimation.inference.deployment import compute_deployment, resolve_deployment
from service.estimation.learning.channels import (
    SERVED,
    TRAINED,
    corrected_deployment,
    corrected_training,
    nudged,
    observed,
    served_log_sigma,
    trained_log_sigma,
)
from service.estimation.learning.kin import kin_of_deployment, kin_of_training
from service.estimation.learning.learnt import Learnt, Lesson
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.quantities import quantity_of
from service.estimation.measurements.views import served, trained
from service.estimation.rejection import Rejected
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems
from service.estimation.training.requests import TrainingRequest
from service.estimation.training.resolve import resolve_training

#: What ids of calibrations begin with that say how alike deployments are.
CALIBRATIONS = "learning/"
#: Reports of deployments that share less with one are not worth a warning beside it.
_LEAST_ALIKE_RATIO = 0.1

_log = logging.getLogger(__name__)


@derived(most=64)
def lessons(snapshot: CatalogSnapshot) -> Lessons:
    """What the reports of a snapshot say by its own calibrations; kept for each snapshot.

    A report that a catalog or a release cannot make sense of any more says nothing.
    """
    reports = snapshot.reports
    documents = {} if reports is None else reports.documents
    found = [
        report
        for id_, document in documents.items()
        if (report := _report(id_, document, snapshot)) is not None
    ]
    return Lessons(found, likeness(snapshot))


@derived()
def likeness(snapshot: CatalogSnapshot) -> Mapping[str, Likeness]:
    """How alike deployments are, by channel."""
    known = snapshot.calibrations
    return {
        channel: from_figures(Likeness, known[f"{CALIBRATIONS}{channel}"].value)
        for channel in CHANNELS
        if f"{CALIBRATIONS}{channel}" in known
    }


def learn(kin: Kin, log_sigma: Mapping[str, float], snapshot: CatalogSnapshot) -> Learnt | None:
    """What reports say of a deployment, None where there are none to ask."""
    if snapshot.reports is None:
        return None
    told = lessons(snapshot)
    found: dict[str, Lesson] = {}
    for channel, sigma in log_sigma.items():
        taught = told.about(kin, channel, sigma)
        if taught is not None:
            found[channel] = Lesson(taught, sigma)
    return Learnt(snapshot.reports.revision, found, told.ignored(kin, _LEAST_ALIKE_RATIO))


def report_of(id_: int, document: MeasurementDocument, snapshot: CatalogSnapshot) -> Report | None:
    """A document as what it says of the channels; None where it says nothing of any.

    Raises
    ------
    Rejected
        If its request cannot be answered.
    """
    request = document.request
    if isinstance(request, TrainingRequest):
        return _trained(id_, request, document.figures, snapshot)
    if isinstance(request, DeploymentRequest):
        return _served(id_, request, document, snapshot)
    return None


def _report(id_: int, plain: Mapping[str, Any], snapshot: CatalogSnapshot) -> Report | None:
    try:
        document = MeasurementDocument.model_validate(plain)
        return report_of(id_, document, snapshot)
    except (ValidationError, Rejected) as unread:
        _log.warning("Report %d teaches nothing: %s", id_, unread)
        return None


def _served(
    id_: int, request: DeploymentRequest, document: MeasurementDocument, snapshot: CatalogSnapshot
) -> Report:
    resolved = resolve_deployment(request, snapshot, Problems()).alone
    computed = compute_deployment(resolved)
    views = {
        channel: served(compute_deployment(corrected_deployment(resolved, one)), document.limits)
        for channel, one in nudged(SERVED).items()
    }
    published = served(computed, document.limits)

    def read(view: Any, name: str) -> Any:
        return quantity_of(name, "inference").of_served(view)

    return Report(
        id_,
        kin_of_deployment(resolved, computed.estimate),
        served_log_sigma(computed),
        _observations(document.figures, read, published, views),
    )


def _trained(
    id_: int, request: TrainingRequest, measured: Mapping[str, float], snapshot: CatalogSnapshot
) -> Report:
    resolved = resolve_training(request, snapshot, Problems())
    published = trained(resolved, request, snapshot)
    views = {
        channel: trained(corrected_training(resolved, one), request, snapshot)
        for channel, one in nudged(TRAINED).items()
    }

    def read(view: Any, name: str) -> Any:
        return quantity_of(name, "training").of_trained(view)

    return Report(
        id_,
        kin_of_training(resolved),
        trained_log_sigma(published.memory, published.speed),
        _observations(measured, read, published, views),
    )


def _observations(
    measured: Mapping[str, float], read: Any, published: Any, views: Mapping[str, Any]
) -> tuple[Observation, ...]:
    return observed(
        measured,
        partial(read, published),
        {channel: partial(read, view) for channel, view in views.items()},
    )
