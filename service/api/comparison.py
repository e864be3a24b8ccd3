"""Operations over many deployments: batches, comparisons, and the decision matrix.

They take long enough that they are computed beside the event loop, a few at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import ValidationError
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.bodies import read_request
from service.api.http.caching import confirmed_or, entity_tag
from service.api.http.contract import (
    GET_PROBLEMS,
    LISTING_POST_PROBLEMS,
    POST_PROBLEMS,
    Operations,
    body_of,
)
from service.api.http.deprecation import deprecation_headers
from service.api.http.hub_models import with_hub_items
from service.api.http.problems import Problem, invalid, validation_problem
from service.api.http.rates import charge
from service.api.http.state import current_snapshot, shared, snapshot_for
from service.api.http.tables import as_csv, wants_csv
from service.api.http.worker_threads import beside
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.comparison.answers import BatchAnswer
from service.estimation.comparison.batch import batch_answer
from service.estimation.comparison.table import flat_rows
from service.estimation.recommendations.answers import WorkloadPage
from service.estimation.recommendations.requests import BatchRequest
from service.estimation.recommendations.workloads import workload_answers
from service.estimation.rejection import FieldError
from service.estimation.renamed import renamed_in
from service.estimation.use_cases import USE_CASES

router = Operations(prefix="/v1", tags=["decisions"])


@router.post(
    "/estimates/batch",
    operation_id="createEstimateBatch",
    summary="Many estimates in one request, each answered or refused separately",
    responses={200: {"model": BatchAnswer}, **POST_PROBLEMS},
    openapi_extra=body_of(BatchRequest),
)
async def create_batch(http: HttpRequest) -> Response:
    """Answer a list of requests in order.

    Each is a body of /v1/estimates/inference or, with training, of /v1/estimates/training. One
    that is refused has errors in the place of its answer.
    """
    request, snapshot = await _asked(http, BatchRequest)
    _bounded(http, len(request.requests), "/requests")
    items = await with_hub_items(request.requests, shared(http).hub)

    def compute() -> BatchAnswer:
        return batch_answer(items, snapshot, _field_errors)

    response = _json(await beside(http, compute))
    response.headers.update(deprecation_headers(renamed_in(request, snapshot)))
    return response


_COMPARE = USE_CASES["compare"]


@router.post(
    _COMPARE.path,
    operation_id=f"create{_COMPARE.name}",
    summary=_COMPARE.summary,
    description=_COMPARE.description,
    responses={
        200: {"model": _COMPARE.answer, "content": {"text/csv": {"schema": {"type": "string"}}}},
        **LISTING_POST_PROBLEMS,
    },
    openapi_extra=body_of(_COMPARE.request),
)
async def create_comparison(http: HttpRequest) -> Response:
    """Compare as JSON or as CSV."""
    table = wants_csv(http.headers.get("accept", ""))
    request, snapshot = await _asked(http, _COMPARE.request)
    _bounded(http, request.row_count, "")
    answer = await beside(http, lambda: _COMPARE.compute(request, snapshot))
    response = (
        Response(as_csv(flat_rows(answer)), media_type="text/csv") if table else _json(answer)
    )
    response.headers.update(deprecation_headers(renamed_in(request, snapshot)))
    return response


@router.get(
    "/workloads",
    operation_id="listWorkloads",
    summary="The decision matrix: workload kinds, what matters for each, and why",
    responses={200: {"model": WorkloadPage}, **GET_PROBLEMS},
)
async def list_workloads(http: HttpRequest) -> Response:
    """The rows of the matrix, which recommendations select by workload_kind.

    Weights are defaults of this service that every request can replace.
    """
    if http.query_params:
        raise invalid(
            [FieldError(f"/{name[:100]}", "unknown parameter") for name in http.query_params]
        )
    snapshot = await current_snapshot(http)
    tag = entity_tag(snapshot, http.url.path)
    return confirmed_or(http, tag, lambda: _json({"items": workload_answers()}))


async def _asked(http: HttpRequest, model: type[Any]) -> tuple[Any, CatalogSnapshot]:
    request: Any = await read_request(http, model, shared(http).settings.body_limit_bytes)
    return request, await snapshot_for(http, request)


def _bounded(http: HttpRequest, items: int, pointer: str) -> None:
    most = shared(http).settings.batch_limit_items
    if items > most:
        raise invalid(
            [FieldError(pointer, f"{items} estimates; this server accepts at most {most} at once")]
        )
    charge(http, items)


def _field_errors(error: ValidationError) -> list[FieldError]:
    problem: Problem = validation_problem(error, {})
    return list(problem.errors) or [FieldError("", problem.detail)]


def _json(answer: Mapping[str, Any]) -> Response:
    return Response(orjson.dumps(answer), media_type="application/json")
