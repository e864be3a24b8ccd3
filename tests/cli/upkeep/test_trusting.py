"""The parts list and the question about known vulnerabilities."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.cli.upkeep import trusting
from service.settings import INSTALLATION

SOUND = {"name": "sound", "version": "1.0", "vulns": []}
WEAK = {
    "name": "weak",
    "version": "2.0",
    "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["2.1"], "aliases": [], "description": "x"}],
}


def test_the_parts_list_has_every_pin_with_its_hashes(tmp_path: Path) -> None:
    listed = []
    for name in ("one.json", "two.json"):
        outcome = CliRunner().invoke(app, ["sbom", "--output", str(tmp_path / name)])
        assert outcome.exit_code == 0, outcome.output
        listed.append((tmp_path / name).read_text())
    assert listed[0] == listed[1]
    document = json.loads(listed[0])
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["name"] == "headroom"
    lock = (INSTALLATION / "requirements" / "runtime.txt").read_text()
    pins = set(re.findall(r"^([a-z0-9.-]+)==([^\s;]+)", lock, re.MULTILINE))
    components = {(one["name"], one["version"]): one for one in document["components"]}
    assert pins == set(components)
    for one in components.values():
        assert "sha-256" in json.dumps(one).lower(), one["name"]


def answered(monkeypatch: pytest.MonkeyPatch, status: int, report: Any, said: str = "") -> Any:
    printed = report if isinstance(report, str) else json.dumps(report)
    finished = subprocess.CompletedProcess([], status, printed, said)
    monkeypatch.setattr(trusting.subprocess, "run", lambda *_, **__: finished)
    return CliRunner().invoke(app, ["audit"])


def test_weaknesses_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = answered(monkeypatch, 1, {"dependencies": [SOUND, WEAK]})
    assert outcome.exit_code == 1
    assert "weak 2.0: PYSEC-2026-1 (fixed in 2.1)" in outcome.stdout
    outcome = answered(monkeypatch, 0, {"dependencies": [SOUND]})
    assert outcome.exit_code == 0
    assert "0 known vulnerabilities" in outcome.stderr


@pytest.mark.parametrize(
    "report",
    [
        "",
        "{}",
        {"dependencies": []},
        {"dependencies": [SOUND, {"name": "left-out", "skip_reason": "not asked"}]},
    ],
)
def test_what_could_not_be_asked_is_not_called_sound(monkeypatch, report) -> None:
    outcome = answered(monkeypatch, 1, report, "ERROR: nobody there")
    assert outcome.exit_code == 3
    assert "could not be reached" in outcome.stderr.replace("\n", " ")
