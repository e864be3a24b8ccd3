"""Answers as large as they were asked for: the groups of ``include``, the paths of ``fields``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, lru_cache
from types import NoneType, UnionType
from typing import Any, NotRequired, TypeAlias, Union, get_args, get_origin, get_type_hints

from typing_extensions import TypeAliasType, is_typeddict

from service.core.errors import HeadroomError
from service.estimation.detail import Detail, grouped_fields
from service.estimation.rejection import FieldError, Rejected

#: Paths that are wanted, as a tree; None is everything below.
Wanted: TypeAlias = dict[str, "Wanted | None"]

_MOST_NEAR = 3
_LONGEST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Place:
    """A place in an answer: the fields below it, and the group that it belongs to, if any.

    ``lists`` says that it holds a list, ``open`` that names below it are not known beforehand.
    """

    below: Mapping[str, Place] = field(default_factory=dict)
    group: str | None = None
    lists: bool = False
    open: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """How much of an answer is made, and what of it is told; ``wanted`` None for all of it."""

    detail: Detail
    wanted: Wanted | None

    def told(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """What of an answer is told."""
        return answer if self.wanted is None else _cut(answer, self.wanted)


@lru_cache(maxsize=256)
def shape(answer: Any, include: tuple[str, ...], fields: tuple[str, ...]) -> Shape:
    """The shape that a request asks an answer of this type in.

    A path into a group includes the group. Below a path that ends above one, groups are there as
    ``include`` says.

    Raises
    ------
    Rejected
        If a path leads nowhere, or into a list.
    """
    if not fields:
        return Shape(Detail(frozenset(include)), None)
    whole = places(answer)
    groups, errors = set(include), []
    wanted: Wanted = {}
    for at, path in enumerate(fields):
        parts = path.split(".")
        try:
            groups |= _groups_on(whole, parts)
        except _LeadsNowhere as wrong:
            errors.append(FieldError(f"/fields/{at}", str(wrong), suggestions=wrong.near))
        else:
            _want(wanted, parts)
    if errors:
        raise Rejected(errors)
    return Shape(Detail(frozenset(groups)), wanted)


class _LeadsNowhere(HeadroomError):
    """A path that is none of the answer's; ``near`` are such as may have been meant."""

    def __init__(self, detail: str, near: Iterable[str] = ()) -> None:
        super().__init__(detail)
        self.near = tuple(near)


def _groups_on(whole: Place, parts: list[str]) -> set[str]:
    """Groups that a path leads into."""
    groups: set[str] = set()
    place = whole
    for depth, name in enumerate(parts):
        if place.open:
            return groups
        before = ".".join(parts[:depth])
        if place.lists:
            raise _LeadsNowhere(
                f"{before} is a list, whose parts cannot be chosen; ask for all of it", [before]
            )
        following = place.below.get(name)
        if following is None:
            raise _unknown(parts, depth, whole, place)
        place = following
        if place.group is not None:
            groups.add(place.group)
    return groups


def _unknown(parts: list[str], depth: int, whole: Place, place: Place) -> _LeadsNowhere:
    before = ".".join(parts[:depth])
    shown = ".".join(parts)[:_LONGEST_SHOWN]
    if depth and not place.below:
        return _LeadsNowhere(f"{before} has no parts", [before])
    every = _paths(whole)
    asked = ".".join(parts)[: 2 * _LONGEST_SHOWN]
    last = [path for path in every if path.rpartition(".")[2] == parts[-1]]
    near = [*last, *get_close_matches(asked, every, n=_MOST_NEAR, cutoff=0.6)]
    near = list(dict.fromkeys(near))[:_MOST_NEAR]
    hint = f"did you mean {' or '.join(near)}?" if near else f"known here: {', '.join(place.below)}"
    return _LeadsNowhere(f"the answer has no {shown!r}; {hint}", near)


def _paths(place: Place, prefix: str = "") -> list[str]:
    """Paths of all fields below a place, but for the three ends of an interval."""
    found = []
    for name, below in place.below.items():
        path = f"{prefix}{name}"
        found.append(path)
        if below.below.keys() != {"value", "low", "high"}:
            found += _paths(below, f"{path}.")
    return found


def _want(wanted: Wanted, parts: list[str]) -> None:
    holder = wanted
    for name in parts[:-1]:
        below = holder.setdefault(name, {})
        if below is None:
            return
        holder = below
    holder[parts[-1]] = None


def _cut(value: Any, wanted: Wanted) -> Any:
    """What is wanted of a part of an answer, in its order; null where all of it is null."""
    if not isinstance(value, Mapping):
        return value
    return {
        name: part if below is None else _cut(part, below)
        for name, part in value.items()
        if (below := wanted.get(name, wanted)) is not wanted
    }


@cache
def places(answer: Any) -> Place:
    """The tree of an answer's fields, by its type."""
    return _place(answer, None)


def _place(type_: Any, group: str | None) -> Place:
    if isinstance(type_, TypeAliasType):
        return _place(type_.__value__, group)
    origin, parts = get_origin(type_), get_args(type_)
    if is_typeddict(type_):
        groups = grouped_fields(type_)
        hints = get_type_hints(type_)
        return Place(
            {name: _place(part, groups.get(name)) for name, part in hints.items()}, group=group
        )
    if origin is NotRequired or (origin is not None and hasattr(type_, "__metadata__")):
        return _place(parts[0], group)
    if origin in (Union, UnionType):
        options = [_place(part, group) for part in parts if part is not NoneType]
        return Place(
            {name: below for one in options for name, below in one.below.items()},
            group=group,
            lists=any(one.lists for one in options),
            open=any(one.open for one in options),
        )
    if origin is list:
        return Place(group=group, lists=True)
    return Place(group=group, open=origin is dict or type_ is Any)
