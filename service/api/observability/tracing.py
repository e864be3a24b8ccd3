"""Traces by OpenTelemetry, for those who set its environment variables up.

Spans tell of a request by its method, the template of its route and its status: paths and queries
may hold what only the caller may know. Without the variables nothing of the library is loaded.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import ENGINE_VERSION

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from sqlalchemy.ext.asyncio import AsyncEngine

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
#: Asked by machines again and again, and telling of nothing.
_UNTRACED = "livez,readyz,metrics"
#: Where the request goes meanwhile that the library is not to see whole.
_ASKED = "headroom.asked"

_log = logging.getLogger(__name__)


def is_wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the standard variables say where traces go."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return exporter not in ("", "none") or (
        exporter != "none" and any(environment.get(name) for name in _ENDPOINTS)
    )


class Tracing:
    """Makes spans of one application and sends them on, until it is stopped."""

    def __init__(self) -> None:
        self._provider = _provider()

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application with a span for each request."""
        from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware

        return Discreet(
            OpenTelemetryMiddleware(
                Named(app),
                excluded_urls=_UNTRACED,
                tracer_provider=self._provider,
                exclude_spans=["receive", "send"],
            )
        )

    def watch(self, engine: AsyncEngine) -> None:
        """Make spans of what a database is asked: statements, never their values."""
        from opentelemetry.instrumentation.sqlalchemy import SQLAlchemyInstrumentor

        instrumentor = SQLAlchemyInstrumentor()
        if instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.uninstrument()  # the engine before this one, which has been given up
        instrumentor.instrument(
            engine=engine.sync_engine,
            tracer_provider=self._provider,
            # It stands for SQLAlchemy before 2.1, whose events have not changed; a test holds that.
            skip_dep_check=True,
        )

    def stop(self) -> None:
        """Send what is left. Blocks."""
        self._provider.shutdown()


class Discreet:
    """Shows the layer within a request without its path and query, and keeps them for later."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http":
            asked = {name: scope[name] for name in ("path", "raw_path", "query_string")}
            is_plain = scope["path"].lstrip("/") in _UNTRACED.split(",")
            shown = scope["path"] if is_plain else "/"
            hidden = {"path": shown, "raw_path": shown.encode(), "query_string": b""}
            scope = {**scope, **hidden, _ASKED: asked}
        await self._app(scope, receive, send)


class Named:
    """Gives a request its path back, and its span the name of the route that answered it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        asked = scope.get(_ASKED)
        if asked is None:
            await self._app(scope, receive, send)
            return
        from opentelemetry.trace import get_current_span

        whole = {**scope, **asked}
        span = get_current_span()

        async def send_and_name(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(whole.get("route"), "path", None)
                span.update_name(f"{scope['method']} {route}" if route else scope["method"])
                if route:
                    span.set_attribute("http.route", route)
                span.set_attribute("headroom.request_id", whole.get("request_id", ""))
            await send(message)

        await self._app(whole, receive, send_and_name)


def ids_of_trace() -> dict[str, str]:
    """Ids of the trace and the span that is under way, for log lines; empty if there is none."""
    from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

    context = get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {
        "trace_id": format_trace_id(context.trace_id),
        "span_id": format_span_id(context.span_id),
    }


def tracing(environment: Mapping[str, str] = os.environ) -> Tracing | None:
    """What makes traces where they are wanted and the library is there; a missing one is logged."""
    if not is_wanted(environment):
        return None
    try:
        return Tracing()
    except ImportError as error:
        _log.warning(
            "OTEL_* variables request traces, which need pip install 'headroom[otel]': %s", error
        )
        return None


def _provider() -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    known = {"service.name": "headroom", "service.version": ENGINE_VERSION}
    stated = OTELResourceDetector().detect().attributes
    resource = Resource.create({**known, **stated})
    exporter: SpanExporter = (
        ConsoleSpanExporter()
        if os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "console"
        else OTLPSpanExporter()
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
