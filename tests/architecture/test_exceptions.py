"""All exceptions of the project are in one tree, and no line claims that it is never reached."""

from __future__ import annotations

import ast
import builtins
from functools import cache
from pathlib import Path

import service

BUILTIN = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}


@cache
def modules() -> dict[Path, ast.Module]:
    """Every module of the service, parsed once."""
    return {path: ast.parse(path.read_text()) for path in Path(service.__path__[0]).rglob("*.py")}


def test_exceptions_derive_from_the_projects_own():
    alone = {
        node.name
        for module in modules().values()
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
        and node.bases
        and BUILTIN.issuperset(ast.unparse(base) for base in node.bases)
    }
    assert alone == {"HeadroomError"}


def test_types_say_what_cannot_happen():
    raised = {
        (path.name, node.lineno)
        for path, module in modules().items()
        for node in ast.walk(module)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and ast.unparse(node.exc.func) == "AssertionError"
    }
    assert not raised
