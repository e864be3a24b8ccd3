"""The form of catalog entries as JSON Schema, for those who write some."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.catalog.writing import schemas_of
from service.api.http.caching import confirmed_or, entity_tag
from service.api.http.contract import ITEM_PROBLEMS, Operations, path_parameter
from service.api.http.problems import none_of
from service.api.http.queries import plain_query
from service.api.http.state import current_snapshot
from service.catalog.entries.documents import COLLECTIONS

router = Operations(prefix="/v1/catalog", tags=["catalog"])


@router.get(
    "/schemas/{collection}",
    operation_id="getCatalogSchema",
    summary="The JSON Schema of a collection's entries",
    response_class=Response,
    responses={
        200: {"content": {"application/schema+json": {"schema": {"type": "object"}}}},
        **ITEM_PROBLEMS,
    },
    openapi_extra={
        "parameters": [
            path_parameter(
                "collection",
                "Collection of the catalog, e.g. accelerators or calibrations.",
                {"type": "string", "minLength": 1, "maxLength": 100},
            )
        ]
    },
)
async def get_schema(http: HttpRequest) -> Response:
    """The schema (JSON Schema, draft 2020-12) that writes and imports must follow."""
    plain_query(http.query_params, {})
    known = {name: form for name, form in schemas_of(http).items() if name in COLLECTIONS}
    collection: str = http.path_params["collection"]
    if collection not in known:
        raise none_of("collection", "/v1/catalog/schemas", collection, sorted(known))
    schema: Any = known[collection].schema
    tag = entity_tag(await current_snapshot(http), "schemas", collection)
    return confirmed_or(
        http, tag, lambda: Response(orjson.dumps(schema), media_type="application/schema+json")
    )
