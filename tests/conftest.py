"""Fixtures for all rooms: a real Postgres, and the packaged catalog."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from service.catalog.database import connect
from service.catalog.embedded import EmbeddedPostgres
from service.catalog.files import read_files
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.settings import INSTALLATION
from tests.node import needs

#: Tests that are left out because what they need is not to be had, and why.
LEFT_OUT = pytest.StashKey[dict[tuple[Path, ...], str]]()
_LEFT_OUT_PATHS = "HEADROOM_TESTS_LEFT_OUT"


def pytest_configure(config: pytest.Config) -> None:
    """Get what tests need beyond Python, once, before processes are started that run them."""
    if hasattr(config, "workerinput"):
        return
    os.environ.pop(_LEFT_OUT_PATHS, None)
    asked = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    named = {one for one in needs.WITH_PACKAGES for path in asked if path.is_relative_to(one)}
    within = {one for one in needs.WITH_PACKAGES for path in asked if one.is_relative_to(path)}
    missing = needs.missing() if named | within else {}
    # Who names a test wants it run, and nobody reads the remarks of a run that starts by itself.
    in_ci = os.environ.get("CI", "").lower() in ("true", "1")
    wanted = named | within if in_ci else named
    if problems := [why for paths, why in missing.items() if wanted.intersection(paths)]:
        raise pytest.UsageError("\n".join(problems))
    config.stash[LEFT_OUT] = missing
    os.environ[_LEFT_OUT_PATHS] = os.pathsep.join(str(path) for paths in missing for path in paths)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what cannot run, in every process of a run alike."""
    left_out = os.environ.get(_LEFT_OUT_PATHS, "").split(os.pathsep)
    return True if str(collection_path) in left_out else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out."""
    for paths, why in terminalreporter.config.stash.get(LEFT_OUT, {}).items():
        names = ", ".join(str(path.relative_to(INSTALLATION)) for path in paths)
        terminalreporter.write_line(f"left out: {names}: {why}", yellow=True)


@pytest.fixture(scope="session")
def packaged_snapshot() -> CatalogSnapshot:
    """The packaged catalog as a snapshot, without any database."""
    files = read_files(INSTALLATION / "hardware_catalog")
    return snapshot_from_documents(files.documents, revision=1)


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """A Postgres server in which databases may be made: a given one, else the embedded one."""
    given = os.environ.get("HEADROOM_TEST_DATABASE_URL") or os.environ.get("DATABASE_URL")
    if given:
        yield given
        return
    # Outside pytest's own temporary folders, whose permissions keep out the user that Postgres
    # runs as when the tests run as root; and one for all processes of a parallel run.
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)[:12]
    directory = Path(tempfile.gettempdir()) / f"headroom-tests-{run}"
    server = EmbeddedPostgres(directory)
    yield server.start()
    server.stop()
    if not (directory / "postgres" / "postmaster.pid").exists():
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def postgres_url(postgres_server_url: str) -> Iterator[str]:
    """The address of an empty database that this test module has for itself."""
    name = f"headroom_test_{uuid.uuid4().hex}"
    execute(postgres_server_url, f"CREATE DATABASE {name}")
    yield urlunsplit(urlsplit(postgres_server_url)._replace(path=f"/{name}"))
    execute(postgres_server_url, f"DROP DATABASE {name} WITH (FORCE)")


def execute(url: str, statement: str) -> None:
    """Run one statement outside any transaction, from code that is not asynchronous."""

    async def run() -> None:
        connection = await connect(url, timeout_s=30)
        await connection.execute(statement)
        await connection.close()

    # In a thread of its own, because the tests' event loop may be running in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, run()).result()
