"""Requests straight to the endpoints whose paths have no parameters.

The framework looks for a route among hundreds, and prepares what such an endpoint does not use:
together that takes as long as an estimate that is repeated with other numbers. What is not found
here goes the usual way, and so do errors, but for those that tell a client what was wrong. An
address that has a slash too many at its end leads to the one without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import signature
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.http.problems import Problem


def takes_request_alone(endpoint: Callable[..., Any]) -> bool:
    """Whether an endpoint is called with nothing but the request."""
    return tuple(signature(endpoint).parameters) == ("http",)


class StraightRoutes:
    """Wraps the application; see the module.

    Parameters
    ----------
    app
        Answers what has no route here.
    routes
        Those of the application; a path and method that several have is the first one's.
    on_problem
        Makes the answer that tells of a problem.
    """

    def __init__(
        self,
        app: ASGIApp,
        routes: Iterable[BaseRoute],
        on_problem: Callable[[HttpRequest, Exception], Awaitable[Response]],
    ) -> None:
        self._app = app
        self._on_problem = on_problem
        self._routes: Mapping[tuple[str, str], APIRoute] = {
            (method, route.path): route
            for route in reversed([each for each in routes if isinstance(each, APIRoute)])
            if "{" not in route.path and takes_request_alone(route.endpoint)
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by the endpoint of the path, or have the application answer."""
        if scope["type"] != "http" or scope.get("root_path"):
            await self._app(scope, receive, send)
            return
        method, path = scope["method"], scope["path"]
        route = self._routes.get((method, path))
        if route is None:
            answer = self._app
            if path[-1:] == "/" and (method, path.rstrip("/")) in self._routes:
                query = scope["query_string"].decode("latin-1")
                meant = path.rstrip("/")
                answer = RedirectResponse(f"{meant}?{query}" if query else meant, 308)
            await answer(scope, receive, send)
            return
        scope["route"] = route
        http = HttpRequest(scope, receive, send)
        try:
            response = await route.endpoint(http=http)
        except Problem as problem:
            response = await self._on_problem(http, problem)
        await response(scope, receive, send)
