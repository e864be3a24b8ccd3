"""Listing what can be rented: instances by region and price."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.caching import confirmed_or, entity_tag
from service.api.http.contract import LIST_PROBLEMS, Operations, query_parameters
from service.api.http.problems import invalid
from service.api.http.queries import plain_query, whole_number
from service.api.http.state import current_snapshot
from service.api.http.tables import as_csv, wants_csv
from service.catalog.entries.offers import KINDS
from service.estimation.catalog.offers import SORTS, OfferPage, OfferQuery, list_offers
from service.estimation.rejection import FieldError, Rejected

router = Operations(prefix="/v1", tags=["catalog"])

_USUAL_ITEMS = 50
_MOST_ITEMS = 500
_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_KNOWN: dict[str, dict[str, Any]] = {
    "provider": {**_NAME, "description": "Who rents it out, e.g. aws or runpod."},
    "region": {**_NAME, "description": "Id or alias of a cloud region, e.g. aws/eu-north-1."},
    "instance": {**_NAME, "description": "Id or alias of an instance, e.g. p5.48xlarge."},
    "accelerator": {**_NAME, "description": "Id or alias of an accelerator, e.g. h100."},
    "kind": {
        "type": "string",
        "enum": list(KINDS),
        "description": "How it is paid for; listed where no price is known.",
    },
    "max_usd_per_accelerator_hour": {
        "type": "number",
        "minimum": 0,
        "description": "Highest price of one accelerator; offers without a price are left out.",
    },
    "sort": {
        "type": "string",
        "enum": [sign + name for name in SORTS for sign in ("", "-")],
        "default": "instance",
        "description": "Field to sort by; a leading minus for descending order.",
    },
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": _MOST_ITEMS,
        "default": _USUAL_ITEMS,
        "description": "Largest number of offers per page.",
    },
    "cursor": {
        "type": "string",
        "maxLength": 2000,
        "description": "next_cursor of the previous page; refused (422) with other filters or "
        "after the catalog has changed.",
    },
}


@router.get(
    "/offers",
    operation_id="listOffers",
    summary="List what clouds rent out, by region and price",
    responses={
        200: {"model": OfferPage, "content": {"text/csv": {"schema": {"type": "string"}}}},
        **LIST_PROBLEMS,
    },
    openapi_extra={"parameters": query_parameters(_KNOWN)},
)
async def offers(http: HttpRequest) -> Response:
    """Offers of all providers that match, as JSON, or as CSV if Accept asks for it.

    Prices are list prices without taxes, each with its date. That something is listed does not say
    that it can be had today. The Link header has the next page.
    """
    given = plain_query(http.query_params, _KNOWN)
    query = _query(given)
    snapshot = await current_snapshot(http)
    table = wants_csv(http.headers.get("accept", ""))
    tag = entity_tag(snapshot, "offers", urlencode(given), "csv" if table else "json")

    def page() -> Response:
        try:
            found = list_offers(snapshot, query)
        except Rejected as rejected:
            raise invalid(rejected.errors) from None
        headers = {}
        if found["next_cursor"] is not None:
            following = urlencode(given | {"cursor": found["next_cursor"]})
            headers["Link"] = f'<{http.url.path}?{following}>; rel="next"'
        if table:
            rows = ({name: _cell(value) for name, value in one.items()} for one in found["items"])
            return Response(as_csv(rows), media_type="text/csv", headers=headers)
        return Response(orjson.dumps(found), media_type="application/json", headers=headers)

    return confirmed_or(http, tag, page, vary="Accept")


def _cell(value: object) -> object:
    """What stands in a table: nothing where nothing is known."""
    return "" if value is None else value


def _query(given: dict[str, str]) -> OfferQuery:
    errors = [
        FieldError(f"/{name}", f"must be one of {', '.join(_KNOWN[name]['enum'])}")
        for name in ("kind", "sort")
        if name in given and given[name] not in _KNOWN[name]["enum"]
    ]
    errors += [
        FieldError(f"/{name}", "must have 1 to 200 characters")
        for name in ("provider", "region", "instance", "accelerator")
        if name in given and not 0 < len(given[name]) <= 200
    ]
    most = None
    if "max_usd_per_accelerator_hour" in given:
        try:
            most = float(given["max_usd_per_accelerator_hour"])
        except ValueError:
            most = -1.0
        if not 0 <= most < float("inf"):
            errors.append(
                FieldError("/max_usd_per_accelerator_hour", "must be a number not below zero")
            )
    limit = whole_number(given, "limit", 1, _MOST_ITEMS) or _USUAL_ITEMS
    if errors:
        raise invalid(errors)
    return OfferQuery(
        provider=given.get("provider"),
        region=given.get("region"),
        instance=given.get("instance"),
        accelerator=given.get("accelerator"),
        kind=given.get("kind"),
        most_usd=most,
        sort=given.get("sort", "instance"),
        limit=limit,
        cursor=given.get("cursor"),
    )
