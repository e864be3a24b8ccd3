"""Operations that estimate: each answers POST with a body and GET with a flat query.

Both answer as JSON, or as a table of all figures.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.bodies import read_request
from service.api.http.caching import confirmed_or, entity_tag
from service.api.http.contract import (
    GET_PROBLEMS,
    POST_PROBLEMS,
    Operations,
    as_link,
    body_of,
    query_of,
)
from service.api.http.deprecation import deprecation_headers
from service.api.http.hub_models import with_hub_models
from service.api.http.problems import invalid
from service.api.http.queries import linked_request
from service.api.http.state import shared, snapshot_for
from service.api.http.tables import TABLE, as_csv, wants_csv
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.loads import answer_bytes
from service.estimation.rejection import Rejected
from service.estimation.renamed import renamed_in
from service.estimation.tables import figure_rows
from service.estimation.use_cases import USE_CASES, UseCase

router = Operations(prefix="/v1", tags=["estimates"])


def _add(operation: UseCase) -> None:
    def respond(request: Any, snapshot: CatalogSnapshot, table: bool) -> Response:
        try:
            if table:
                content: str | bytes = as_csv(figure_rows(operation.respond(request, snapshot)))
            else:
                content = answer_bytes(operation.respond, request, snapshot)
        except Rejected as rejected:
            raise invalid(rejected.errors) from None
        headers = deprecation_headers(renamed_in(request, snapshot))
        kind = "text/csv" if table else "application/json"
        return Response(content, media_type=kind, headers=headers)

    async def post(http: HttpRequest) -> Response:
        table = wants_csv(http.headers.get("accept", ""))
        limit_bytes = shared(http).settings.body_limit_bytes
        request: Any = await read_request(http, operation.request, limit_bytes)
        return respond(request, await snapshot_for(http, request), table)

    async def get(http: HttpRequest) -> Response:
        table = wants_csv(http.headers.get("accept", ""))
        asked: Any = await linked_request(http, operation.request)
        request = await with_hub_models(asked, shared(http).hub)
        snapshot = await snapshot_for(http, request)
        form = "csv" if table else "json"
        tag = entity_tag(snapshot, operation.path, form, request.model_dump_json())
        return confirmed_or(http, tag, lambda: respond(request, snapshot, table), "Accept")

    documented: dict[int | str, dict[str, Any]] = {
        200: {"model": operation.answer, "content": TABLE}
    }
    router.add_api_route(
        operation.path,
        post,
        methods=["POST"],
        operation_id=f"create{operation.name}",
        summary=operation.summary,
        description=operation.description,
        responses=documented | POST_PROBLEMS,
        openapi_extra=body_of(operation.request),
    )
    router.add_api_route(
        operation.path,
        get,
        methods=["GET"],
        operation_id=f"get{operation.name}",
        summary=f"{operation.summary}, by query parameters",
        description=as_link(operation.description),
        responses=documented | GET_PROBLEMS,
        openapi_extra=query_of(operation.request),
    )


#: Use cases that answer at once, as a link too.
LINKED = tuple(use_case for use_case in USE_CASES.values() if not use_case.searches)

#: Routes are tried in this order: what is asked most comes first.
for _use_case in sorted(LINKED, key=lambda one: not one.path.startswith("/estimates/")):
    _add(_use_case)
