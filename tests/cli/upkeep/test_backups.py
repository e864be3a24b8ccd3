"""A backup brings back everything, into an empty database or in the place of what went wrong."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx
import pytest
from asgi_lifespan import LifespanManager
from click.testing import Result
from pydantic import SecretStr
from typer.testing import CliRunner

from service.api.app import create_app
from service.catalog.database.connection import connect
from service.cli import app
from service.cli.upkeep import backups
from service.settings import Settings
from tests.api.conftest import MAIN
from tests.conftest import execute

SOURCE = "sources:\n- {id: own/q, title: Q, publisher: A, year: 2026, url: 'https://example.org/q',"
SOURCE += " licence: secret, retrieved: '2026-11-20', kind: primary}\n"
MEASURED = {
    "kind": "inference",
    "request": {
        "model": "llama-3.1-8b",
        "accelerator": "nvidia-l40s-48gb",
        "workload": {"input_tokens": 1024, "output_tokens": 128, "concurrency": 8},
    },
    "measured": {"tpot_s": 0.031},
    "tool": "vLLM bench serve",
}


def run(url: str, *arguments: str) -> Result:
    def command() -> Result:
        environment = {"DATABASE_URL": url}
        return CliRunner().invoke(app, list(arguments), env=environment, catch_exceptions=False)

    # In a thread of its own, because the tests' event loop may be running in this one.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(command).result()


def contents(url: str) -> dict[str, list[str]]:
    """Every row of every table, as text."""

    async def read() -> dict[str, list[str]]:
        connection = await connect(url, timeout_s=30)
        names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname='public'")
        rows = {
            name: [str(row[0]) for row in await connection.fetch(f'SELECT t::text FROM "{name}" t')]  # noqa: S608
            for (name,) in names
        }
        await connection.close()
        return {name: sorted(found) for name, found in rows.items()}

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, read()).result()


@pytest.fixture
def empty_url(postgres_server_url: str) -> Iterator[str]:
    """The address of one more empty database."""
    name = f"headroom_restored_{uuid.uuid4().hex}"
    execute(postgres_server_url, f"CREATE DATABASE {name}")
    yield urlunsplit(urlsplit(postgres_server_url)._replace(path=f"/{name}"))
    execute(postgres_server_url, f"DROP DATABASE {name} WITH (FORCE)")


async def asked(url: str, *, report: bool = False) -> bytes:
    """What a service on a database answers."""
    application = create_app(Settings(DATABASE_URL=SecretStr(url), log_level="error"))
    async with LifespanManager(application, startup_timeout=None):
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            if report:
                (await client.post("/v1/measurements", json=MEASURED)).raise_for_status()
            answer = await client.post("/v1/estimates/inference", json=MAIN)
            return answer.raise_for_status().content


async def test_everything_comes_back(postgres_url, empty_url, tmp_path):
    answered = await asked(postgres_url, report=True)
    file, own = tmp_path / "headroom.dump", tmp_path / "own.yaml"
    own.write_text(SOURCE)
    for arguments in (
        ("catalog", "import", str(own), "--reason", "a quote", "--organisation", "acme"),
        ("keys", "create", "--organisation", "acme", "--name", "ci", "--scope", "own:write"),
        ("backup", str(file)),
    ):
        done = run(postgres_url, *arguments)
        assert done.exit_code == 0, done.output
    assert file.stat().st_mode & 0o077 == 0
    before = contents(postgres_url)
    assert all(before[name] for name in ("catalog_revision", "own_entry", "measurement", "api_key"))

    assert run(empty_url, "restore", str(file)).exit_code == 0
    assert contents(empty_url) == before
    assert await asked(empty_url) == answered

    # And in the place of a database that has gone wrong meanwhile.
    execute(postgres_url, "DROP TABLE measurement CASCADE")
    execute(postgres_url, "CREATE TABLE of_a_later_release (id int)")
    refused = run(postgres_url, "restore", str(file))
    assert refused.exit_code == 1
    assert "--replace" in refused.stderr
    assert "of_a_later_release" in contents(postgres_url)
    assert run(postgres_url, "restore", str(file), "--replace").exit_code == 0
    assert contents(postgres_url) == before


def test_what_is_no_backup_changes_nothing(postgres_url, tmp_path):
    execute(postgres_url, "CREATE TABLE IF NOT EXISTS kept (id int)")
    before = contents(postgres_url)
    file = tmp_path / "other.dump"
    file.write_text("not a backup")
    refused = run(postgres_url, "restore", str(file), "--replace")
    assert refused.exit_code == 1
    assert "pg_restore" in refused.stderr
    assert contents(postgres_url) == before


def test_a_failed_backup_leaves_the_last_good_one(tmp_path):
    file = tmp_path / "headroom.dump"
    file.write_text("the last good one")
    failed = run("postgresql://nobody@127.0.0.1:9/none", "backup", str(file))
    assert failed.exit_code == 3
    assert file.read_text() == "the last good one"
    assert list(tmp_path.iterdir()) == [file]
    unwritable = run("postgresql://nobody@127.0.0.1:9/none", "backup", str(file / "below"))
    assert unwritable.exit_code == 1
    assert "cannot be written" in unwritable.stderr


def test_the_password_is_not_for_all_to_see(monkeypatch, tmp_path: Path):
    started = []

    def run_nothing(command, env, **_):
        started.append((command, env))
        return subprocess.CompletedProcess(command, 0, stderr="")

    monkeypatch.setattr(backups.subprocess, "run", run_nothing)
    url = "postgresql://ada:geh%40eim@db.example:5433/headroom?sslmode=require"
    assert run(url, "backup", str(tmp_path / "headroom.dump")).exit_code == 0
    [(command, environment)] = started
    assert "--dbname=postgresql://ada@db.example:5433/headroom?sslmode=require" in command
    assert not any("geh" in argument for argument in command)
    assert environment["PGPASSWORD"] == "geh@eim"
