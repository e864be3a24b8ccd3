"""Commands that work on the database: the one that is set up, else the embedded one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import typer

from service.cli.status import UNREACHABLE
from service.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

Result = TypeVar("Result")


@contextmanager
def database_address() -> Iterator[str]:
    """The database's address, and an end of the command where it cannot be reached.

    The embedded server is started if no service has it running, and stopped if it was.
    """
    from sqlalchemy.exc import DBAPIError

    from service.catalog.database.embedded import EmbeddedPostgres

    settings = Settings()
    embedded = EmbeddedPostgres(settings.data_directory)
    try:
        given = settings.database_url
        yield embedded.start() if given is None else given.get_secret_value()
    except (OSError, DBAPIError, TimeoutError) as error:
        told = str(error).strip().split("\n")[0] or type(error).__name__
        print(f"The database cannot be used: {told}", file=sys.stderr)
        raise typer.Exit(UNREACHABLE) from None
    finally:
        embedded.stop()


def on_database(act: Callable[[AsyncEngine], Awaitable[Result]]) -> Result:
    """Run something on the database, and end the command where that cannot be reached."""
    from service.catalog.database.connection import create_engine

    async def run(url: str) -> Result:
        engine = create_engine(url, Settings().database_timeout_s)
        try:
            return await act(engine)
        finally:
            await engine.dispose()

    with database_address() as url:
        return asyncio.run(run(url))
