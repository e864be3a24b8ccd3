"""``./headroom`` makes its environment once, safely, and from anywhere.

Interpreter and packages are played by a shell script that writes down what it is asked to do, so
that nothing is downloaded; the lock, the comparison and the recovery are the real ones.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.cli.upkeep.checkout import LOCKS

PROJECT_FOLDER = Path(__file__).parents[2]

PLAYED_PYTHON = """#!/bin/sh
# Installs nothing, runs no command, and writes both down; everything else is real.
case "$*" in
    *_base_executable*) echo "$0" ;;
    "-m venv "*)
        echo "venv" >>"{journal}"
        mkdir -p "$3/bin"
        cp "$0" "$3/bin/python"
        ;;
    *"-m pip install"*)
        echo "pip ${{*##*/}}" >>"{journal}"
        [ ! -e "{trouble}" ] || exit 1
        sleep 0.2
        ;;
    "-m service.cli"*) echo "ran ${{*#-m service.cli}} in $PWD with $PYTHONPATH" ;;
    *) exec "{real}" "$@" ;;
esac
"""


class Clone:
    """A copy of the launcher and the locks, with a played interpreter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a clone"
        self.journal_file = folder / "journal"
        self.trouble = folder / "trouble"
        self.interpreter = folder / "a python"
        (self.folder / "requirements").mkdir(parents=True)
        shutil.copy(PROJECT_FOLDER / "headroom", self.folder)
        for lock in LOCKS:
            # As long as real ones, which do not fit into a pipe's buffer.
            (self.folder / "requirements" / f"{lock}.txt").write_text(f"{lock}==1\n" * 10_000)
        self.interpreter.write_text(
            PLAYED_PYTHON.format(
                journal=self.journal_file, trouble=self.trouble, real=sys.executable
            )
        )
        self.interpreter.chmod(0o755)

    def start(
        self, *arguments: str, launcher: Path | None = None, **environment: str
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [launcher or self.folder / "headroom", *arguments],
            env={
                "PATH": os.environ["PATH"],
                "HEADROOM_PYTHON": str(self.interpreter),
                **environment,
            },
            cwd=self.folder.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            restore_signals=False,  # as under a supervisor that ignores SIGPIPE
        )

    def run(
        self, *arguments: str, launcher: Path | None = None, **environment: str
    ) -> tuple[int, str, str]:
        process = self.start(*arguments, launcher=launcher, **environment)
        printed, complaints = process.communicate(timeout=600)
        return process.returncode, printed, complaints

    def journal(self) -> list[str]:
        return self.journal_file.read_text().splitlines() if self.journal_file.exists() else []


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_the_first_start_makes_the_environment_and_the_second_is_silent(clone: Clone) -> None:
    status, printed, complaints = clone.run("openapi")
    assert (status, printed.split(" in ")[0]) == (0, "ran  openapi")
    assert "making the Python environment" in complaints
    assert clone.journal() == ["venv", "pip runtime.txt"]

    status, printed, complaints = clone.run("openapi")
    assert (status, complaints) == (0, "")
    assert clone.journal() == ["venv", "pip runtime.txt"]


def test_tests_add_the_development_tools_to_the_same_environment(clone: Clone) -> None:
    clone.run("openapi")
    clone.run("test")
    assert clone.journal() == ["venv", "pip runtime.txt", "pip dev.txt"]
    clone.run("openapi")
    clone.run("test", "-k", "x")
    assert len(clone.journal()) == 3
    clone.run("docs")
    assert len(clone.journal()) == 3


def test_the_mcp_server_brings_its_library_only_when_it_is_started(clone: Clone) -> None:
    clone.run("openapi")
    clone.run("mcp")
    assert clone.journal() == ["venv", "pip runtime.txt", "pip mcp.txt"]
    clone.run("openapi")
    clone.run("mcp")
    clone.run("test")
    clone.run("mcp")
    assert clone.journal() == ["venv", "pip runtime.txt", "pip mcp.txt", "pip dev.txt"]


def test_traces_bring_their_library_only_where_they_are_asked_for(clone: Clone) -> None:
    clone.run("serve")
    clone.run("serve", OTEL_TRACES_EXPORTER="none", OTEL_EXPORTER_OTLP_ENDPOINT="http://there")
    assert clone.journal() == ["venv", "pip runtime.txt"]
    clone.run("serve", OTEL_EXPORTER_OTLP_ENDPOINT="http://there")
    clone.run("serve")
    assert clone.journal() == ["venv", "pip runtime.txt", "pip otel.txt"]


def test_extras_are_added_when_they_are_first_asked_for(clone: Clone) -> None:
    clone.run("serve")
    status, printed, complaints = clone.run("serve", "--with", "pdf,images", "--port", "0")
    assert (status, printed.split(" in ")[0]) == (0, "ran  serve --with pdf,images --port 0")
    assert "adding what is missing" in complaints
    assert complaints.rstrip().endswith("images pdf ...")
    made = ["venv", "pip runtime.txt", "pip images.txt", "pip pdf.txt"]
    assert clone.journal() == made
    for again in (("serve",), ("serve", "--with=images"), ("openapi",)):
        assert clone.run(*again)[2] == ""
    clone.run("serve", HEADROOM_WITH="all")
    clone.run("worker")
    assert clone.journal() == [*made, "pip sweeps.txt"]


@pytest.mark.parametrize("named", ["nonsense", "dev", "../runtime", "-r", "images;exit", ""])
def test_what_is_no_extra_is_left_to_the_command(clone: Clone, named: str) -> None:
    status, printed, _ = clone.run("serve", "--with", named)
    assert (status, printed.split(" in ")[0]) == (0, f"ran  serve --with {named}")
    assert clone.journal() == ["venv", "pip runtime.txt"]


def test_a_fresh_environment_has_what_the_one_before_had(clone: Clone) -> None:
    clone.run("serve", "--with", "pdf")
    (clone.folder / "requirements" / "runtime.txt").write_text("runtime==2\n")
    clone.run("openapi")
    assert clone.journal() == ["venv", "pip runtime.txt", "pip pdf.txt"] * 2


def test_a_changed_lock_makes_a_fresh_environment(clone: Clone) -> None:
    clone.run("openapi")
    leftover = clone.folder / ".venv" / "leftover"
    leftover.touch()
    (clone.folder / "requirements" / "runtime.txt").write_text("runtime==2\n")
    clone.run("openapi")
    assert clone.journal() == ["venv", "pip runtime.txt"] * 2
    assert not leftover.exists()


def test_an_interrupted_installation_is_started_again(clone: Clone) -> None:
    clone.trouble.touch()
    status, printed, complaints = clone.run("openapi")
    assert (status, printed) == (1, "")
    assert "requirements/runtime.txt could not be installed" in complaints

    clone.trouble.unlink()
    assert clone.run("openapi")[0] == 0
    assert clone.journal() == ["venv", "pip runtime.txt"] * 2


def test_concurrent_starts_make_one_environment(clone: Clone) -> None:
    processes = [clone.start("openapi") for _ in range(4)]
    for process in processes:
        printed, complaints = process.communicate(timeout=600)
        assert process.returncode == 0, complaints
        assert printed.startswith("ran  openapi")
    assert clone.journal() == ["venv", "pip runtime.txt"]


def test_it_works_through_a_symbolic_link_and_from_elsewhere(clone: Clone, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "headroom"
    link.symlink_to("../a clone/headroom")
    status, printed, _ = clone.run("serve", "--port", "0", launcher=link)
    assert status == 0
    assert printed == f"ran  serve --port 0 in {tmp_path} with {clone.folder}\n"


def test_the_environment_may_live_elsewhere(clone: Clone, tmp_path: Path) -> None:
    assert clone.run("openapi", HEADROOM_VENV="elsewhere/venv")[0] == 0
    assert (tmp_path / "elsewhere" / "venv" / "bin" / "python").exists()
    assert not (clone.folder / ".venv").exists()


def test_a_folder_that_is_not_its_own_is_left_alone(clone: Clone, tmp_path: Path) -> None:
    treasure = tmp_path / "home" / "treasure"
    treasure.parent.mkdir()
    treasure.touch()
    status, _, complaints = clone.run("openapi", HEADROOM_VENV=str(treasure.parent))
    assert status == 1
    assert "was not made by this script" in complaints
    assert treasure.exists()
    assert clone.journal() == []


@pytest.mark.parametrize("interpreter", ["/bin/false", "/bin/true", "/no/such/python"])
def test_what_is_no_recent_python_is_refused_in_words(clone: Clone, interpreter: str) -> None:
    status, _, complaints = clone.run("openapi", HEADROOM_PYTHON=interpreter)
    assert status == 1
    assert "is not a working Python 3.11 or newer" in complaints


def test_a_python_without_venv_is_told_apart(clone: Clone) -> None:
    content = clone.interpreter.read_text()
    clone.interpreter.write_text(
        content.replace('case "$*" in', 'case "$*" in\n    *ensurepip*) exit 1 ;;', 1)
    )
    status, _, complaints = clone.run("openapi")
    assert status == 1
    minor = ".".join(map(str, sys.version_info[:2]))
    assert f"apt-get install python{minor}-venv" in complaints


def test_without_any_python_it_says_what_is_missing(clone: Clone, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "dirname", "readlink", "ls", "cat", "cmp"):
        found = shutil.which(tool)
        assert found
        (tools / tool).symlink_to(found)
    status, _, complaints = clone.run("openapi", PATH=str(tools), HEADROOM_PYTHON="")
    assert status == 1
    assert "Python 3.11 or newer is needed" in complaints
