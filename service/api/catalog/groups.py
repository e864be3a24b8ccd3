"""Listing groups of regions."""

from __future__ import annotations

import orjson
from anyio import to_thread
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.caching import confirmed_or, entity_tag
from service.api.http.contract import GET_PROBLEMS, Operations
from service.api.http.queries import plain_query
from service.api.http.state import current_snapshot
from service.catalog.entries.texts import packaged_texts
from service.catalog.region_groups import listed_groups
from service.estimation.answers import Answer

router = Operations(prefix="/v1", tags=["catalog"])


class RegionGroup(Answer):
    """Countries that are asked about together."""

    id: str
    name: str
    aliases: list[str]
    countries: list[str]
    """ISO 3166-1 alpha-2 codes."""
    average: str | None
    """Region that stands for the whole group where one place is asked for; null where no average is
    published."""
    regions: list[str]
    """Ids of the cloud regions in them."""


class RegionGroups(Answer):
    """All groups."""

    items: list[RegionGroup]
    catalog_revision: int


@router.get(
    "/region-groups",
    operation_id="listRegionGroups",
    summary="List groups of regions that searches take",
    responses={200: {"model": RegionGroups}, **GET_PROBLEMS},
)
async def region_groups(http: HttpRequest) -> Response:
    """Groups such as eu and nordics, with the cloud regions in them.

    Searches take their ids and aliases where regions are listed, and all cloud regions of a
    provider, country or state as aws/*, DE/* or california/*.
    """
    plain_query(http.query_params, {})
    snapshot = await current_snapshot(http)
    await to_thread.run_sync(packaged_texts)  # reads files the first time
    body = {"items": listed_groups(snapshot), "catalog_revision": snapshot.revision}
    tag = entity_tag(snapshot, "region-groups")
    return confirmed_or(
        http, tag, lambda: Response(orjson.dumps(body), media_type="application/json")
    )
