"""Pages to read: the catalog, claims, techniques, the documentation, and what is not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, RedirectResponse, Response

from service.api.http.caching import confirmed_or_awaited, entity_tag
from service.api.http.contract import outline
from service.api.http.problems import PROBLEM_TYPES, Problem, not_found
from service.api.http.queries import plain_query
from service.api.http.state import current_snapshot
from service.api.http.worker_threads import beside
from service.catalog.entries.references import UnknownReference
from service.catalog.snapshot import CatalogSnapshot
from service.portal import catalog_pages, learn, reference
from service.portal.documents import document_names, document_page
from service.portal.rendering import rendered

router = APIRouter(tags=["page"], include_in_schema=False)

#: What pages to read may run and load: they bring no script.
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_LISTED = {
    "q": {"type": "string", "maxLength": 100},
    "cursor": {"type": "string", "maxLength": 200},
}
#: What errors are called on pages, where their kind has a name for programs.
_TITLES = {404: "There is no such page", 500: "Something went wrong here"}
#: Paths whose errors are for programs, whatever they accept.
_FOR_PROGRAMS = "/v1/"


@router.get("/learn")
async def learn_page(http: HttpRequest) -> Response:
    """Where everything that stands behind a figure can be read."""
    return await _read(http, learn.learn_page)


@router.get("/claims")
async def claims(http: HttpRequest) -> Response:
    """Circulating figures beside what they come to."""
    return await _read(http, learn.claims_page)


@router.get("/techniques")
async def techniques(http: HttpRequest) -> Response:
    """What saves memory, and what it costs."""
    return await _read(http, learn.techniques_page)


@router.get("/catalog")
async def catalog(http: HttpRequest) -> Response:
    """What the catalog holds."""
    return await _read(http, catalog_pages.catalog_page)


@router.get("/catalog/{collection}")
async def collection(http: HttpRequest, collection: str) -> Response:
    """A list of entries."""
    _known(collection)
    asked = [(name, text) for name, text in http.query_params.multi_items() if text.strip()]
    given = plain_query(type(http.query_params)(asked), _LISTED)
    return await _read(
        http,
        lambda snapshot: catalog_pages.collection_page(
            collection, given.get("q"), given.get("cursor"), snapshot
        ),
        urlencode(given),
    )


@router.get("/catalog/{collection}/{id_:path}")
async def entry(http: HttpRequest, collection: str, id_: str) -> Response:
    """An entry with its figures and their sources."""
    _known(collection)

    def show(snapshot: CatalogSnapshot) -> str:
        try:
            return catalog_pages.entry_page(collection, id_, snapshot)
        except UnknownReference as unknown:
            name = catalog_pages.COLLECTIONS[collection][0].lower()
            what = f"entry among the {name}"
            raise not_found(what, f"/catalog/{collection}", unknown) from None

    return await _read(http, show)


@router.get("/docs")
async def docs(http: HttpRequest) -> Response:
    """Every operation of the API."""
    return await _read(http, lambda _: reference.reference_page(outline(http.app)))


@router.get("/docs/api/{name}")
async def operation(http: HttpRequest, name: str) -> Response:
    """One operation of the API."""
    return await _referred(http, name, reference.operation_page)


@router.get("/docs/shapes/{name}")
async def shape(http: HttpRequest, name: str) -> Response:
    """What a body or an answer of the API holds."""
    return await _referred(http, name, reference.shape_page)


@router.get("/docs/{name:path}")
async def document(http: HttpRequest, name: str) -> Response:
    """A chapter of the documentation."""
    meant = name.removesuffix("/")
    if meant != name and meant in document_names():
        return RedirectResponse(f"{'../' * name.count('/')}{meant}", 308)
    name = name.removesuffix(".md")
    if name not in document_names():
        raise Problem("not-found", "there is no such chapter; docs/index lists all of them")
    return await _read(http, lambda _: document_page(name))


def wants_page(http: HttpRequest) -> bool:
    """Whether a person asks, with a browser, so that an error is answered as a page."""
    path = http.scope["path"].removeprefix(http.scope.get("root_path", ""))
    accepted = http.headers.get("accept", "")
    return "text/html" in accepted and not path.startswith(_FOR_PROGRAMS)


def problem_page(http: HttpRequest, problem: Problem) -> Response:
    """An error as a page, with ways on."""
    kind = PROBLEM_TYPES[problem.slug]
    path = http.scope["path"].removeprefix(http.scope.get("root_path", ""))
    title = _TITLES.get(kind.status, kind.title)
    suggestions = [one for one in problem.suggestions if one.startswith("/catalog/")]
    said = problem.detail.partition(";")[0] if suggestions else problem.detail
    detail = f"{said[:1].upper()}{said[1:]}.{' Did you mean:' if suggestions else ''}"
    if kind.status == 500:
        detail += f" It is number {http.scope['request_id']}, should you want to report it."
    text = rendered(
        "problem.html",
        up="../" * max(path.count("/") - 1, 0),
        here="",
        title=title,
        trail=(),
        detail=detail,
        suggestions=suggestions,
    )
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"}
    return HTMLResponse(text, kind.status, headers | problem.headers)


def _known(collection: str) -> None:
    if collection not in catalog_pages.COLLECTIONS:
        listed = ", ".join(catalog_pages.COLLECTIONS)
        raise Problem("not-found", f"the catalog has no such list; it has {listed}")


async def _referred(
    http: HttpRequest, name: str, show: Callable[[Mapping[str, Any], str], str]
) -> Response:
    """A page of the API reference."""
    try:
        return await _read(http, lambda _: show(http.app.openapi(), name))
    except KeyError:
        raise Problem("not-found", "the API has nothing of that name") from None


async def _read(
    http: HttpRequest, show: Callable[[CatalogSnapshot], str], asked: str = ""
) -> Response:
    snapshot = await current_snapshot(http)

    async def make() -> Response:
        text = await beside(http, lambda: show(snapshot))
        return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY})

    return await confirmed_or_awaited(http, entity_tag(snapshot, http.url.path, asked), make)
