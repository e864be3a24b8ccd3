"""Rules for source files that the linters do not know."""

import ast
from collections.abc import Iterator
from pathlib import Path

PROJECT_FOLDER = Path(__file__).parents[2]
SERVICE = PROJECT_FOLDER / "service"
LONGEST_MODULE_LINES = 500
FIGURE_TYPES = ("Number", "float", "Interval", "ndarray")
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "__import__"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.py"))
    assert found
    return found


def name(path: Path) -> str:
    return str(path.relative_to(PROJECT_FOLDER))


def public_functions(tree: ast.Module) -> Iterator[Function]:
    """Module functions and methods of public classes whose names have no leading underscore."""
    for node in tree.body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        if isinstance(node, ast.ClassDef) and node.name.startswith("_"):
            continue
        for member in members:
            if isinstance(member, Function) and not member.name.startswith("_"):
                yield member


def handles_figures(function: Function) -> bool:
    arguments = function.args
    annotations = [
        argument.annotation
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    ]
    written = " ".join(ast.unparse(note) for note in (*annotations, function.returns) if note)
    return any(figure_type in written for figure_type in FIGURE_TYPES)


def test_modules_stay_short() -> None:
    lines = {name(path): len(path.read_text().splitlines()) for path in modules(SERVICE)}
    assert {path: count for path, count in lines.items() if count > LONGEST_MODULE_LINES} == {}


def test_functions_of_figures_say_what_they_compute() -> None:
    silent = [
        f"{name(path)}: {function.name}"
        for path in modules(SERVICE / "core")
        for function in public_functions(ast.parse(path.read_text()))
        if handles_figures(function) and not ast.get_docstring(function)
    ]
    assert silent == []


def test_the_core_touches_nothing_outside() -> None:
    touched = [
        f"{name(path)}:{node.lineno}"
        for path in modules(SERVICE / "core")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Global)
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in IMPURE_CALLS
        )
    ]
    assert touched == []


def test_figure_functions_are_recognised() -> None:
    tree = ast.parse(
        "def area_m2(side_m: Number) -> Number: ...\n"
        "def label(text: str) -> str: ...\n"
        "class Room:\n"
        "    def volume_m3(self) -> 'float': ...\n"
        "    def _hidden(self) -> float: ...\n"
    )
    handling = [item.name for item in public_functions(tree) if handles_figures(item)]
    assert handling == ["area_m2", "volume_m3"]
