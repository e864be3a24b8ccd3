"""The application: routes, surroundings, errors, and the catalog's life."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Match

from service.access.keyring import Keyring
from service.api import (
    charts,
    claims,
    comparison,
    estimates,
    grid,
    keys,
    llms,
    measurement_imports,
    measurements,
    openapi,
    plans,
    recommendations,
    reports,
    techniques,
)
from service.api.catalog import collections as catalog
from service.api.catalog import groups, imports, offers, revisions, schemas, search, writes
from service.api.http import contract
from service.api.http.compression import Compression
from service.api.http.cors import Cors
from service.api.http.middleware import RequestMiddleware
from service.api.http.problems import Problem, problem_response, slug_of_status
from service.api.http.repeated import RepeatedAnswers
from service.api.http.state import DRAINING, Shared, in_its_catalog
from service.api.http.straight import StraightRoutes
from service.api.observability import operations
from service.api.observability.exposition import Exposition
from service.api.observability.logs import AccessLog, access_log, set_up_logs
from service.api.observability.metrics import CatalogGauges
from service.api.observability.own_footprint import own_factors
from service.api.observability.tracing import Tracing, ids_of_trace, tracing
from service.api.openapi import KeptDocument
from service.api.portal import embedding, learning
from service.api.portal import pages as portal
from service.api.sweeps import events as sweep_events
from service.api.sweeps import jobs as sweeps
from service.api.sweeps import results as sweep_results
from service.background import ended
from service.catalog.database.store import CatalogStore
from service.catalog.database.tables import KEY_CHANNEL, MEASUREMENT_CHANNEL
from service.estimation.nearest import nearest
from service.extras import is_installed
from service.grid.live import LiveGrid
from service.hub.hub import Hub
from service.measurements.book import ReportBook
from service.settings import Settings

if TYPE_CHECKING:
    from service.access.tokens import TokenIssuer

_ROUTERS = (
    estimates.router,
    comparison.router,
    recommendations.router,
    plans.router,
    sweeps.router,
    sweep_events.router,
    sweep_results.router,
    techniques.router,
    measurements.router,
    measurement_imports.router,
    claims.router,
    reports.router,
    charts.router,
    grid.router,
    keys.router,
    groups.router,
    imports.router,
    offers.router,
    revisions.router,
    schemas.router,
    search.router,
    writes.router,
    portal.router,
    embedding.router,
    learning.router,
    catalog.router,
    operations.router,
    llms.router,
    openapi.router,
)

#: Spans are ours, which tell of no path and no query; the framework's would tell of both.
_NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "auto_configure": False,
}
#: A worker of sweeps that has not ended by then has missed that it was told to.
_LONGEST_END_S = 30.0


def create_app(settings: Settings | None = None) -> FastAPI:
    """The ASGI application, with settings from the environment unless given.

    Parameters
    ----------
    settings
        How it is set up.

    Returns
    -------
    FastAPI
        Starts its catalog store when its lifespan starts.
    """
    chosen = settings or Settings()
    traces = tracing()
    annotate = None if traces is None else ids_of_trace
    set_up_logs(chosen, annotate)

    app = FastAPI(
        title="Headroom",
        lifespan=lambda app: _running(app, chosen, traces),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        root_path=chosen.root_path,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
    )
    for router in _ROUTERS:
        app.include_router(router)
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.state.document = KeptDocument(lambda: contract.document(app))
    app.openapi = app.state.document.read  # type: ignore[method-assign]
    _add_middleware(app, chosen, access_log(chosen, annotate))
    if traces is not None:
        app.add_middleware(traces.around)
    return app


def _add_middleware(app: FastAPI, settings: Settings, log: AccessLog | None) -> None:
    """What requests pass through, from the innermost."""
    routes = [route for router in _ROUTERS for route in router.routes]
    app.add_middleware(StraightRoutes, routes=routes, on_problem=_on_problem)
    app.add_middleware(Compression)
    app.add_middleware(
        RepeatedAnswers,
        paths=[f"/v1{use_case.path}" for use_case in estimates.LINKED],
        basis=lambda: app.state.shared.basis,
        most_bytes=settings.answer_cache_bytes,
    )
    if (settings.rate_limit_per_minute, settings.rate_limit_per_minute_with_key) != (None, None):
        from service.api.http.rates import RateLimits

        app.add_middleware(
            RateLimits, settings=settings, caller=lambda text: app.state.shared.keyring.caller(text)
        )
    if settings.cors_origins:
        app.add_middleware(
            Cors,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=[
                *("Authorization", "Content-Type", "Idempotency-Key"),
                *("If-Match", "If-None-Match", "X-Request-ID"),
            ],
            expose_headers=[
                *("Deprecation", "ETag", "Link", "Location", "RateLimit", "RateLimit-Policy"),
                *("Retry-After", "Sunset", "X-Catalog-Revision", "X-Request-ID"),
            ],
        )
    app.add_middleware(
        RequestMiddleware,
        concurrency_limit=settings.concurrency_limit,
        answered=_answered,
        log=log,
    )


@asynccontextmanager
async def _running(
    app: FastAPI, settings: Settings, traces: Tracing | None
) -> AsyncIterator[dict[str, asyncio.Event]]:
    issuer = _issuer(settings)
    keyring = Keyring(issuer)
    book = ReportBook(without_key=settings.measurements_without_key_teach)
    store = CatalogStore(
        settings,
        also={KEY_CHANNEL: keyring.refresh, MEASUREMENT_CHANNEL: book.refresh},
        tell=CatalogGauges().show,
        watch=None if traces is None else traces.watch,
    )
    await store.start()
    if issuer is not None:
        issuer.start()
    live = LiveGrid(settings)
    hub = Hub(settings)
    factors = own_factors(settings, store.snapshot)
    exposition = Exposition(factors, settings.concurrency_limit)
    state = Shared(settings, store, keyring, live, hub, exposition, book)
    app.state.shared = state
    # With a database of its own, the process does all the work there is.
    alone = settings.database_url is None and settings.embedded_database and settings.sweep_worker
    works = alone and is_installed("sweeps")
    working = asyncio.create_task(_work(store, settings)) if works else None
    try:
        yield {DRAINING: state.draining}  # for the server, which knows first
    finally:
        if working is not None:
            await ended(working, again_s=_LONGEST_END_S)
        if issuer is not None:
            await issuer.stop()
        await live.stop()
        await hub.stop()
        await store.stop()
        if traces is not None:
            await asyncio.to_thread(traces.stop)


def _issuer(settings: Settings) -> TokenIssuer | None:
    if settings.oidc_issuer is None:
        return None
    from service.access.tokens import TokenIssuer

    return TokenIssuer(settings)


async def _work(store: CatalogStore, settings: Settings) -> None:
    """Evaluate sweeps beside requests."""
    # What a worker needs takes most of a second to load, which no start has to wait for.
    module = await asyncio.to_thread(import_module, "service.jobs.worker")
    await module.SweepWorker(store, settings).run()


async def _on_problem(http: HttpRequest, error: Exception) -> Response:
    if not isinstance(error, Problem):
        raise error
    return _answered(http, error)


def _answered(http: HttpRequest, problem: Problem) -> Response:
    """An error as people or as programs read it."""
    problem = in_its_catalog(http, problem)
    if learning.wants_page(http):
        return learning.problem_page(http, problem)
    return problem_response(problem, http.scope["request_id"])


async def _on_http_exception(http: HttpRequest, error: Exception) -> Response:
    """Errors that the framework raises itself: no such path, no such method."""
    if not isinstance(error, HTTPException):
        raise error
    headers = error.headers
    if error.status_code == 405:
        headers = {"Allow": ", ".join(_allowed(http))}
        if http.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
    detail = {
        404: "nothing is at this address; /docs lists what the API answers",
        405: f"{http.method[:20]} is not supported here",
    }.get(error.status_code, str(error.detail))
    near = _paths_near(http) if error.status_code == 404 else ()
    slug = slug_of_status(error.status_code)
    return _answered(http, Problem(slug, detail, headers=headers, suggestions=near))


def _paths_near(http: HttpRequest) -> tuple[str, ...]:
    """Paths like the one that was asked for, of those that take no id."""
    known = {path for router in _ROUTERS for path in _paths(router)}
    return nearest(http.scope["path"], (path for path in known if "{" not in path))


def _paths(router: APIRouter) -> list[str]:
    return [route.path for route in router.routes if isinstance(route, APIRoute)]


def _allowed(http: HttpRequest) -> list[str]:
    """Methods that a path supports, whichever of the routes to it has them."""
    found = [
        method
        for method in ("GET", "POST", "PUT", "DELETE")
        if any(
            route.matches({**http.scope, "method": method})[0] is Match.FULL
            for route in http.app.routes
        )
    ]
    return [*found, *(["HEAD"] if "GET" in found else ()), "OPTIONS"]
