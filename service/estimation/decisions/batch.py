"""Use case: many requests at once, each answered or refused by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.answers import frame
from service.estimation.inference import inference_estimate
from service.estimation.inference_requests import InferenceRequest
from service.estimation.rejection import FieldError, Rejected
from service.estimation.requests import CatalogRequest
from service.estimation.training import training_estimate
from service.estimation.training_requests import EstimateTrainingRequest

#: How validation errors become errors of fields.
Explain = Callable[[ValidationError], list[FieldError]]


def batch_answer(
    requests: list[Mapping[str, Any]], snapshot: CatalogSnapshot, explain: Explain
) -> dict[str, Any]:
    """Answers and refusals in the order of the requests.

    Parameters
    ----------
    requests
        Bodies of single requests.
    snapshot
        The catalog that all are answered from.
    explain
        Puts a validation error in the words of the door that the requests came through.

    Returns
    -------
    dict
        ``items`` with ``answer``, or with ``errors`` where the request was refused.
    """
    return frame(snapshot.revision) | {
        "items": [_item(at, body, snapshot, explain) for at, body in enumerate(requests)]
    }


def _item(
    at: int, body: Mapping[str, Any], snapshot: CatalogSnapshot, explain: Explain
) -> dict[str, Any]:
    try:
        answer = _answered(body, snapshot)
    except ValidationError as invalid:
        errors = explain(invalid)
    except Rejected as rejected:
        errors = list(rejected.errors)
    else:
        return {"index": at, "answer": answer, "errors": []}
    return {
        "index": at,
        "answer": None,
        "errors": [{"pointer": error.pointer, "detail": error.detail} for error in errors],
    }


def _answered(body: Mapping[str, Any], snapshot: CatalogSnapshot) -> dict[str, Any]:
    """The estimate that a body asks for: of a training run if it says how to train."""
    if "training" in body:
        run = EstimateTrainingRequest.model_validate(body, strict=True)
        _refuse_another_catalog(run, snapshot)
        return training_estimate(run, snapshot)
    deployment = InferenceRequest.model_validate(body, strict=True)
    _refuse_another_catalog(deployment, snapshot)
    return inference_estimate(deployment, snapshot)


def _refuse_another_catalog(request: CatalogRequest, snapshot: CatalogSnapshot) -> None:
    """All of a batch is answered from one catalog, which an item cannot choose for itself."""
    if request.catalog_revision not in (None, snapshot.revision):
        raise Rejected([FieldError("/catalog_revision", "is given once, beside the list")])
    if request.as_of is not None:
        raise Rejected([FieldError("/as_of", "is given once, beside the list")])
