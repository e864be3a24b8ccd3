"""What surrounds every request: an id, headers, a log line, metrics, and no bare failures.

One plain ASGI layer, because each layer of framework middleware costs more than an estimate.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from random import Random

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.http.problems import Problem
from service.api.observability.logs import AccessLog
from service.api.observability.metrics import IN_FLIGHT, count_request

_log = logging.getLogger("headroom.access")
#: Ids have to differ; nothing is kept secret by them.
_RANDOM = Random()  # noqa: S311
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_RANDOM.seed)
_ACCEPTED_ID = re.compile(rb"[A-Za-z0-9._-]{8,64}")

#: Anything else is counted as one, or a client could make metrics without end.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: What operators ask is answered however busy the process is.
ALWAYS_ANSWERED = frozenset({"/livez", "/readyz", "/metrics"})
#: The status that servers log for a client that did not wait (nginx's).
_CLIENT_LEFT = 499

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"cross-origin"),
)
_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")


class RequestMiddleware:
    """Wraps the application; see the module.

    Above ``concurrency_limit`` requests in flight, further ones are answered 503. HEAD is answered
    as GET without the body. ``answered`` makes the answer that tells of a problem, as people or
    as programs read it. ``log`` tells of each request, None if nobody wants to know.
    """

    def __init__(
        self,
        app: ASGIApp,
        concurrency_limit: int | None,
        answered: Callable[[HttpRequest, Problem], Response],
        log: AccessLog | None = None,
    ) -> None:
        self._app = app
        self._log = log
        self._answered = answered
        self._limit = concurrency_limit
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()
        request_id = _request_id(scope)
        scope["request_id"] = request_id
        status = 500
        started = False
        method = scope["method"] if scope["method"] in _METHODS else "other"
        bodiless = method == "HEAD"
        if bodiless:
            scope = {**scope, "method": "GET"}  # the server goes by its own when it frames the body

        async def send_with_headers(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                started = True
                status = message["status"]
                headers = message["headers"]
                headers.append((b"x-request-id", request_id.encode()))
                headers.extend(_HEADERS)
                # A 304 replaces the headers of the page that the client holds (RFC 9111, 4.3.4).
                if status != 304 and not any(name == _POLICY[0] for name, _ in headers):
                    headers.append(_POLICY)
            elif bodiless and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        self._in_flight += 1
        IN_FLIGHT.inc()
        try:
            if self._is_busy() and scope["path"] not in ALWAYS_ANSWERED:
                refused = Problem(
                    "unavailable", "too many requests at once", headers={"Retry-After": "1"}
                )
                told = self._answered(HttpRequest(scope), refused)
                await told(scope, receive, send_with_headers)
            else:
                await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = _CLIENT_LEFT
        except Exception:
            _log.exception("a request failed", extra={"request_id": request_id})
            if not started:
                failed = Problem("internal-error", "the fault has been logged")
                told = self._answered(HttpRequest(scope), failed)
                await told(scope, receive, send_with_headers)
        finally:
            self._in_flight -= 1
            IN_FLIGHT.dec()
            seconds = time.perf_counter() - started_at
            route = getattr(scope.get("route"), "path", "unmatched")
            count_request(method, route, status, seconds)
            if self._log is not None:
                self._log.tell(request_id, method, route, status, seconds)

    def _is_busy(self) -> bool:
        return self._limit is not None and self._in_flight > self._limit


def _request_id(scope: Scope) -> str:
    """The client's own id if it is a decent one, so that traces can be joined; else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ACCEPTED_ID.fullmatch(value):
            given: str = value.decode()
            return given
    return f"{_RANDOM.getrandbits(128):032x}"
