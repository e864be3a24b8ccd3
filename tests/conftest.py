"""Fixtures for all tests: a real Postgres, the packaged catalog, and the application on it."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx
import hypothesis
import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI

from service.catalog.database import store
from service.catalog.database.connection import connect, create_engine, migrate
from service.catalog.database.embedded import EmbeddedPostgres
from service.catalog.database.importer import import_package
from service.catalog.entries.documents import DocumentSet
from service.catalog.files import packaged_documents
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.settings import INSTALLATION, Settings
from tests.node import needs

# The same examples each time, however long they take: other ones are for ``./headroom fuzz``.
hypothesis.settings.register_profile(
    "headroom",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.function_scoped_fixture,
    ],
)
hypothesis.settings.load_profile("headroom")

# The tool that lists packages brings it. It builds grammars for two seconds when jsonschema is
# imported, to check the format of addresses, which no schema here asks for.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# Nearly all that tests import and make stays, as in the service itself (service/cli/__main__.py).
gc.set_threshold(50_000)

_TESTS = INSTALLATION / "tests"
#: What only ``--full`` runs, or who names it: browsers, compilers, many processes, long fits.
ONLY_IN_FULL = (
    _TESTS / "architecture" / "test_benchmarks.py",
    _TESTS / "browser",
    _TESTS / "calibration" / "test_packaged.py",
    _TESTS / "clients",
    _TESTS / "docs" / "test_site.py",
    _TESTS / "faults",
    *(
        _TESTS / "fuzz" / f"test_{part}.py"
        for part in ("charts", "decisions", "estimates", "others")
    ),
)
#: What takes longest, from the longest on.
_LONG = (
    _TESTS / "fuzz",
    *ONLY_IN_FULL,
    _TESTS / "api" / "portal",
    _TESTS / "docs",
    _TESTS / "validation",
    _TESTS / "answers",
    _TESTS / "cli",
)
#: Tests that are left out, and why.
LEFT_OUT = pytest.StashKey[dict[tuple[Path, ...], str]]()
_LEFT_OUT_PATHS = "HEADROOM_TESTS_LEFT_OUT"

#: Key of the advisory lock under which the template database is made.
_TEMPLATE_LOCK = 72_180_731


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what ``./headroom test`` knows."""
    parser.addoption(
        "--full",
        action="store_true",
        help="run what is left out otherwise, too: browsers, generated clients, faults",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Get what tests need beyond Python, once, before processes are started that run them."""
    if hasattr(config, "workerinput"):
        return
    os.environ.pop(_LEFT_OUT_PATHS, None)
    asked = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    unwanted = {} if config.getoption("full") else _unwanted(asked)
    left = {one for paths in unwanted for one in paths}
    wanted = [one for one in needs.WITH_PACKAGES if not left.intersection((one, *one.parents))]
    named = {one for one in wanted for path in asked if path.is_relative_to(one)}
    within = {one for one in wanted for path in asked if one.is_relative_to(path)}
    missing = needs.missing() if named | within else {}
    # Who names a test wants it run, and nobody reads the remarks of a run that starts by itself.
    in_ci = os.environ.get("CI", "").lower() in ("true", "1")
    needed = named | within if in_ci else named
    if problems := [why for paths, why in missing.items() if needed.intersection(paths)]:
        raise pytest.UsageError("\n".join(problems))
    config.stash[LEFT_OUT] = unwanted | missing
    os.environ[_LEFT_OUT_PATHS] = os.pathsep.join(
        str(path) for paths in config.stash[LEFT_OUT] for path in paths
    )


def _unwanted(asked: list[Path]) -> dict[tuple[Path, ...], str]:
    """What is for the full run alone, unless a test in it was named."""
    left = tuple(
        one
        for one in ONLY_IN_FULL
        if any(one.is_relative_to(path) and one != path for path in asked)
        and not any(path.is_relative_to(one) for path in asked)
    )
    return {left: "./headroom test --full runs them"} if left else {}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what cannot run, in every process of a run alike."""
    left_out = os.environ.get(_LEFT_OUT_PATHS, "").split(os.pathsep)
    return True if str(collection_path) in left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where processes share the work, begin with the files that take longest.

    One process runs a file, and none is to be left alone with a long one at the end.
    """
    if not hasattr(config, "workerinput"):
        return
    tests = Counter(item.path for item in items)
    order = {
        path: (
            next((at for at, one in enumerate(_LONG) if path.is_relative_to(one)), len(_LONG)),
            -count,
            path,
        )
        for path, count in tests.items()
    }
    items.sort(key=lambda item: order[item.path])


def pytest_collection_finish() -> None:
    """Leave what all tests share out of every later search for garbage."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out."""
    for paths, why in terminalreporter.config.stash.get(LEFT_OUT, {}).items():
        names = ", ".join(str(path.relative_to(INSTALLATION)) for path in paths)
        terminalreporter.write_line(f"left out: {names}: {why}", yellow=True)


@cache
def packaged() -> DocumentSet:
    """The packaged catalog, read and checked once a process."""
    return packaged_documents(INSTALLATION / "hardware_catalog")


@cache
def packaged_catalog() -> CatalogSnapshot:
    """The packaged catalog as a snapshot, made once a process."""
    return snapshot_from_documents(packaged(), revision=1)


@pytest.fixture(scope="session", autouse=True)
def packaged_catalog_is_read_once() -> Iterator[None]:
    """Spare each of the many applications of a run the second that reading the catalog takes."""

    def documents(directory: Path) -> DocumentSet:
        own = directory != INSTALLATION / "hardware_catalog"
        return packaged_documents(directory) if own else packaged()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "packaged_documents", documents)
        yield


@pytest.fixture(scope="session")
def packaged_snapshot() -> CatalogSnapshot:
    """The packaged catalog as a snapshot, without any database."""
    return packaged_catalog()


@pytest.fixture(scope="session")
async def app() -> AsyncIterator[FastAPI]:
    """The application on the packaged catalog."""
    from service.api.app import create_app  # takes seconds, which most tests need not wait for

    application = create_app(Settings(embedded_database=False, log_level="error"))
    async with LifespanManager(application, startup_timeout=None):
        yield application


@pytest.fixture(scope="session")
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of it that raises what the application fails to handle."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as connected:
        yield connected


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """A Postgres server in which databases may be made: a given one, else the embedded one."""
    given = os.environ.get("HEADROOM_TEST_DATABASE_URL") or os.environ.get("DATABASE_URL")
    if given:
        yield given
        return
    # Outside pytest's own temporary folders, whose permissions keep out the user that Postgres
    # runs as when the tests run as root; and one for all processes of a parallel run.
    directory = Path(tempfile.gettempdir()) / f"headroom-tests-{_run()}"
    server = EmbeddedPostgres(directory)
    url = server.start()
    # What a power cut would take is of no worth here, and waiting for the disk takes long.
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        execute(url, f"ALTER SYSTEM SET {setting} = off")
    execute(url, "SELECT pg_reload_conf()")
    yield url
    server.stop()
    if not (directory / "postgres" / "postmaster.pid").exists():
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def catalog_template(postgres_server_url: str) -> str:
    """The name of a migrated database with the packaged catalog, made once in a run."""
    name = f"headroom_template_{_run()}"

    async def make() -> None:
        server = await connect(postgres_server_url, timeout_s=600)
        await server.execute("SELECT pg_advisory_lock($1)", _TEMPLATE_LOCK)
        if not await server.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", name):
            await server.execute(f"CREATE DATABASE {name}_unfinished")
            engine = create_engine(_database(postgres_server_url, f"{name}_unfinished"))
            await migrate(engine)
            async with engine.begin() as connection:
                await import_package(connection, packaged(), "start of the service")
            await engine.dispose()
            await server.execute(f"ALTER DATABASE {name}_unfinished RENAME TO {name}")
        await server.close()

    _finish(make())
    return name


@pytest.fixture(scope="module")
def postgres_url(postgres_server_url: str) -> Iterator[str]:
    """The address of an empty database that this test module has for itself."""
    with _own_database(postgres_server_url) as url:
        yield url


@pytest.fixture(scope="module")
def catalog_url(postgres_server_url: str, catalog_template: str) -> Iterator[str]:
    """The address of a database with the packaged catalog that this module has for itself."""
    with _own_database(postgres_server_url, f"TEMPLATE {catalog_template}") as url:
        yield url


@contextmanager
def _own_database(server: str, how: str = "") -> Iterator[str]:
    name = f"headroom_test_{uuid.uuid4().hex}"
    execute(server, f"CREATE DATABASE {name} {how}")
    yield _database(server, name)
    execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def execute(url: str, statement: str) -> None:
    """Run one statement outside any transaction, from code that is not asynchronous."""

    async def run() -> None:
        connection = await connect(url, timeout_s=600)
        await connection.execute(statement)
        await connection.close()

    _finish(run())


def _finish(work: Coroutine[None, None, None]) -> None:
    # In a thread of its own, because the tests' event loop may be running in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


def _database(server: str, name: str) -> str:
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


@cache
def _run() -> str:
    """What all processes of a parallel run have in common, and no other run."""
    return os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)[:12]
