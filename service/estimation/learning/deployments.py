"""Deployments and training runs resolved for whoever asks, corrected by what they measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from service.catalog.snapshot import CatalogSnapshot
from service.core.learning import NO_CORRECTIONS
from service.estimation.answers import CalibrationUsed
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.deployment import (
    ResolvedDeployment,
    compute_deployment,
    resolve_deployment,
)
from service.estimation.learning.channels import (
    corrected_deployment,
    corrected_training,
    served_log_sigma,
    trained_log_sigma,
)
from service.estimation.learning.kin import kin_of_deployment, kin_of_training
from service.estimation.learning.learnt import Learnt
from service.estimation.learning.lessons import learn
from service.estimation.measurements.views import trained
from service.estimation.references import CatalogRequest
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems
from service.estimation.training.requests import TrainingRequest
from service.estimation.training.resolve import resolve_training
from service.estimation.training.setup import ResolvedTraining


class Taught(Protocol):
    """What may have learnt from reports."""

    @property
    def learnt(self) -> Learnt | None:
        """How own measurements corrected it, None without any."""


def learnt_deployment(
    request: DeploymentRequest | ImpactsRequest, snapshot: CatalogSnapshot, problems: Problems
) -> ResolvedDeployment:
    """A deployment with the calibration that the request asks for.

    Raises
    ------
    Rejected
        With everything that is wrong with it, and all that ``problems`` held before.
    """
    own = _is_own(request, snapshot, problems)
    resolved = resolve_deployment(request, snapshot, problems)
    if not own:
        return resolved
    published = compute_deployment(resolved.alone)
    learnt = learn(
        kin_of_deployment(resolved, published.estimate), served_log_sigma(published), snapshot
    )
    if learnt is None:
        return resolved
    if learnt.corrections != NO_CORRECTIONS:
        # What was measured is what runs, whatever release that is.
        resolved = resolved.alone
    corrected = corrected_deployment(resolved, learnt.corrections)
    return replace(corrected, learnt=learnt, warnings=(*resolved.warnings, *learnt.warnings()))


def learnt_training(
    request: TrainingRequest, snapshot: CatalogSnapshot, problems: Problems
) -> ResolvedTraining:
    """A training run with the calibration that the request asks for.

    Raises
    ------
    Rejected
        With everything that is wrong with it, and all that ``problems`` held before.
    """
    own = _is_own(request, snapshot, problems)
    resolved = resolve_training(request, snapshot, problems)
    if not own:
        return resolved
    published = trained(resolved, request, snapshot)
    sigma = trained_log_sigma(published.memory, published.speed)
    learnt = learn(kin_of_training(resolved), sigma, snapshot)
    if learnt is None:
        return resolved
    corrected = corrected_training(resolved, learnt.corrections)
    return replace(corrected, learnt=learnt, warnings=(*resolved.warnings, *learnt.warnings()))


def calibration_used(request: CatalogRequest, resolved: Taught) -> CalibrationUsed | None:
    """What an answer says of own measurements; None where nobody asked and there are none."""
    if resolved.learnt is not None:
        return resolved.learnt.block
    return None if request.calibration is None else {"mode": "published"}


def _is_own(request: CatalogRequest, snapshot: CatalogSnapshot, problems: Problems) -> bool:
    """Whether a question is to be answered by own measurements.

    Whoever computes for a single configuration of a list has been given the reports of the list.
    """
    reports, revision = snapshot.reports, request.calibration_revision
    if reports is None:
        detail = "own measurements are an organisation's: ask a server, with an API key"
        if request.calibration == "own":
            problems.add("/calibration", detail)
        if revision is not None and request.calibration != "published":
            problems.add("/calibration_revision", detail)
        return False
    if revision not in (None, reports.revision):
        problems.add("/calibration_revision", "give it once, beside the list")
    return request.calibration != "published"
