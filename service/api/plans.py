"""Operations that plan over years, days and sites: as JSON, or as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.bodies import read_request
from service.api.http.contract import LISTING_POST_PROBLEMS, Operations, body_of
from service.api.http.deprecation import deprecation_headers
from service.api.http.state import shared, snapshot_for
from service.api.http.tables import TABLE, as_csv, wants_csv
from service.api.http.worker_threads import beside
from service.estimation.plans.tables import fleet_rows, site_rows, traffic_rows
from service.estimation.renamed import renamed_in
from service.estimation.use_cases import USE_CASES, UseCase

router = Operations(prefix="/v1", tags=["plans"])


def _add(use_case: UseCase, rows: Callable[[Mapping[str, Any]], list[dict[str, Any]]]) -> None:
    async def create(http: HttpRequest) -> Response:
        table = wants_csv(http.headers.get("accept", ""))
        limit_bytes = shared(http).settings.body_limit_bytes
        request: Any = await read_request(http, use_case.request, limit_bytes)
        snapshot = await snapshot_for(http, request)

        def compute() -> Response:
            response = (
                Response(as_csv(rows(use_case.compute(request, snapshot))), media_type="text/csv")
                if table
                else Response(
                    orjson.dumps(use_case.respond(request, snapshot)), media_type="application/json"
                )
            )
            response.headers.update(deprecation_headers(renamed_in(request, snapshot)))
            return response

        return await beside(http, compute)

    router.add_api_route(
        use_case.path,
        create,
        methods=["POST"],
        operation_id=f"create{use_case.name}",
        summary=use_case.summary,
        description=use_case.description,
        responses={
            200: {
                "model": use_case.answer,
                "content": TABLE,
            },
            **LISTING_POST_PROBLEMS,
        },
        openapi_extra=body_of(use_case.request),
    )


_add(USE_CASES["plans/fleet"], fleet_rows)
_add(USE_CASES["plans/traffic"], traffic_rows)
_add(USE_CASES["plans/site"], site_rows)
