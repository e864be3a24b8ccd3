"""What a caller may have meant by a field or a choice that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from typing_extensions import TypeAliasType

from service.estimation.nearest import hint, nearest
from service.estimation.references import Request

_QUOTED = re.compile(r"'([^']*)'")
#: So many fields are listed where none is near; objects have fewer.
_MOST_LISTED = 40


def unknown_field(name: str, known: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """What to say of a field that does not exist, and which ones may have been meant."""
    fields = sorted(known)
    near = nearest(name, fields)
    listed = f" (known: {', '.join(fields[:_MOST_LISTED])})" if fields and not near else ""
    return f"unknown field{hint(near)}{listed}", near


def choices_near(error: Mapping[str, Any]) -> tuple[str, ...]:
    """Choices like the one that was given, of an error that names all that there are."""
    given = error.get("input")
    expected = error.get("ctx", {}).get("expected")
    if not isinstance(given, str) or not isinstance(expected, str):
        return ()
    return nearest(given, _QUOTED.findall(expected))


def fields_at(model: type[Request], place: Sequence[str | int]) -> frozenset[str]:
    """Fields that requests have at a place, whichever of several kinds of object is meant there."""
    here = {model}
    for part in place:
        holding = [one for one in here if part in one.model_fields]
        if holding:  # else a position in a list, or a name of the caller's own
            here = {
                inner
                for one in holding
                for inner in _requests_in(one.model_fields[str(part)].annotation)
            }
    return frozenset(name for one in here for name in one.model_fields)


def _requests_in(annotation: Any) -> Iterator[type[Request]]:
    """Kinds of objects that a field may hold."""
    if isinstance(annotation, TypeAliasType):
        annotation = annotation.__value__
    if isinstance(annotation, type) and issubclass(annotation, Request):
        yield annotation
    for part in get_args(annotation):
        yield from _requests_in(part)
