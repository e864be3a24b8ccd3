"""Sweeps of either kind by what was asked: of serving, or of training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.sweeps.chunks import Rows, evaluate_chunk
from service.estimation.sweeps.plan import Study, resolve_study
from service.estimation.sweeps.requests import SweepRequest
from service.estimation.sweeps.training import (
    TrainingStudy,
    evaluate_run_chunk,
    resolve_training_study,
)
from service.estimation.sweeps.training_requests import TrainingSweepRequest

AskedSweep: TypeAlias = SweepRequest | TrainingSweepRequest
AnyStudy: TypeAlias = Study | TrainingStudy


def kind_of(body: Mapping[str, object]) -> type[SweepRequest] | type[TrainingSweepRequest]:
    """What a request asks for: what is trained tells runs of training from deployments."""
    return TrainingSweepRequest if "training" in body else SweepRequest


def asked_sweep(content: str | bytes) -> AskedSweep:
    """A request as it was kept."""
    return kind_of(json.loads(content)).model_validate_json(content, strict=True)


def resolved_sweep(request: AskedSweep, snapshot: CatalogSnapshot) -> AnyStudy:
    """Fill in a sweep from the catalog and divide it.

    Raises
    ------
    Rejected
        With everything that is wrong with the request.
    """
    if isinstance(request, TrainingSweepRequest):
        return resolve_training_study(request, snapshot)
    return resolve_study(request, snapshot)


def evaluated_chunk(study: AnyStudy, chunk: int) -> Rows:
    """The rows of the chunk at a position."""
    if isinstance(study, TrainingStudy):
        return evaluate_run_chunk(study, study.chunks[chunk])
    return evaluate_chunk(study, study.chunks[chunk])
