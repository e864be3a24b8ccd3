"""All exceptions of the project are in one tree, and no line claims that it is never reached."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import service

MODULES = {path: ast.parse(path.read_text()) for path in Path(service.__path__[0]).rglob("*.py")}
BUILTIN = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}


def test_exceptions_derive_from_the_projects_own():
    alone = {
        node.name
        for module in MODULES.values()
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
        and node.bases
        and BUILTIN.issuperset(ast.unparse(base) for base in node.bases)
    }
    assert alone == {"HeadroomError"}


def test_types_say_what_cannot_happen():
    raised = {
        (path.name, node.lineno)
        for path, module in MODULES.items()
        for node in ast.walk(module)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and ast.unparse(node.exc.func) == "AssertionError"
    }
    assert not raised
