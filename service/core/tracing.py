"""Figures that note what is computed with them.

A :class:`Traced` number has a value and knows the expression that it came from. Formulas take it
for an array, as they take figures of many configurations: what :mod:`service.core.elementwise`
hands to numpy comes back here. It does what a plain number would do, in the same order and with the
same rounding, and wherever a formula decides by it, the decision is noted as a condition under
which all that was noted holds. What would hide where a number came from is refused.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, TypeAlias

import numpy as np

from service.core.elementwise import maximum, minimum, where
from service.core.errors import HeadroomError

#: An operand of an expression: the place of a noted one, or a plain number.
Operand: TypeAlias = "Place | float | int | str"


class Untraceable(HeadroomError):
    """Something was done with a traced figure that straight-line code cannot repeat."""


class Place(int):
    """Where an expression stands among those that were noted."""

    __slots__ = ()


#: Longer code takes long to make: searches within an estimate are repeated as they are.
_MOST_EXPRESSIONS = 12_000

#: What stands in a text for an expression whose words come there.
MARKED = "\ue000(\\d+)\ue001"

#: What expressions are made of, by name: how they are computed.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "neg": operator.neg,
    "abs": abs,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
    "float": float,
    "is_integer": float.is_integer,
    "round": round,
    "format": format,
    "ceil": math.ceil,
    "floor": math.floor,
    "trunc": math.trunc,
    "log": math.log,
    "expm1": math.expm1,
    "sqrt": math.sqrt,
    "hypot": math.hypot,
    "exp": lambda number: float(np.exp(number)),
    "maximum": maximum,
    "minimum": minimum,
    "where": where,
}


def worded(function: Callable[[float], str]) -> Callable[[float], str]:
    """Declares a pure function of a number whose words are noted where the number is traced."""
    name = f"words_{function.__name__}"
    OPERATIONS[name] = function

    @wraps(function)
    def told(value: float) -> str:
        given: Any = value
        return given.words(name) if type(given) is Traced else function(given)

    return told


class Tape:
    """What was computed, in order: expressions, and the conditions that decisions rest on."""

    def __init__(self) -> None:
        self.expressions: list[tuple[str, tuple[Operand, ...]]] = []
        self.conditions: dict[Place, bool] = {}
        self._places: dict[tuple[Any, ...], Place] = {}

    def input(self, value: float) -> Traced:
        """A number that is given anew each time."""
        place = Place(len(self.expressions))
        self.expressions.append(("input", ()))
        return Traced(self, place, value)

    def note(self, operation: str, *operands: Any) -> Traced:
        """What an operation makes of operands, noted once however often it is computed."""
        try:
            value = OPERATIONS[operation](
                *(one._value if type(one) is Traced else one for one in operands)
            )
        except (ArithmeticError, ValueError) as error:
            raise Untraceable(str(error)) from None
        noted = tuple(one._place if type(one) is Traced else self._plain(one) for one in operands)
        # 1 is not 1.0, nor 0.0 the same as -0.0.
        key = (operation, *((type(one), repr(one)) for one in noted))
        place = self._places.get(key)
        if place is None:
            if len(self.expressions) >= _MOST_EXPRESSIONS:
                raise Untraceable(f"more than {_MOST_EXPRESSIONS} expressions")
            place = self._places[key] = Place(len(self.expressions))
            self.expressions.append((operation, noted))
        return Traced(self, place, value)

    def _plain(self, operand: Any) -> Operand:
        if isinstance(operand, np.floating):
            return float(operand)
        if type(operand) not in (float, int, bool, str):
            raise Untraceable(f"a figure meets a {type(operand).__name__}")
        found: float | int | str = operand
        return found


class Traced:
    """A number, or a condition, with the expression that it came from; see the module."""

    __slots__ = ("_place", "_tape", "_value")

    def __init__(self, tape: Tape, place: Place, value: Any) -> None:
        self._tape = tape
        self._place = place
        self._value = value

    @property
    def place(self) -> Place:
        """Where its expression stands."""
        return self._place

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Formulas take it for figures of many."""
        return np.ndarray

    # Decisions

    def __bool__(self) -> bool:
        decided = bool(self._value)
        self._tape.conditions.setdefault(self._place, decided)
        return decided

    def all(self) -> Traced:
        """Whether a condition holds throughout."""
        return self

    def any(self) -> Traced:
        """Whether a condition holds anywhere."""
        return self

    # Arithmetic

    def _noted(self, operation: str, *operands: Any) -> Traced:
        return self._tape.note(operation, *operands)

    def __add__(self, other: Any) -> Traced:
        return self._noted("+", self, other)

    def __radd__(self, other: Any) -> Traced:
        return self._noted("+", other, self)

    def __sub__(self, other: Any) -> Traced:
        return self._noted("-", self, other)

    def __rsub__(self, other: Any) -> Traced:
        return self._noted("-", other, self)

    def __mul__(self, other: Any) -> Traced:
        return self._noted("*", self, other)

    def __rmul__(self, other: Any) -> Traced:
        return self._noted("*", other, self)

    def __truediv__(self, other: Any) -> Traced:
        return self._noted("/", self, other)

    def __rtruediv__(self, other: Any) -> Traced:
        return self._noted("/", other, self)

    def __floordiv__(self, other: Any) -> Traced:
        return self._noted("//", self, other)

    def __rfloordiv__(self, other: Any) -> Traced:
        return self._noted("//", other, self)

    def __mod__(self, other: Any) -> Traced:
        return self._noted("%", self, other)

    def __rmod__(self, other: Any) -> Traced:
        return self._noted("%", other, self)

    def __pow__(self, other: Any) -> Traced:
        return self._noted("**", self, other)

    def __rpow__(self, other: Any) -> Traced:
        return self._noted("**", other, self)

    def __neg__(self) -> Traced:
        return self._noted("neg", self)

    def __abs__(self) -> Traced:
        return self._noted("abs", self)

    def __ceil__(self) -> Traced:
        return self._noted("ceil", self)

    def __floor__(self) -> Traced:
        return self._noted("floor", self)

    def __trunc__(self) -> Traced:
        return self._noted("trunc", self)

    def is_integer(self) -> Traced:
        """Whether it is a whole number."""
        return self._noted("is_integer", self)

    def __round__(self, digits: int | None = None) -> Traced:
        return self._noted("round", self) if digits is None else self._noted("round", self, digits)

    def item(self) -> Traced:
        """As a number with a fraction, as arrays of one element become one."""
        return self if type(self._value) is float else self._noted("float", self)

    # Comparisons

    def _compared(self, operation: str, other: Any) -> Any:
        if not isinstance(other, int | float | np.floating) and type(other) is not Traced:
            return NotImplemented  # a word, or None: never the same
        return self._noted(operation, self, other)

    def __ge__(self, other: Any) -> Any:
        return self._compared(">=", other)

    def __le__(self, other: Any) -> Any:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compared(">", other)

    def __lt__(self, other: Any) -> Any:
        return self._compared("<", other)

    def __eq__(self, other: Any) -> Any:
        return self._compared("==", other)

    def __ne__(self, other: Any) -> Any:
        return self._compared("!=", other)

    # Words

    def __format__(self, form: str) -> str:
        return self.words("format", form)

    def words(self, operation: str, *more: Any) -> str:
        """What stands in a text for the words that an operation makes of it."""
        return f"\ue000{int(self._noted(operation, self, *more)._place)}\ue001"

    # What numpy would do

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **more: Any) -> Any:
        if method == "reduce" and ufunc is np.fmin:
            return self  # the least of one
        operation = _UFUNCS.get(ufunc.__name__)
        if operation is None or method != "__call__" or more:
            raise Untraceable(f"numpy.{ufunc.__name__} is not known here")
        return operation(self._tape, *operands)

    def __array_function__(self, function: Any, _: Any, operands: Any, more: Any) -> Any:
        if function is not np.where or more:
            raise Untraceable(f"numpy.{function.__name__} is not known here")
        condition, if_true, if_false = operands
        if type(condition) is not Traced or isinstance(if_true, str) or isinstance(if_false, str):
            return if_true if condition else if_false
        return self._noted("where", condition, if_true, if_false)

    # What would hide where it came from

    def _refused(self, *_: Any) -> NoReturn:
        raise Untraceable("a figure is turned into something that does not tell its expression")

    __float__ = __int__ = __index__ = __complex__ = __hash__ = __str__ = _refused
    __repr__ = __reduce_ex__ = __array__ = __iter__ = __len__ = _refused


def _noting(operation: str) -> Callable[..., Traced]:
    return lambda tape, *operands: tape.note(operation, *operands)


def _ceil(tape: Tape, number: Any) -> Traced:
    return tape.note("float", tape.note("ceil", number))


def _floor(tape: Tape, number: Any) -> Traced:
    return tape.note("float", tape.note("floor", number))


#: Functions of numpy by name, as :mod:`service.core.elementwise` computes them for plain numbers.
_UFUNCS: dict[str, Callable[..., Any]] = {
    **{
        name: _noting(operation)
        for name, operation in (
            *(("add", "+"), ("subtract", "-"), ("multiply", "*"), ("divide", "/")),
            *(("power", "**"), ("greater", ">"), ("greater_equal", ">="), ("less", "<")),
            *(("less_equal", "<="), ("equal", "=="), ("not_equal", "!=")),
            *((name, name) for name in ("exp", "expm1", "log", "hypot", "sqrt")),
        )
    },
    "ceil": _ceil,
    "floor": _floor,
    "maximum": _noting("maximum"),
    "minimum": _noting("minimum"),
    "logical_and": lambda _, first, second: first and second,
    "logical_or": lambda _, first, second: first or second,
}
