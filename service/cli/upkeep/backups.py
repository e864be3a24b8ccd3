"""``headroom backup`` and ``restore``: the whole database in one file, by Postgres' own tools."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit, urlunsplit

import typer

from service.cli.status import REFUSED, UNREACHABLE, notices
from service.cli.upkeep.database import database_address

#: A setting that the tools put first and older servers refuse; at 0 it says nothing.
_UNKNOWN_BEFORE_17 = b"\nSET transaction_timeout = 0;\n"
_EMPTIED = "DROP SCHEMA public CASCADE; CREATE SCHEMA public"


def backup(file: Annotated[Path, typer.Argument(help="File to write.", dir_okay=False)]) -> None:
    """Write the database to a file: catalog with all revisions, own entries, keys, measurements.

    Service and writers go on meanwhile; the file is of one moment. It can be read by Postgres'
    pg_restore, and has what is confidential in own entries.
    """
    partial = file.with_name(f"{file.name}.partial")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
    except OSError as error:
        print(f"{file} cannot be written: {error.strerror}", file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    try:
        with database_address() as url:
            if not _run(url, "pg_dump", "--format=custom", "--no-owner", f"--file={partial}"):
                raise typer.Exit(UNREACHABLE)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    notices.print(f"{file} has {file.stat().st_size / 1e6:.1f} MB.")


def restore(
    file: Annotated[Path, typer.Argument(help="File that backup wrote.", exists=True)],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the contents of the database.")
    ] = False,
) -> None:
    """Bring a backup into an empty database, all of it or nothing.

    Services on that database are best started anew afterwards: they keep what they have read.
    """
    with database_address() as url, tempfile.TemporaryDirectory() as folder:
        if not replace and asyncio.run(_holds_tables(url)):
            print(
                "The database is not empty; use --replace to discard its contents.", file=sys.stderr
            )
            raise typer.Exit(REFUSED)
        script = Path(folder, "restore.sql")
        if not _run(None, "pg_restore", "--no-owner", f"--file={script}", str(file)):
            raise typer.Exit(REFUSED)
        script.write_bytes(script.read_bytes().replace(_UNKNOWN_BEFORE_17, b"\n", 1))
        first = ("--command", _EMPTIED) if replace else ()
        apply = ("--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--single-transaction")
        if not _run(url, "psql", *apply, *first, "--file", str(script)):
            raise typer.Exit(REFUSED)
    notices.print("Restored.")


async def _holds_tables(url: str) -> bool:
    from service.catalog.database.connection import connect
    from service.settings import Settings

    connection = await connect(url, Settings().database_timeout_s)
    try:
        query = "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'public')"
        return bool(await connection.fetchval(query))
    finally:
        await connection.close()


def _run(url: str | None, tool: str, *arguments: str) -> bool:
    """Run a tool of Postgres on a database, and say whether it did what it was to do.

    The password is handed over where other users of the machine do not see it.
    """
    from service.catalog.database.embedded import postgres_tools
    from service.settings import postgres_dsn

    environment = dict(os.environ)
    place: tuple[str, ...] = ()
    if url is not None:
        parts = urlsplit(postgres_dsn(url))
        user, _, machine = parts.netloc.rpartition("@")
        name, colon, password = user.partition(":")
        if colon:
            environment["PGPASSWORD"] = unquote(password)
            parts = parts._replace(netloc=f"{name}@{machine}")
        place = (f"--dbname={urlunsplit(parts)}",)
    command = [str(postgres_tools() / tool), *place, *arguments]
    finished = subprocess.run(  # noqa: S603
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if finished.returncode:
        print(finished.stderr.strip(), file=sys.stderr)
    return finished.returncode == 0
