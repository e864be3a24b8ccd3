"""Operations over many deployments: batches, comparisons, and the decision matrix.

They take long enough that they are computed beside the event loop, a few at a time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import orjson
from pydantic import ValidationError
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse

from service.api.http.bodies import read_request
from service.api.http.caching import confirmed_or, entity_tag
from service.api.http.contract import (
    GET_PROBLEMS,
    LISTING_POST_PROBLEMS,
    Operations,
    body_of,
)
from service.api.http.deprecation import deprecation_headers
from service.api.http.hub_models import with_hub_items
from service.api.http.negotiation import preferred
from service.api.http.problems import Problem, invalid, validation_problem
from service.api.http.rates import charge
from service.api.http.state import current_snapshot, shared, snapshot_for
from service.api.http.tables import TABLE, as_csv, wants_csv
from service.api.http.worker_threads import beside
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.comparison.answers import BatchAnswer
from service.estimation.comparison.batch import Item, batch_answer, batch_items
from service.estimation.comparison.table import flat_rows, with_groups
from service.estimation.loads import Respond, answers_bytes
from service.estimation.recommendations.answers import WorkloadPage
from service.estimation.recommendations.requests import BatchRequest
from service.estimation.recommendations.workloads import workload_answers
from service.estimation.references import Request
from service.estimation.rejection import FieldError, Rejected
from service.estimation.renamed import renamed_in
from service.estimation.tables import batch_rows
from service.estimation.use_cases import USE_CASES

router = Operations(prefix="/v1", tags=["decisions"])


#: Forms of a batch, the one that is as welcome as others first.
_BATCH_FORMS = ("application/json", "application/x-ndjson", "text/csv")
#: Requests that are answered in one go where answers leave as they are made.
_AT_ONCE = 64


@router.post(
    "/estimates/batch",
    operation_id="createEstimateBatch",
    summary="Many estimates in one request, each answered or refused separately",
    responses={
        200: {
            "model": BatchAnswer,
            "content": {
                "application/x-ndjson": {"schema": {"$ref": "#/components/schemas/BatchItem"}},
                **TABLE,
            },
        },
        **LISTING_POST_PROBLEMS,
    },
    openapi_extra=body_of(BatchRequest),
)
async def create_batch(http: HttpRequest) -> Response:
    """Answer a list of requests in order.

    Each is a body of /v1/estimates/inference or, with training, of /v1/estimates/training. One
    that is refused has errors in the place of its answer. Accept chooses JSON, CSV with a row for
    each request, or NDJSON: an item on each line, sent as soon as it is computed.
    """
    form = preferred(http.headers.get("accept", ""), _BATCH_FORMS, "batches")
    request, snapshot = await _asked(http, BatchRequest)
    _bounded(http, len(request.requests), "/requests")
    items = await with_hub_items(request.requests, shared(http).hub)
    headers = {
        **deprecation_headers(renamed_in(request, snapshot)),
        "X-Catalog-Revision": str(snapshot.revision),
    }
    if form == "application/x-ndjson":
        # Nothing of what was sent is kept twice, and nothing of what was answered at all.
        return StreamingResponse(
            _lines(http, items, snapshot), media_type=form, headers={**headers, **_UNBUFFERED}
        )

    def compute() -> Response:
        if form == "text/csv":
            table = batch_answer(items, snapshot, _field_errors)
            return Response(as_csv(batch_rows(table["items"])), media_type=form)
        return _json(batch_answer(items, snapshot, _field_errors, _rendered))

    response = await beside(http, compute)
    response.headers.update(headers)
    return response


#: Proxies pass on what leaves piece by piece (nginx's name for it).
_UNBUFFERED = {"X-Accel-Buffering": "no"}


async def _lines(
    http: HttpRequest, items: Sequence[Item], snapshot: CatalogSnapshot
) -> AsyncIterator[bytes]:
    """Items of a batch, one a line, a few at a time and as fast as they are taken."""
    for first in range(0, len(items), _AT_ONCE):

        def compute(first: int = first) -> bytes:
            answers = batch_items(
                items[first : first + _AT_ONCE], snapshot, _field_errors, first, _rendered
            )
            return b"".join(
                orjson.dumps(item, option=orjson.OPT_APPEND_NEWLINE) for item in answers
            )

        yield await beside(http, compute)


_COMPARE = USE_CASES["compare"]


@router.post(
    _COMPARE.path,
    operation_id=f"create{_COMPARE.name}",
    summary=_COMPARE.summary,
    description=_COMPARE.description,
    responses={
        200: {"model": _COMPARE.answer, "content": TABLE},
        **LISTING_POST_PROBLEMS,
    },
    openapi_extra=body_of(_COMPARE.request),
)
async def create_comparison(http: HttpRequest) -> Response:
    """Compare as JSON or as CSV."""
    table = wants_csv(http.headers.get("accept", ""))
    request, snapshot = await _asked(http, _COMPARE.request)
    try:
        spelled = with_groups(request, snapshot)
    except Rejected as rejected:
        raise invalid(rejected.errors) from None
    _bounded(http, spelled.row_count, "")
    answer = await beside(http, lambda: _COMPARE.respond(spelled, snapshot))
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


def _rendered(
    respond: Respond, requests: Sequence[Any], snapshot: CatalogSnapshot
) -> Iterator[orjson.Fragment | Rejected]:
    for told in answers_bytes(respond, requests, snapshot):
        yield told if isinstance(told, Rejected) else orjson.Fragment(told)


def _field_errors(error: ValidationError, model: type[Request]) -> list[FieldError]:
    problem: Problem = validation_problem(error, model)
    return list(problem.errors) or [FieldError("", problem.detail)]


def _json(answer: Mapping[str, Any]) -> Response:
    return Response(orjson.dumps(answer), media_type="application/json")
