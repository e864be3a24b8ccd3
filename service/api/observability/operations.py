"""What operators ask: is it alive, is it ready, how is it doing, what do problems mean."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import asdict
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Any

import orjson
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from service import ENGINE_VERSION
from service.api.http.contract import Operations
from service.api.http.problems import PROBLEM_TYPES, Problem
from service.api.http.state import shared
from service.api.observability.answers import Liveness, Readiness
from service.extras import EXTRAS, is_installed

router = Operations(tags=["operations"])

_ALIVE = orjson.dumps({"status": "alive"})
#: Files of the documentation page: media type, and whether they are stored compressed.
_ASSETS = {
    "swagger-ui-bundle.js": ("text/javascript", True),
    "swagger-ui.css": ("text/css", True),
    "docs.js": ("text/javascript", False),
}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'"
)
_DOCS_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Headroom API</title>
<link rel="icon" href="portal/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<main id="swagger-ui"></main>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/docs.js"></script>
</body>
</html>
"""


@router.get(
    "/livez",
    operation_id="getLiveness",
    summary="Whether the process is alive",
    responses={200: {"model": Liveness}},
)
async def livez() -> Response:
    """Answer without any dependency; restart the process if there is no answer."""
    return Response(_ALIVE, media_type="application/json")


@router.get(
    "/readyz",
    operation_id="getReadiness",
    summary="Whether estimates can be answered, and from which catalog",
    responses={200: {"model": Readiness}},
)
async def readyz(http: HttpRequest) -> Response:
    """Ready from Postgres, or degraded: serving from what is in memory, with the reason.

    The status is 200 either way: a degraded service still answers estimates.
    """
    status = shared(http).store.status()
    expected = shared(http).settings.database_url is not None or (
        shared(http).settings.embedded_database
    )
    known: dict[str, Any] = asdict(status)
    fine = status.database_reachable or not expected
    body = {
        "status": "ready" if fine else "degraded",
        "catalog_revision": known["revision"],
        "catalog_source": known["source"],
        "database_reachable": known["database_reachable"],
        "confirmed_s_ago": known["confirmed_s_ago"],
        "problem": known["problem"],
        "engine_version": ENGINE_VERSION,
        "extras": {name: is_installed(name) for name in EXTRAS},
    }
    return Response(
        orjson.dumps(body), media_type="application/json", headers={"Cache-Control": "no-store"}
    )


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Metrics in the Prometheus text format",
    response_class=PlainTextResponse,
)
async def metrics(http: HttpRequest) -> Response:
    """Expose the metrics of this process and of the other workers on its port."""
    text = await asyncio.to_thread(shared(http).exposition.text)
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


@router.get("/docs", include_in_schema=False)
async def docs() -> Response:
    """Show the OpenAPI document, without files from elsewhere."""
    return HTMLResponse(_DOCS_PAGE, headers={"Content-Security-Policy": _PAGE_POLICY})


@router.get("/docs/{name}", include_in_schema=False)
async def docs_asset(http: HttpRequest, name: str) -> Response:
    """A file of the documentation page."""
    if name not in _ASSETS:
        raise Problem("not-found", "no such file")
    media_type, compressed = _ASSETS[name]
    headers = {"Cache-Control": "public, max-age=86400", "Vary": "Accept-Encoding"}
    packed = compressed and "gzip" in http.headers.get("accept-encoding", "")
    if packed:
        headers["Content-Encoding"] = "gzip"
    content = _asset(f"{name}.gz" if compressed else name, unpack=compressed and not packed)
    return Response(content, media_type=media_type, headers=headers)


@lru_cache(maxsize=2 * len(_ASSETS))
def _asset(file_name: str, unpack: bool) -> bytes:
    content = files("service.api").joinpath("static", file_name).read_bytes()
    return gzip.decompress(content) if unpack else content


@router.get("/problems/{slug}", include_in_schema=False)
async def problem(slug: str) -> Response:
    """Explain a problem type, at its URI."""
    kind = PROBLEM_TYPES.get(slug)
    if kind is None:
        raise Problem("not-found", "no such problem type")
    return HTMLResponse(
        f"<!doctype html><html lang=en><title>{escape(kind.title)}</title>"
        f"<h1>{escape(kind.title)}</h1><p>Status {kind.status}.</p><p>{escape(kind.meaning)}</p>"
    )
