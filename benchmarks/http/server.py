"""Starting the measured servers and reading the processor time that they used."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import psutil

from benchmarks.http.load import LOOPBACK, Load

PROJECT_FOLDER = Path(__file__).parents[2]
START_LIMIT_S = 60.0

# The server gets a core of its own, where the machine has two and the system has such a notion.
CORES = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
SERVER_CORES, LOAD_CORES = (CORES[:1], CORES[1:]) if len(CORES) > 1 else ([], [])


@dataclass(frozen=True, slots=True)
class Server:
    """A running server process and the port it listens on."""

    process: psutil.Process
    port: int

    def cpu_s(self) -> float:
        """Processor time used so far, in user and kernel mode, by it and its children [s]."""
        return sum(
            times.user + times.system
            for times in (
                process.cpu_times()
                for process in (self.process, *self.process.children(recursive=True))
            )
        )

    def resident_bytes(self) -> int:
        """Memory that the process itself holds, without a database that it started [byte]."""
        resident: int = self.process.memory_info().rss
        return resident

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """One request; the body of the answer, which must be a 200."""
        connection = HTTPConnection(LOOPBACK, self.port, timeout=30)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise RuntimeError(f"{method} {path} answered {response.status}: {content[:500]!r}")
        return content

    def load(
        self,
        path: str,
        body: Path | None,
        connections: int,
        duration_s: float = 0.0,
        *,
        packed: bool = False,
        distinct: int | None = None,
    ) -> Load:
        """Put load on one path from another process."""
        command = [
            *(sys.executable, "-m", "benchmarks.http.load", "--path", path),
            *("--port", str(self.port), "--connections", str(connections)),
            *("--seconds", str(duration_s)),
            *(("--body", str(body)) if body else ()),
            *(("--packed",) if packed else ()),
            *(("--distinct", str(distinct)) if distinct is not None else ()),
        ]
        with subprocess.Popen(
            command, cwd=PROJECT_FOLDER, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            pin(process.pid, LOAD_CORES)
            printed, complaints = process.communicate()
        if process.returncode:
            raise RuntimeError(f"the load generator failed: {complaints.decode()[-2000:]}")
        return Load(**json.loads(printed))


def pin(pid: int, cores: list[int]) -> None:
    """Keep a process on the given cores; an empty list leaves it alone."""
    if sys.platform == "linux" and cores:
        psutil.Process(pid).cpu_affinity(cores)


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], probe: str, environment: dict[str, str]) -> Iterator[Server]:
    """Run a server until the block ends.

    Parameters
    ----------
    command
        What to run; ``{port}`` in it becomes the port.
    probe
        The path that answers 200 as soon as the server is ready.
    environment
        Variables beside those of this process.

    Raises
    ------
    RuntimeError
        The server ended, or was not ready in a minute; says what it printed.
    """
    port = free_port()
    with (
        tempfile.TemporaryFile() as printed,
        subprocess.Popen(
            [part.format(port=port) for part in command],
            cwd=PROJECT_FOLDER,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        pin(process.pid, SERVER_CORES)
        server = Server(psutil.Process(process.pid), port)
        try:
            wait_until_ready(server, process, probe)
            yield server
        except (OSError, RuntimeError) as error:
            printed.seek(0)
            error.add_note(printed.read().decode(errors="replace")[-4000:])
            raise
        finally:
            process.terminate()


def wait_until_ready(server: Server, process: subprocess.Popen[bytes], probe: str) -> None:
    """Ask until the server answers."""
    deadline_s = time.monotonic() + START_LIMIT_S
    while True:
        try:
            server.ask("GET", probe)
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError("the server did not start; it printed:") from error
            time.sleep(0.05)
        else:
            return
