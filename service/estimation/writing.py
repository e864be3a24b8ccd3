"""Writes results of the core as answers, where both have the same names.

What to do with each field of an answer follows from its type, and is worked out once for a type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import isfinite
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from service.estimation.answers import Interval, figure, known_figure

Answered = TypeVar("Answered")
_Write: TypeAlias = Callable[[Any], Any]


def written(result: object, answer: type[Answered]) -> Answered:
    """A result as an answer of the given type, each of whose fields it has by the same name.

    Intervals become a value with its bounds, and null where they are unknown or without bound if
    the field may be null; parts that are results themselves are written alike.
    """
    write: _Write = _writer(answer)  # type: ignore[arg-type]
    answered: Answered = write(result)
    return answered


@cache
def _writer(answer: Any) -> _Write:
    fields = get_type_hints(answer)
    writes = tuple((name, _write_of(type_)) for name, type_ in fields.items())
    if len(writes) == 1:
        [(only, write)] = writes
        return lambda result: {only: write(getattr(result, only))}
    values_of = attrgetter(*fields)

    def write_all(result: Any) -> dict[str, Any]:
        values = values_of(result)
        return {name: write(value) for (name, write), value in zip(writes, values, strict=True)}

    return write_all


def _write_of(type_: Any) -> _Write:
    origin, parts = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        [known] = [part for part in parts if part is not NoneType]
        if known is Interval:
            return known_figure
        if known is float:
            return _known_number
        return _unless_none(_write_of(known))
    if type_ is Interval:
        return figure
    if is_typeddict(type_):
        return _writer(type_)
    if origin is list:
        write = _write_of(parts[0])
        return lambda values: [write(value) for value in values]
    if origin is dict:
        write = _write_of(parts[1])
        return lambda values: {name: write(value) for name, value in values.items()}
    return str if origin is Literal else type_


def _known_number(value: float | None) -> float | None:
    return None if value is None or not isfinite(value) else float(value)


def _unless_none(write: _Write) -> _Write:
    return lambda value: None if value is None else write(value)
