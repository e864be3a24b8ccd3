"""The commands that ``./headroom`` hands over to."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from service import extras
from service.cli import app
from service.settings import Settings

PROJECT_FOLDER = Path(__file__).parents[2]


def headroom(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_help_names_every_command() -> None:
    status, printed, _ = headroom("--help")
    assert status == 0
    for command in (
        "estimate",
        "memory",
        "compare",
        "recommend",
        "serve",
        "worker",
        "migrate",
        "catalog",
        "openapi",
        "validate",
        "test",
        "bench",
        "lock",
        "fuzz",
        "sbom",
        "audit",
    ):
        assert f" {command} " in printed


def test_settings_that_are_wrong_are_told_all_at_once_and_in_words(tmp_path: Path) -> None:
    wrong = {
        "HEADROOM_PORT": "tcp://10.0.0.1:80",
        "HEADROOM_LOG_LEVEL": "loud",
        "DATABASE_URL": "mysql://ada:hidden@db/x",
        "HEADROOM_CATALOG_DIRECTORY": str(tmp_path / "none"),
    }
    finished = subprocess.run(
        [sys.executable, "-m", "service.cli", "serve"],
        cwd=PROJECT_FOLDER,
        env={**os.environ, **wrong},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 2
    told = " ".join(finished.stderr.split())
    assert "HEADROOM_PORT: must be a whole number" in told
    assert "HEADROOM_LOG_LEVEL: must be debug, info, warning or error" in told
    assert "DATABASE_URL: must start with postgres:// or postgresql://" in told
    assert "HEADROOM_CATALOG_DIRECTORY: there is no folder" in told
    assert "hidden" not in told
    assert "Traceback" not in told


def test_an_address_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        finished = subprocess.run(
            [sys.executable, "-m", "service.cli", "serve", "--port", str(port)],
            cwd=PROJECT_FOLDER,
            capture_output=True,
            text=True,
            check=False,
        )
    assert finished.returncode == 3
    assert f"127.0.0.1:{port} cannot be listened on" in " ".join(finished.stderr.split())


def test_serve_says_where_it_listens_and_ends_when_told() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "service.cli", "serve", "--port", "0"],
        cwd=PROJECT_FOLDER,
        env={**os.environ, "HEADROOM_EMBEDDED_DATABASE": "false", "HEADROOM_LOG_LEVEL": "error"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        try:
            announced = process.stdout.readline()
            assert announced.startswith("Headroom is running at http://127.0.0.1:"), (
                announced + process.stderr.read()
            )
            address = announced.split()[4]
            assert (
                announced == f"Headroom is running at {address} (documentation: {address}/docs)\n"
            )
            with urlopen(f"{address}/livez", timeout=600) as response:  # noqa: S310
                assert response.status == 200
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=600)
        assert process.returncode == 0
        assert "Traceback" not in process.stderr.read()


def test_a_worker_without_a_database_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_EMBEDDED_DATABASE", "false")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    status, _, complaints = headroom("worker")
    assert status == 3
    assert "need a database" in complaints


@pytest.mark.parametrize("command", [("worker",), ("serve", "--with", "sweeps")])
def test_what_is_not_installed_is_said_before_anything_starts(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    status, printed, complaints = headroom(*command)
    assert (status, printed) == (2, "")
    assert "headroom[sweeps]" in complaints


def test_an_extra_that_there_is_not_is_refused() -> None:
    status, _, complaints = headroom("serve", "--with", "pdf,sheets")
    assert status == 2
    assert "'sheets'" in complaints


def test_openapi_prints_the_document() -> None:
    status, printed, _ = headroom("openapi")
    assert status == 0
    document = json.loads(printed)
    assert document["openapi"].startswith("3.1")
    assert "/v1/estimates/inference" in document["paths"]


def test_the_packaged_catalog_is_sound() -> None:
    status, printed, complaints = headroom("catalog", "validate")
    assert (status, complaints) == (0, "")
    assert " accelerators" in printed


def test_an_unsound_catalog_is_refused_with_the_place(tmp_path: Path) -> None:
    catalog = tmp_path / "catalog"
    shutil.copytree(Settings().catalog_directory, catalog)
    accelerator = catalog / "accelerators" / "nvidia-h100-sxm-80gb.yaml"
    accelerator.write_text(accelerator.read_text().replace("source: ", "source: no-such-"))
    status, printed, complaints = headroom("catalog", "validate", str(catalog))
    assert (status, printed) == (1, "")
    assert "accelerators/nvidia-h100-sxm-80gb.yaml" in complaints
    assert "no-such-" in complaints
