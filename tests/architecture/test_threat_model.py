"""Every measure of the threat model is held by tests that exist."""

from __future__ import annotations

import ast
import re

from service.settings import INSTALLATION

NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_each_named_test_exists() -> None:
    named = NAMED.findall((INSTALLATION / "docs" / "security.md").read_text())
    assert len(named) > 25
    for file, name in named:
        tree = ast.parse((INSTALLATION / file).read_text())
        functions = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in functions, f"{file} has no {name}"


def test_every_risk_of_the_list_is_met() -> None:
    text = (INSTALLATION / "docs" / "security.md").read_text()
    assert re.findall(r"^\| API(\d+) ", text, re.MULTILINE) == [str(n) for n in range(1, 11)]
