"""Use case: many requests at once, each answered or refused by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from pydantic import ValidationError

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.answers import frame
from service.estimation.bodies import whole_numbers
from service.estimation.comparison.answers import BatchAnswer, BatchItem, field_problem
from service.estimation.inference.answers import InferenceAnswer
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.references import CatalogRequest, Request
from service.estimation.rejection import FieldError, Rejected
from service.estimation.remarks import remarking, untold
from service.estimation.renamed import with_renamings
from service.estimation.shaping import shape
from service.estimation.training.answers import EstimateTrainingAnswer
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest

#: A body as it was sent, a request made of it, or why none could be made.
Item: TypeAlias = Mapping[str, Any] | InferenceRequest | EstimateTrainingRequest | Rejected
#: How validation errors become errors of fields.
Explain = Callable[[ValidationError, type[Request]], list[FieldError]]
#: How answers are told, or why there is none, given what answers, the requests and the catalog.
Tell: TypeAlias = Callable[
    [Callable[[Any, CatalogSnapshot], Any], Sequence[Any], CatalogSnapshot], Iterable[Any]
]


def _whole(
    respond: Callable[[Any, CatalogSnapshot], Any],
    requests: Sequence[Any],
    snapshot: CatalogSnapshot,
) -> Iterator[Any]:
    for request in requests:
        try:
            yield respond(request, snapshot)
        except Rejected as rejected:
            yield rejected


def batch_answer(
    requests: Sequence[Item], snapshot: CatalogSnapshot, explain: Explain, tell: Tell = _whole
) -> BatchAnswer:
    """Answers and refusals in the order of the requests.

    Parameters
    ----------
    requests
        Bodies of single requests, or what the entry point made of them.
    snapshot
        The catalog that all are answered from.
    explain
        Puts a validation error in the words of the entry point that took the requests.
    tell
        Puts answers in their form, given what answers, the requests and the catalog; in the place
        of one that there is none of, it gives why.
    """
    items = batch_items(requests, snapshot, explain, tell=tell)
    return {**frame(snapshot.revision), "items": items}


def batch_items(
    requests: Iterable[Item],
    snapshot: CatalogSnapshot,
    explain: Explain,
    first: int = 0,
    tell: Tell = _whole,
) -> list[BatchItem]:
    """Items of a batch, or of a part of it that begins at ``first``."""
    asked = [_asked(body, snapshot, explain) for body in requests]
    told = iter(tell(_answered, [one for one in asked if isinstance(one, Request)], snapshot))
    return [
        _item(at, next(told) if isinstance(one, Request) else one)
        for at, one in enumerate(asked, first)
    ]


def _asked(body: Item, snapshot: CatalogSnapshot, explain: Explain) -> Request | Rejected:
    """The request that an item means, or why it is none."""
    try:
        if isinstance(body, Rejected):
            return body
        request = request_of(body) if isinstance(body, Mapping) else body
        _refuse_another_catalog(request, snapshot)
    except ValidationError as invalid:
        return Rejected(explain(invalid, _model_of(body)))
    except Rejected as rejected:
        return rejected
    return request


def _item(at: int, told: Any) -> BatchItem:
    if isinstance(told, Rejected):
        errors = [field_problem(error) for error in told.errors]
        return {"index": at, "answer": None, "errors": errors}
    return {"index": at, "answer": told, "errors": []}


def request_of(body: Mapping[str, Any]) -> InferenceRequest | EstimateTrainingRequest:
    """The request that a body means: about a training run if it says how to train.

    Raises
    ------
    ValidationError
        If it means none.
    """
    model: Any = _model_of(body)
    try:
        return cast("InferenceRequest", model.model_validate(body, strict=True))
    except ValidationError:
        # Whole numbers may be spelled with a fraction of zero.
        return cast("InferenceRequest", model.model_validate(whole_numbers(body), strict=True))


def _model_of(body: Any) -> type[Request]:
    return EstimateTrainingRequest if "training" in body else InferenceRequest


def _answered(
    request: InferenceRequest | EstimateTrainingRequest, snapshot: CatalogSnapshot
) -> InferenceAnswer | EstimateTrainingAnswer:
    answer, compute = _OF[type(request)]
    wanted = shape(answer, request.include, request.fields)
    told = wanted.told(compute(request, snapshot, wanted.detail))
    return cast("InferenceAnswer | EstimateTrainingAnswer", told)


def _warning(answer: Any, compute: Any) -> tuple[Any, Any]:
    return answer, remarking(answer)(with_renamings(untold(compute)))


#: Answers and use cases, by the type of the request.
_OF: Mapping[type[Request], tuple[Any, Any]] = {
    InferenceRequest: _warning(InferenceAnswer, inference_estimate),
    EstimateTrainingRequest: _warning(EstimateTrainingAnswer, training_estimate),
}


def _refuse_another_catalog(request: CatalogRequest, snapshot: CatalogSnapshot) -> None:
    """All of a batch is answered from one catalog, which an item cannot choose for itself."""
    if request.catalog_revision not in (None, snapshot.revision):
        raise Rejected([FieldError("/catalog_revision", "give it once, beside the list")])
    if request.as_of is not None:
        raise Rejected([FieldError("/as_of", "give it once, beside the list")])
