"""Requests as values of the core, and its results as answers, where both have the same names.

What to do with each field follows from its type, and is worked out once for a type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType, new_class
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from typing_extensions import is_typeddict

from service.core.elementwise import finite, plain
from service.descriptions import REPEATS
from service.estimation.answers import LEFT_OUT, Answer, Interval, figure, known_figure
from service.estimation.references import Request

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Valued = TypeVar("Valued", bound="DataclassInstance")
Answered = TypeVar("Answered")
_Write: TypeAlias = Callable[[Any], Any]


def valued(kind: type[Valued], asked: Request, **resolved: Any) -> Valued:
    """A value of the core from the fields of a request that have the same names.

    Whole numbers become floats where the value declares numbers; those that are ``resolved`` stand
    in the place of what was asked.
    """
    given = asked.__dict__
    values = {
        name: float(value) if number and type(value) is int else value
        for name, number in _shared_fields(kind, type(asked))
        for value in (given[name],)
    }
    return kind(**(values | resolved))


@cache
def _shared_fields(
    kind: type[DataclassInstance], asked: type[Request]
) -> tuple[tuple[str, bool], ...]:
    """Fields that a value has of a request, and whether formulas compute with them as numbers."""
    return tuple(
        (each.name, str(each.type).startswith(("Number", "float")))
        for each in fields(kind)
        if each.name in asked.model_fields
    )


def repeated(request: type[Request], *left_out: str) -> Any:
    """The answer that says how a request was understood: its fields, each of them filled in."""
    hints = {
        name: _repeated(field.annotation)
        for name, field in request.model_fields.items()
        if name not in left_out
    }
    stated = {"__annotations__": hints, "__doc__": request.__doc__, "__module__": __name__}
    answer = new_class(
        request.__name__.removesuffix("Request"),
        (Answer,),
        exec_body=lambda body: body.update(stated),
    )
    setattr(answer, REPEATS, request)
    return answer


def _repeated(type_: Any) -> Any:
    if get_origin(type_) in (Union, UnionType) and NoneType in get_args(type_):
        return NotRequired[Annotated[type_, LEFT_OUT]]
    if get_origin(type_) is tuple:
        return list[get_args(type_)[0]]  # type: ignore[misc]
    return repeated(type_) if isinstance(type_, type) and issubclass(type_, Request) else type_


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
    if type_ is float:
        return plain
    return str if origin is Literal else type_


def _known_number(value: float | None) -> float | None:
    return None if value is None or not finite(value) else plain(value)


def _unless_none(write: _Write) -> _Write:
    return lambda value: None if value is None else write(value)
