"""Straight-line code from what was noted: the same arithmetic without what led to it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from service.core.tracing import OPERATIONS, Operand, Place, Tape

#: What a program makes of its inputs; None where conditions under which it was noted do not hold.
Program: TypeAlias = Callable[..., tuple[Any, ...] | None]

#: Expressions nest no deeper than this, so that the interpreter's stack stays small.
_DEEPEST = 40
#: Lines of a function, which takes some milliseconds to compile.
_LONGEST_PART = 256
_VARIABLES = re.compile(r"\bv\d+\b")
#: Expressions that spell their operands twice.
_TWICE = frozenset({"maximum", "minimum"})
_INFIX = frozenset({"+", "-", "*", "/", "//", "%", "**", ">=", "<=", ">", "<", "==", "!="})
#: Others that are spelled neither between nor before their operands.
_SPELLED = {
    "neg": "(-{0})",
    "exp": "float(exp({0}))",
    "maximum": "({0} if {0}>={1} else {1})",
    "minimum": "({0} if {0}<={1} else {1})",
    "where": "({1} if {0} else {2})",
}
_NAMES: Mapping[str, Any] = MappingProxyType(
    {
        "inf": math.inf,
        "nan": math.nan,
        "exp": np.exp,
    }
)


def compiled(tape: Tape, wanted: Sequence[Place]) -> Program:
    """What computes the wanted expressions of a tape from its inputs, in the order of these.

    Parameters
    ----------
    tape
        What was noted; conditions that were decided are decided again, and have to come out alike.
    wanted
        Expressions to compute; others are computed where these or conditions need them.

    Returns
    -------
    Program
        Answers None where a condition does not hold. Raises what arithmetic raises: a division by
        zero, say, in what is noted for all inputs under which the conditions hold.
    """
    uses = used(tape, wanted)
    inputs = [f"v{at}" for at, (name, _) in enumerate(tape.expressions) if name == "input"]
    lines: list[str] = []
    spelled: dict[Place, tuple[str, int]] = {}

    def spell(operand: Operand) -> tuple[str, int]:
        return spelled[operand] if isinstance(operand, Place) else (_constant(operand), 0)

    for at, (operation, operands) in enumerate(tape.expressions):
        place = Place(at)
        if place not in uses:
            continue
        if operation == "input":
            spelled[place] = f"v{at}", 0
            continue
        parts = [spell(operand) for operand in operands]
        text = _spelled(operation, [part for part, _ in parts])
        depth = 1 + max(depth for _, depth in parts)
        decided = tape.conditions.get(place)
        if decided is not None:
            lines.append(f" if {'not ' if decided else ''}{text}: return None")
            text, depth = repr(decided), 0
        elif uses[place] > 1 or depth > _DEEPEST:
            lines.append(f" v{at}={text}")
            text, depth = f"v{at}", 0
        spelled[place] = text, depth
    lines.append(f" return ({''.join(f'{spelled[place][0]},' for place in wanted)})")
    found: dict[str, Any] = {**OPERATIONS, **_NAMES}
    for text in _in_parts(lines, inputs):
        exec(text, found)  # noqa: S102 - numbers and operators alone
    program: Program = found["part_0"]
    return program


def _in_parts(lines: Sequence[str], inputs: Sequence[str]) -> Iterator[str]:
    """Functions that call each other in turn, with the variables that are needed from there on.

    Nothing else goes on in a process while it compiles a function: each is short.
    """
    starts = range(0, len(lines), _LONGEST_PART)
    given = [inputs]
    for start in starts[1:]:
        known = dict.fromkeys((*inputs, *_VARIABLES.findall("".join(lines[:start]))))
        needed = set(_VARIABLES.findall("".join(lines[start:])))
        given.append([name for name in known if name in needed])
    for at, start in enumerate(starts):
        body = lines[start : start + _LONGEST_PART]
        if at + 1 < len(starts):
            body = [*body, f" return part_{at + 1}({','.join(given[at + 1])})"]
        yield "\n".join([f"def part_{at}({','.join(given[at])}):", *body])


def used(tape: Tape, wanted: Sequence[Place]) -> dict[Place, int]:
    """How often each expression is used that wanted ones, or conditions, need."""
    uses: dict[Place, int] = {}
    for place in (*wanted, *tape.conditions):
        uses[place] = uses.get(place, 0) + 1
    for at in reversed(range(len(tape.expressions))):
        if Place(at) not in uses:
            continue
        operation, operands = tape.expressions[at]
        for operand in operands:
            if isinstance(operand, Place):
                uses[operand] = uses.get(operand, 0) + (2 if operation in _TWICE else 1)
    return uses


def _spelled(operation: str, parts: Sequence[str]) -> str:
    if operation in _INFIX:
        return f"({parts[0]}{operation}{parts[1]})"
    form = _SPELLED.get(operation)
    return f"{operation}({','.join(parts)})" if form is None else form.format(*parts)


def _constant(number: float | str) -> str:
    text = repr(number)
    return f"({text})" if text.startswith("-") else text
