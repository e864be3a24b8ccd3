"""What was noted, for many inputs at once: the same arithmetic column by column.

Straight-line code answers one load after the other. Where many come together, each of its steps
is taken for all of them: on arrays where numpy rounds as the interpreter does, and otherwise
element by element by the very function that code calls.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, repeat
from typing import Any, Final, TypeAlias

import numpy as np

from service.core.tracing import OPERATIONS, Place, Tape
from service.estimation.programs import used

#: Figures of all rows: an array of floats or conditions, or a list of anything else.
Column: TypeAlias = Any

_FLOATS, _TRUTHS, _OTHERS = "float", "bool", "other"
_COMPARED = frozenset({">=", "<=", ">", "<", "==", "!="})
_FLOAT_ALWAYS = frozenset({"float", "log", "expm1", "sqrt", "hypot", "exp"})
_ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%", "**"})
#: Whole numbers up to here are the same as floats.
_EXACT: Final = 2**53

#: What arrays of floats take, rounded as the interpreter rounds.
_ON_ARRAYS: Mapping[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    ">=": np.greater_equal,
    "<=": np.less_equal,
    ">": np.greater,
    "<": np.less,
    "==": np.equal,
    "!=": np.not_equal,
    "where": np.where,
    "float": lambda column: column,
    # As code does, of what is no number too.
    "maximum": lambda first, second: np.where(first >= second, first, second),
    "minimum": lambda first, second: np.where(first <= second, first, second),
}


class Rows:
    """Computes wanted expressions of a tape for many inputs.

    Parameters
    ----------
    tape
        What was noted, with the conditions under which it holds.
    wanted
        Expressions to compute.
    inputs
        Types of the inputs: float or int.
    """

    def __init__(self, tape: Tape, wanted: Sequence[Place], inputs: Sequence[type]) -> None:
        uses = used(tape, wanted)
        places = [at for at in range(len(tape.expressions)) if at in uses or _is_input(tape, at)]
        number = {place: at for at, place in enumerate(places)}
        kinds: list[str] = []
        constants: dict[Any, int] = {}
        self._steps: list[Callable[..., Column] | None] = []
        self._operands = (array("H"), array("H"), array("H"))
        self._conditions = {number[at]: holds for at, holds in tape.conditions.items()}
        given = iter(inputs)
        last: dict[int, int] = {}
        for at, place in enumerate(places):
            operation, operands = tape.expressions[place]
            if operation == "input":
                self._steps.append(None)
                kinds.append(_kind_of(next(given)))
                self._note_operands(())
                continue
            slots = [
                number[one]
                if isinstance(one, Place)
                else len(places) + constants.setdefault((type(one), repr(one), one), len(constants))
                for one in operands
            ]
            held = [
                kinds[number[one]] if isinstance(one, Place) else _kind_of(type(one))
                for one in operands
            ]
            kind = _kind(operation, held)
            kinds.append(kind)
            self._steps.append(_step(operation, operands, held, kind))
            self._note_operands(slots)
            last |= dict.fromkeys((slot for slot in slots if slot < len(places)), at)
        self._inputs = len(inputs)
        self._wanted = [number[place] for place in wanted]
        self._constants = [one for _, _, one in constants]
        # Columns that no later step needs are let go.
        kept = frozenset(self._wanted)
        self._last = array("H", [0] * len(places))
        for slot, at in last.items():
            self._last[slot] = 0 if slot in kept else at

    def _note_operands(self, slots: Sequence[int]) -> None:
        for place, slot in zip(self._operands, (*slots, *[_NONE] * (3 - len(slots))), strict=True):
            place.append(slot)

    def __call__(self, inputs: Sequence[Sequence[float]]) -> list[tuple[Any, ...] | None]:
        """Wanted figures of each row; None for a row that is decided otherwise.

        Raises
        ------
        ArithmeticError, ValueError
            If a row cannot be computed, such as by a division by zero.
        """
        size = len(inputs[0])
        alive = list(range(size))
        columns: list[Column] = [None] * len(self._steps) + self._constants
        with np.errstate(divide="raise", invalid="raise", over="ignore", under="ignore"):
            given = iter(inputs)
            for at, (step, *slots) in enumerate(zip(self._steps, *self._operands, strict=True)):
                if step is None:
                    columns[at] = _as_column(next(given))
                    continue
                first, second, third = slots
                if second == _NONE:
                    found = step(columns[first])
                elif third == _NONE:
                    found = step(columns[first], columns[second])
                else:
                    found = step(columns[first], columns[second], columns[third])
                columns[at] = found
                for slot in slots:
                    if slot < len(self._last) and self._last[slot] == at:
                        columns[slot] = None
                holds = self._conditions.get(at)
                if holds is None:
                    continue
                right = np.asarray(found, bool) == holds
                if not right.all():
                    alive = list(compress(alive, right))
                    if not alive:
                        return [None] * size
                    columns[: at + 1] = [_of(column, right) for column in columns[: at + 1]]
        results: list[tuple[Any, ...] | None] = [None] * size
        told = (_plain(columns[slot]) for slot in self._wanted)
        for row, figures in zip(alive, zip(*told, strict=True), strict=True):
            results[row] = figures
        return results


#: Stands for an operand that a step has not.
_NONE: Final = 65_535


def _is_input(tape: Tape, at: int) -> bool:
    return tape.expressions[at][0] == "input"


def _kind_of(type_: type) -> str:
    return _FLOATS if type_ is float else _TRUTHS if type_ is bool else _OTHERS


def _kind(operation: str, held: Sequence[str]) -> str:
    """What an operation makes of operands of some kinds."""
    if operation in _COMPARED or operation == "is_integer":
        return _TRUTHS
    if operation in _FLOAT_ALWAYS:
        return _FLOATS
    if operation in _ARITHMETIC:
        return _FLOATS if _FLOATS in held or operation == "/" else _OTHERS
    if operation in ("where", "maximum", "minimum"):
        [first, second] = held[-2:]
        return first if first == second else _OTHERS
    if operation in ("neg", "abs") and held[0] == _FLOATS:
        return _FLOATS
    return _OTHERS


def _step(
    operation: str, operands: Sequence[Any], held: Sequence[str], kind: str
) -> Callable[..., Column]:
    """How an operation is taken for all rows."""
    numbers = held[1:] if operation == "where" else held
    large = any(type(one) is int and abs(one) > _EXACT for one in operands)
    floats = _FLOATS in numbers and not large
    alike = all(
        of in (_FLOATS, _TRUTHS) or (type(one) is int and operation != "where")
        for one, of in zip(operands, held, strict=True)
    )
    if operation in ("where", "maximum", "minimum"):
        alike = alike and set(numbers) == {_FLOATS}
    if operation in _COMPARED:
        alike = alike and _TRUTHS not in held
    if operation in _ON_ARRAYS and floats and alike:
        return _ON_ARRAYS[operation]
    if kind == _FLOATS:
        return _floats_of(OPERATIONS[operation])
    return (_truths_of if kind == _TRUTHS else _listed)(OPERATIONS[operation])


def _listed(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Element by element."""

    def found(*columns: Column) -> list[Any]:
        return list(map(function, *map(_elements, columns)))

    return found


def _floats_of(function: Callable[..., Any]) -> Callable[..., Column]:
    listed = _listed(function)

    def found(*columns: Column) -> Column:
        values = listed(*columns)
        if set(map(type, values)) != {float}:
            raise ArithmeticError("no real number")  # a root of what is negative
        return np.array(values)

    return found


def _truths_of(function: Callable[..., Any]) -> Callable[..., Column]:
    listed = _listed(function)
    return lambda *columns: np.array(listed(*columns), bool)


def _elements(column: Column) -> Iterable[Any]:
    if isinstance(column, np.ndarray):
        elements: list[Any] = column.tolist()
        return elements
    return column if isinstance(column, list) else repeat(column)


def _as_column(values: Sequence[float]) -> Column:
    return np.array(values) if type(values[0]) is float else list(values)


def _of(column: Column, right: Any) -> Column:
    """What is left of a column, or of one that has been let go."""
    if isinstance(column, list):
        return list(compress(column, right))
    return column if column is None else column[right]


def _plain(column: Column) -> list[Any]:
    return column if isinstance(column, list) else list(column.tolist())
