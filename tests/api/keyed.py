"""An application on a real database, and clients of it with API keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import httpx
from asgi_lifespan import LifespanManager
from fastapi import FastAPI
from pydantic import SecretStr

from service.access.keys import make_key
from service.access.repository import add_key
from service.api.app import create_app
from service.settings import Settings


@asynccontextmanager
async def running(url: str, **settings: object) -> AsyncIterator[FastAPI]:
    """The application on the packaged catalog in a database."""
    app = create_app(Settings(DATABASE_URL=SecretStr(url), log_level="error", **settings))  # type: ignore[arg-type]
    async with LifespanManager(app, startup_timeout=None):
        yield app


async def key_for(
    app: FastAPI, organisation: str, *scopes: str, expires_at: datetime | None = None
) -> str:
    """The text of a new key."""
    key = make_key()
    store = app.state.shared.store
    async with store.transaction() as connection:
        await add_key(
            connection,
            key,
            organisation=organisation,
            name="tests",
            scopes=scopes,
            expires_at=expires_at,
            created_by="tests",
        )
    await store.refresh()
    return key.text


def client_of(app: FastAPI, key: str | None = None) -> httpx.AsyncClient:
    """A client that sends a key with everything, or none."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers)
