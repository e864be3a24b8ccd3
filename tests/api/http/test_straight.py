"""Requests that go straight to their endpoints are answered as the framework answers them."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from httpx import ASGITransport, AsyncClient
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.problems import Problem
from service.api.http.straight import StraightRoutes

ROUTER = APIRouter()


@ROUTER.get("/plain")
async def plain(http: HttpRequest) -> Response:
    if "wrong" in http.query_params:
        raise Problem("malformed-json", "this is wrong")
    return Response(f"{http.method} {http.scope['route'].path}")


@ROUTER.get("/{name}")
async def named(http: HttpRequest, name: str) -> Response:
    return Response(f"named {name}: {http.scope['straight']}")


async def on_problem(_: HttpRequest, problem: Exception) -> Response:
    return Response(str(problem), 400)


async def answers(path: str, method: str = "GET", **scope_has: Any) -> tuple[int, str]:
    app = FastAPI()
    app.include_router(ROUTER)

    async def usual(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "straight": False}, receive, send)

    straight = StraightRoutes(usual, ROUTER.routes, on_problem)

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await straight({**scope, **scope_has}, receive, send)

    async with AsyncClient(transport=ASGITransport(mounted), base_url="http://a") as client:
        answer = await client.request(method, path)
    return answer.status_code, answer.text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/plain", (200, "GET /plain")),
        ("/plain?wrong=1", (400, "this is wrong")),
        ("/other", (200, "named other: False")),
    ],
)
async def test_paths_without_parameters_go_straight(path: str, expected: tuple[int, str]) -> None:
    assert await answers(path) == expected


async def test_what_has_no_straight_route_goes_the_usual_way() -> None:
    assert (await answers("/plain", "DELETE"))[0] == 405
    assert await answers("/base/plain", root_path="/base") == (200, "GET /plain")


async def test_the_application_counts_them_by_their_routes(client: AsyncClient) -> None:
    await client.get("/v1/workloads")
    assert 'route="/v1/workloads"' in (await client.get("/metrics")).text
