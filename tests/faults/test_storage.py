"""The embedded database on a disk that is full, and what a crash leaves behind."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from service.settings import INSTALLATION
from tests.faults.processes import (
    QUESTION,
    Load,
    Service,
    eventually,
    folder,
    kill_postgres,
    serving,
)
from tests.faults.test_faults import change, known

#: Smaller than any segment of the log that Postgres writes before all else.
FULL_BYTES = 4_096


def key_of(path: Path) -> dict[str, str]:
    """Headers with a key, made as its operator makes one."""
    made = subprocess.run(
        [
            *(sys.executable, "-m", "service.cli", "keys", "create"),
            *("--organisation", "acme", "--name", "faults", "--scope", "catalog:write"),
        ],
        cwd=INSTALLATION,
        env={**os.environ, "HEADROOM_DATA_DIRECTORY": str(path)},
        capture_output=True,
        text=True,
        check=True,
    )
    [text] = [word for word in made.stdout.split() if word.startswith("headroom_")]
    return {"Authorization": f"Bearer {text}"}


def let_files_grow(service: Service, path: Path, most_bytes: int) -> None:
    """Bound how large files may become, for Postgres and for the service, which starts it anew."""
    found = [psutil.Process(service.process.pid)]
    with suppress(FileNotFoundError, ValueError, psutil.NoSuchProcess):
        number = int((path / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0])
        postmaster = psutil.Process(number)
        found += [postmaster, *postmaster.children(recursive=True)]
    for process in found:
        with suppress(psutil.NoSuchProcess, subprocess.SubprocessError):
            limit(process, most_bytes)


def limit(process: psutil.Process, most_bytes: int) -> None:
    """Bound a process, as the user that it runs as: root in a container may not do so itself."""
    pid, bounds = process.pid, (most_bytes, resource.RLIM_INFINITY)
    user, group = process.uids().real, process.gids().real
    other: dict[str, Any] = {}
    if user != os.geteuid():
        other = {"user": user, "group": group, "extra_groups": []}
    subprocess.run(
        ["true"],
        preexec_fn=lambda: resource.prlimit(pid, resource.RLIMIT_FSIZE, bounds),
        check=True,
        **other,
    )


def test_a_full_disk_stops_writes_and_nothing_else_until_there_is_room() -> None:
    with (
        folder() as path,
        serving(
            HEADROOM_DATA_DIRECTORY=str(path),
            HEADROOM_DATABASE_TIMEOUT_S="2",
            HEADROOM_CATALOG_POLL_S="0.5",
        ) as service,
    ):
        headers = key_of(path)
        eventually(lambda: known(service, headers), "the key is known")
        assert change(service, headers, 71).status_code == 200
        with Load(service, threads=2) as load:
            let_files_grow(service, path, FULL_BYTES)
            for power_w in (72, 73, 74):
                refused = change(service, headers, power_w)
                assert refused.status_code == 503, refused.text
                assert int(refused.headers["retry-after"]) >= 1
            assert service.ask("GET", "/livez").status_code == 200
            eventually(
                lambda: service.ask("GET", "/readyz").json()["status"] == "degraded",
                "the operator is told",
            )
            let_files_grow(service, path, resource.RLIM_INFINITY)
            eventually(
                lambda: change(service, headers, 75).status_code == 200, "there is room again"
            )
        assert set(load.seen) == {"200"}
        assert service.stop() == 0


def test_what_a_crash_leaves_behind_does_not_keep_it_from_starting() -> None:
    """A pid file whose number is taken by now, shared memory, and a log that was not finished."""
    with folder() as path, subprocess.Popen(["sleep", "600"]) as another:
        pid_file = path / "postgres" / "postmaster.pid"

        def crash(service: Service, number: str | None) -> None:
            lines = pid_file.read_text().split("\n")
            service.process.kill()
            service.process.wait()
            kill_postgres(path)
            if number is None:
                pid_file.write_bytes(b"\0\xff")
            else:
                pid_file.write_text("\n".join([number, *lines[1:]]))

        anothers, nobodys, nonsense = str(another.pid), "999999999", None
        crashes = (nobodys, nonsense)
        try:
            with serving(HEADROOM_DATA_DIRECTORY=str(path)) as service:
                headers = key_of(path)
                eventually(lambda: known(service, headers), "the key is known")
                done = change(service, headers, 71)
                assert done.status_code == 200
                crash(service, anothers)
            for nth in range(len(crashes) + 1):
                with serving(HEADROOM_DATA_DIRECTORY=str(path)) as service:
                    ready = service.ask("GET", "/readyz").json()
                    assert ready["status"] == "ready", ready
                    assert str(ready["catalog_revision"]) == done.headers["x-catalog-revision"]
                    answer = service.ask("POST", "/v1/memory/inference", json=asked())
                    assert answer.status_code == 200
                    if nth < len(crashes):
                        crash(service, crashes[nth])
                    else:
                        assert service.stop() == 0
        finally:
            another.kill()


def asked() -> dict[str, str]:
    return {name: value for name, value in QUESTION.items() if name != "region"}
