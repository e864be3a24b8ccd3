"""Whole answers: these tests are about figures, of which most are there only where included."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from tests.answers.whole import AskingForAll


@pytest.fixture(scope="session")
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client that asks for all there is."""
    transport = httpx.ASGITransport(app)
    async with AskingForAll(transport=transport, base_url="http://test") as connected:
        yield connected
