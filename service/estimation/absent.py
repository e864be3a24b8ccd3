"""What an answer leaves out: fields that are null where they do not apply or were not asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, NotRequired, TypeAlias, Union, get_args, get_origin, get_type_hints

from typing_extensions import TypeAliasType, is_typeddict

from service.estimation.answers import LEFT_OUT

_Cut: TypeAlias = Callable[[Any], Any]


def without_absent(answer: Any, kind: Any) -> Any:
    """An answer of a type without its fields that are null, of those that may be left out.

    What is null elsewhere is unknown, which is an answer.
    """
    cut = _cut_of(kind)
    return answer if cut is None else cut(answer)


@cache
def _cut_of(kind: Any) -> _Cut | None:
    """How to leave things out of a part of this type; None where all of it stays."""
    for one in _options(kind):
        if is_typeddict(one):
            return _cut_of_fields(one)
        if get_origin(one) is list:
            return _cut_of_list(_cut_of(get_args(one)[0]))
    return None


def _cut_of_list(cut: _Cut | None) -> _Cut | None:
    return None if cut is None else lambda parts: [cut(part) for part in parts]


def _cut_of_fields(kind: Any) -> _Cut | None:
    hints = get_type_hints(kind, include_extras=True)
    absent = frozenset(name for name, part in hints.items() if LEFT_OUT in _said_of(part))
    within = {name: cut for name, part in hints.items() if (cut := _cut_of(part)) is not None}
    if not absent and not within:
        return None

    def cut_fields(answer: Mapping[str, Any]) -> dict[str, Any]:
        kept = dict(answer)
        for name in absent:
            if kept.get(name, kept) is None:
                del kept[name]
        for name, cut in within.items():
            part = kept.get(name)
            if part is not None:
                kept[name] = cut(part)
        return kept

    return cut_fields


def _said_of(kind: Any) -> Iterator[Any]:
    """What annotations say of a field."""
    while get_origin(kind) is NotRequired or hasattr(kind, "__metadata__"):
        yield from getattr(kind, "__metadata__", ())
        kind = get_args(kind)[0]


def _options(kind: Any) -> tuple[Any, ...]:
    """What a type may be, but for null, without what is said of it."""
    if isinstance(kind, TypeAliasType):
        return _options(kind.__value__)
    if get_origin(kind) is NotRequired or hasattr(kind, "__metadata__"):
        return _options(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return tuple(
            one for part in get_args(kind) if part is not NoneType for one in _options(part)
        )
    return (kind,)
