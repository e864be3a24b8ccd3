"""Reading the catalog: lists with search, filters, order and cursor pages, and single entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.catalog.entries import ENTRIES, NAMES, PAGES
from service.api.http.caching import confirmed_or, entity_tag, entry_tag
from service.api.http.contract import (
    ITEM_PROBLEMS,
    LIST_PROBLEMS,
    Operations,
    path_parameter,
    query_parameters,
)
from service.api.http.deprecation import deprecation_headers
from service.api.http.problems import invalid, not_found
from service.api.http.queries import plain_query, whole_number
from service.api.http.state import current_snapshot
from service.api.http.tables import as_csv, wants_csv
from service.catalog.entries.references import UnknownReference
from service.estimation.catalog.listing import (
    Listing,
    entry_answer,
    list_entries,
    whole_entry_answer,
)
from service.estimation.rejection import FieldError, Rejected

router = Operations(prefix="/v1", tags=["catalog"])

_MOST_ITEMS = 200
_USUAL_ITEMS = 50

#: What each collection can be filtered by: fields that must be equal, figures with a lower bound.
#: Each comes with what it is.
_FILTERS: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "accelerators": (
        {
            "vendor": "Manufacturer, e.g. NVIDIA",
            "family": "Hardware family, whose members share measured efficiencies, e.g. "
            "nvidia-hopper",
            "form_factor": "Form factor, e.g. sxm, oam, pcie, soc",
            "memory_technology": "Kind of memory, e.g. HBM3",
        },
        {"memory_bytes": "memory", "memory_bandwidth_bytes_per_s": "peak memory bandwidth"},
    ),
    "platforms": (
        {
            "kind": "Class of machine, e.g. server-8, desktop, laptop",
            "site_class": "Where it usually stands: hyperscale, colocation, enterprise, office or "
            "home",
            "vendor": "Manufacturer, e.g. NVIDIA",
        },
        {},
    ),
    "models": (
        {
            "organisation": "Who published it, e.g. Meta",
            "base_model": "Quantised releases of a model, e.g. Qwen/Qwen3-8B",
        },
        {},
    ),
    "regions": (
        {
            "kind": "cloud, country, state or grid",
            "country": "ISO 3166-1 alpha-2 code, e.g. SE",
            "subdivision": "State or province by ISO 3166-2, e.g. US-VA",
            "parent": "Id of the region whose figures are used where its own are missing, e.g. "
            "country/US",
        },
        {},
    ),
    "memory-tiers": (
        {
            "kind": "Place in the memory hierarchy: on-chip, device, host, expansion, pool, "
            "storage, processing-in-memory or compute-in-memory",
            "technology": "Kind of memory, e.g. DDR5",
        },
        {"bandwidth_bytes_per_s": "bandwidth of a unit", "capacity_bytes": "capacity of a unit"},
    ),
    "interconnects": (
        {"family": "Kind of link, e.g. nvlink"},
        {"bandwidth_bytes_per_s": "bandwidth of an endpoint in one direction"},
    ),
    "instances": (
        {
            "provider": "Cloud that rents it out, e.g. aws",
            "accelerator": "Id of its accelerator, e.g. nvidia-h100-sxm-80gb",
        },
        {"host_memory_bytes": "host memory", "network_bytes_per_s": "network bandwidth"},
    ),
    "engines": ({}, {}),
    "rules": (
        {
            "subject": "Subject: site, company or model",
            "effect": "Effect: limit, report, permit or advice",
            "status": "in_force, draft, stayed or repealed",
        },
        {},
    ),
    "sources": ({"publisher": "Who published it, e.g. NVIDIA", "kind": "primary or secondary"}, {}),
}
#: What reading says beside what an entry is.
_LISTED = (
    "One page as JSON, or as CSV if Accept asks for it. With an API key it includes your "
    "organisation's own entries. The Link header has the next page."
)
_READ = "Send the ETag in If-Match to change the entry."
_PAGING: Mapping[str, dict[str, Any]] = {
    "q": {
        "type": "string",
        "maxLength": 200,
        "description": "Words of an id, name or alias; small spelling mistakes are tolerated.",
    },
    "sort": {
        "type": "string",
        "pattern": "^-?[a-z0-9_]{1,60}$",
        "default": "id",
        "description": "Field or figure to sort by; a leading minus for descending order.",
    },
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": _MOST_ITEMS,
        "default": _USUAL_ITEMS,
        "description": "Largest number of entries per page.",
    },
    "cursor": {
        "type": "string",
        "maxLength": 1000,
        "description": "next_cursor of the previous page; refused (422) with another sort order "
        "or after the catalog has changed.",
    },
}


def _add(collection: str) -> None:
    equal, at_least = _FILTERS[collection]
    known: dict[str, dict[str, Any]] = {
        **_PAGING,
        **{
            name: {
                "type": "string",
                "maxLength": 200,
                "description": f"{what}; only matching entries, case-insensitive.",
            }
            for name, what in equal.items()
        },
        **{
            f"min_{name}": {
                "type": "number",
                "minimum": 0,
                "description": f"Lowest {what}; entries without that figure are left out.",
            }
            for name, what in at_least.items()
        },
    }

    async def list_(http: HttpRequest) -> Response:
        given = plain_query(http.query_params, known)
        listing = _listing(given, equal, at_least)
        snapshot = await current_snapshot(http)
        table = wants_csv(http.headers.get("accept", ""))
        tag = entity_tag(snapshot, http.url.path, urlencode(given), "csv" if table else "json")

        def page() -> Response:
            try:
                found = list_entries(snapshot, collection, listing)
            except Rejected as rejected:
                raise invalid(rejected.errors) from None
            items = [entry_answer(snapshot, collection, entry) for entry in found.entries]
            headers = {}
            if found.next_cursor is not None:
                following = urlencode(given | {"cursor": found.next_cursor})
                headers["Link"] = f'<{http.url.path}?{following}>; rel="next"'
            if table:
                return Response(as_csv(items), media_type="text/csv", headers=headers)
            body = {
                "items": items,
                "next_cursor": found.next_cursor,
                "catalog_revision": snapshot.revision,
            }
            return Response(orjson.dumps(body), media_type="application/json", headers=headers)

        return confirmed_or(http, tag, page, vary="Accept")

    async def item(http: HttpRequest) -> Response:
        plain_query(http.query_params, {})
        snapshot = await current_snapshot(http)
        try:
            entry = snapshot.find(collection, http.path_params["id"])
        except UnknownReference as unknown:
            what = f"entry among the {collection}"
            raise not_found(what, f"/v1/{collection}", unknown) from None
        former = snapshot.renamed.get(collection, {}).get(http.path_params["id"].casefold())
        headers = deprecation_headers([] if former is None else [former])
        body = orjson.dumps(whole_entry_answer(snapshot, collection, entry))
        tag = entry_tag(entry.document, body)
        return confirmed_or(
            http, tag, lambda: Response(body, media_type="application/json", headers=headers)
        )

    page_schema: dict[int | str, dict[str, Any]] = {
        200: {"model": PAGES[collection], "content": {"text/csv": {"schema": {"type": "string"}}}}
    }
    router.add_api_route(
        f"/{collection}",
        list_,
        methods=["GET"],
        operation_id=f"list{NAMES[collection]}s",
        summary=f"List the catalog's {collection}",
        description=f"{ENTRIES[collection].__doc__} {_LISTED}",
        responses=page_schema | LIST_PROBLEMS,
        openapi_extra={"parameters": query_parameters(known)},
    )
    id_parameter = path_parameter("id", "Id or alias; ids may contain slashes.")
    router.add_api_route(
        f"/{collection}/{{id:path}}",
        item,
        methods=["GET"],
        operation_id=f"get{NAMES[collection]}",
        summary=f"One of the catalog's {collection}, with the sources of its figures",
        description=f"{ENTRIES[collection].__doc__} {_READ}",
        responses={200: {"model": ENTRIES[collection]}, **ITEM_PROBLEMS},
        openapi_extra={"parameters": [id_parameter]},
    )


for _collection in _FILTERS:
    _add(_collection)


def _listing(given: Mapping[str, str], equal: Iterable[str], at_least: Iterable[str]) -> Listing:
    errors: list[FieldError] = []
    limit = whole_number(given, "limit", 1, _MOST_ITEMS) or _USUAL_ITEMS
    sort = given.get("sort", "id")
    if not sort.removeprefix("-").replace("_", "a").isalnum() or not sort.isascii():
        errors.append(FieldError("/sort", "must be the name of a field or figure"))
    bounds: dict[str, float] = {}
    for name in at_least:
        least = given.get(f"min_{name}")
        if least is None:
            continue
        try:
            bounds[name] = float(least)
        except ValueError:
            bounds[name] = -1.0
        if not 0 <= bounds[name] < float("inf"):
            errors.append(FieldError(f"/min_{name}", "must be a number not below zero"))
    if errors:
        raise invalid(errors)
    return Listing(
        text=given.get("q"),
        equal={name: given[name] for name in equal if name in given},
        at_least=bounds,
        sort=sort,
        limit=limit,
        cursor=given.get("cursor"),
    )
