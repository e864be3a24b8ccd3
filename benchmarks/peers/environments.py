"""The peers' environments: one each, since what they need excludes what the others need."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: Where each peer's environment is made.
ENVIRONMENTS = ROOT / ".peers"
NAMES = ("accelerate", "aiconfigurator", "deepspeed", "genz", "llm-analysis")
_GROUP_PREFIX = "peer-"


class PeerFailed(RuntimeError):
    """A peer's environment cannot be made, or the peer breaks off."""


def requirement(name: str) -> str:
    """The pinned package of a peer, ``name==version``."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    return str(groups[_GROUP_PREFIX + name][0])


def is_installed(name: str) -> bool:
    """Whether a peer's environment is there, with the pinned version in it."""
    marker = _marker(name)
    return marker.exists() and marker.read_text() == requirement(name)


def install(name: str) -> None:
    """Make a peer's environment, if it is not there.

    Raises
    ------
    PeerFailed
        If the package cannot be had.
    """
    if is_installed(name):
        return
    wanted = requirement(name)
    for command in (
        [sys.executable, "-m", "venv", str(ENVIRONMENTS / name)],
        [str(_python(name)), "-m", "pip", "install", "--quiet", wanted],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PeerFailed(f"{wanted} cannot be installed:\n{done.stderr[-2000:]}")
    _marker(name).write_text(wanted)


def ask(name: str, questions: Sequence[dict[str, Any]], *options: str) -> Any:
    """What an installed peer answers; see ``ask.py``.

    Raises
    ------
    PeerFailed
        If it breaks off.
    """
    script = Path(__file__).with_name("ask.py")
    done = subprocess.run(
        [str(_python(name)), str(script), f"ask_{name.replace('-', '_')}", *options],
        input=json.dumps(list(questions)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PeerFailed(f"{name} broke off:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def _python(name: str) -> Path:
    return ENVIRONMENTS / name / "bin" / "python"


def _marker(name: str) -> Path:
    return ENVIRONMENTS / name / "installed"
