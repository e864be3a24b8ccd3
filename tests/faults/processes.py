"""The service as operators run it: a process of its own, asked over sockets."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx
import psutil

from service.settings import INSTALLATION

QUESTION = {"model": "llama-3.1-8b", "accelerator": "nvidia-l40s-48gb", "region": "country/SE"}
#: What has not come by then hangs: long, as the machine may be busy with something else.
PATIENCE_S = 600.0
#: Reading the system's authorities takes longer than a request, and none speaks TLS here.
_NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass
class Service:
    """A running service."""

    process: subprocess.Popen[str]
    address: str

    def ask(self, method: str, path: str, **more: object) -> httpx.Response:
        return httpx.request(
            method, self.address + path, timeout=PATIENCE_S, verify=_NO_AUTHORITIES, **more
        )  # type: ignore[arg-type]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)


@contextmanager
def serving(*arguments: str, log: IO[str] | None = None, **environment: str) -> Iterator[Service]:
    """A service that is ready, ended at the end if it is still there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "serve", "--port", "0", *arguments],
        cwd=INSTALLATION,
        env={**os.environ, "HEADROOM_LOG_LEVEL": "error", **environment},
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = next(line for line in process.stdout if "running at" in line)
        yield Service(process, line.split("running at ")[1].split()[0])
    finally:
        if process.poll() is None:
            # Its workers, too: they would go on without it.
            for one in (*psutil.Process(process.pid).children(recursive=True), process):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
        process.communicate()


@contextmanager
def working(url: str, change: str = "") -> Iterator[subprocess.Popen[str]]:
    """A worker of sweeps, at work when this is entered; ``change`` is run before it begins."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{change}\nfrom service.cli import app\napp(['worker'])"],
        cwd=INSTALLATION,
        env={
            **os.environ,
            "DATABASE_URL": url,
            "HEADROOM_WORKER_HEARTBEAT_S": "1",
            "HEADROOM_LOG_LEVEL": "error",
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "Headroom is evaluating sweeps\n"
        yield process
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that the user whom Postgres runs as can reach, too."""
    path = Path(tempfile.mkdtemp(prefix="headroom-faults-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def kill_postgres(data: Path) -> None:
    """End a server as a power cut does."""
    number = int((data / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0])
    postmaster = psutil.Process(number)
    family = [postmaster, *postmaster.children(recursive=True)]
    for process in family:
        # Whoever served a client that is gone may have ended by itself meanwhile.
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, timeout=PATIENCE_S)


def eventually(condition: object, what: str) -> None:
    """Wait for something to come true."""
    until = time.monotonic() + PATIENCE_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until, f"never came true: {what}"
        time.sleep(0.05)


@dataclass
class Load:
    """Requests in several threads until told to stop, each on one connection or ever new ones.

    Between its requests a thread pauses: what is waited for meanwhile needs a processor, too.
    """

    service: Service
    threads: int = 4
    reconnecting: bool = False
    pause_s: float = 0.15
    seen: Counter[str] = field(default_factory=Counter)

    def __enter__(self) -> Load:
        self._stopping = threading.Event()
        self._running = [threading.Thread(target=self._ask) for _ in range(self.threads)]
        for thread in self._running:
            thread.start()
        eventually(lambda: self.seen["200"] >= 20 or not self._asking(), "answers under load")
        assert self._asking(), f"every client gave up: {self.seen}"
        return self

    def _asking(self) -> bool:
        return any(thread.is_alive() for thread in self._running)

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._running:
            thread.join(PATIENCE_S)

    def _ask(self) -> None:
        number = 0
        with httpx.Client(base_url=self.service.address, timeout=PATIENCE_S) as client:
            while not self._stopping.is_set():
                number += 1
                # Another question each time, so that none is answered from memory.
                body = QUESTION | {"workload": {"input_tokens": 100 + number % 5_000}}
                try:
                    response = client.post(
                        "/v1/estimates/inference",
                        json=body,
                        headers={"Connection": "close"} if self.reconnecting else {},
                    )
                except httpx.ConnectError:
                    self.seen["no longer listening"] += 1
                    return
                except httpx.HTTPError as error:
                    self.seen[type(error).__name__] += 1
                    return
                self.seen[str(response.status_code)] += 1
                self._stopping.wait(self.pause_s)
