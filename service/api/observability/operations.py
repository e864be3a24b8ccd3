"""What operators ask: is it alive, is it ready, how is it doing, what do problems mean."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from html import escape
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


@router.get(
    "/livez",
    operation_id="getLiveness",
    summary="Whether the process is alive",
    responses={200: {"model": Liveness}},
)
async def livez(http: HttpRequest) -> Response:  # noqa: ARG001 - straight to it, with no more
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
