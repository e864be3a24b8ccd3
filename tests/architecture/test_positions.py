"""Values that are made by position, which takes a third of the time: every part is in its place."""

import ast
import dataclasses
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import service.core

CORE = Path(next(iter(service.core.__path__)))


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(CORE.rglob("*.py")):
        parts = path.relative_to(CORE.parent.parent).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def _field_names(made: object) -> list[str]:
    """Names of the fields that a class takes by position; none of what is not made of fields."""
    if not isinstance(made, type):
        return []
    if dataclasses.is_dataclass(made):
        return [each.name for each in dataclasses.fields(made) if each.init]
    return list(getattr(made, "_fields", ()))


def _told(argument: ast.expr) -> str | None:
    """What an argument is called where it is a variable or an attribute."""
    if isinstance(argument, ast.Name):
        return argument.id
    return argument.attr if isinstance(argument, ast.Attribute) else None


def misplaced(call: ast.Call, names: list[str]) -> list[str]:
    """Arguments that are called as a field is, and stand in another one's place alone."""
    places = [_told(argument) for argument in call.args[: len(names)]]
    return [
        f"line {call.lineno}: {told} in the place of {names[place]}"
        for place, told in enumerate(places)
        if told in names and told not in places[names.index(told) : names.index(told) + 1]
    ]


def test_what_is_made_by_position_has_every_part_in_its_place() -> None:
    """No type tells one number from another: a name is all that shows that two are swapped."""
    found, seen = [], 0
    for module, tree in _modules():
        known = vars(importlib.import_module(module))
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                continue
            names = _field_names(known.get(call.func.id))
            if len(call.args) > 3 and names and not any(map(_is_spread, call.args)):
                seen += 1
                found += [f"{module}: {each}" for each in misplaced(call, names)]
    assert found == []
    assert seen > 10  # the large ones of an estimate


def _is_spread(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Starred)


@pytest.mark.parametrize(
    ("written", "count"),
    [
        ("Made(low, high)", 0),
        ("Made(high, low)", 2),
        ("Made(one.high, 0.0)", 1),
        ("Made(low, low)", 0),
    ],
)
def test_a_part_in_the_place_of_another_is_found(written: str, count: int) -> None:
    call = ast.parse(written, mode="eval").body
    assert isinstance(call, ast.Call)
    assert len(misplaced(call, ["low", "high"])) == count
