"""The stand-in on a port of this machine, and services that ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from service.hub.hub import Hub
from service.settings import Settings
from tests.api.conftest import served
from tests.hub.standin import StandIn


@pytest.fixture
def standin() -> StandIn:
    return StandIn()


@pytest.fixture
def endpoint(standin: StandIn) -> Iterator[str]:
    with served(standin.app) as address:
        yield address


@pytest.fixture
def settings(endpoint: str, tmp_path: Path) -> Callable[..., Settings]:
    """Settings of a service that asks the stand-in."""

    def make(**more: Any) -> Settings:
        given: dict[str, Any] = {
            "embedded_database": False,
            "log_level": "error",
            "hub_endpoint": endpoint,
            "hub_cache_directory": tmp_path / "hub",
            "hub_timeout_s": 10,
        }
        return Settings(**(given | more))

    return make


@pytest.fixture
async def service(app: FastAPI) -> AsyncIterator[Callable[[Settings], Any]]:
    """The service with another Hub; gives clients of it."""
    usual = app.state.shared
    async with AsyncExitStack() as stack:

        async def start(chosen: Settings) -> httpx.AsyncClient:
            hub = Hub(chosen)
            stack.push_async_callback(hub.stop)
            app.state.shared = replace(usual, hub=hub)
            return await stack.enter_async_context(
                httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")
            )

        yield start
    app.state.shared = usual
