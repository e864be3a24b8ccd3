"""Runs the command in this process, with a wide terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from service.cli import app


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command printed, and its exit status."""

    status: int
    printed: str
    complaints: str


Headroom = Callable[..., Outcome]


@pytest.fixture
def headroom(monkeypatch: pytest.MonkeyPatch) -> Headroom:
    """The command, with its arguments."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("HEADROOM_SERVER", raising=False)

    def run(*arguments: str, given: str | None = None) -> Outcome:
        result = CliRunner().invoke(app, arguments, input=given)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run
