"""Requests out of JSON: whole numbers in either spelling, and no key given twice."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from service.estimation.references import Request
from service.estimation.rejection import FieldError, Rejected

Asked = TypeVar("Asked", bound=Request)

#: Integers up to here are floats without loss, and the other way round (RFC 8259, 6).
_EXACT = 2**53
#: What may be a whole number that is spelled as a fraction: 8.0, 8e3.
_SPELLED_AS_FRACTION = re.compile(rb"\d\.0|\d[eE]")
#: Errors with more parts than this are not worth a second look.
_MOST_ERRORS = 1_000


def parsed(model: type[Asked], body: bytes) -> Asked:
    """The request that a body holds; integers may be spelled with a fraction of zero (``8.0``).

    JSON has one kind of number, and languages that have only one kind as well write ``8.0`` for 8.

    Raises
    ------
    ValidationError
        If it holds none.
    Rejected
        If an object has a key twice, of which parsers would silently keep one.
    """
    refuse_repeated_keys(body)
    try:
        return model.model_validate_json(body, strict=True)
    except ValidationError as error:
        if error.error_count() > _MOST_ERRORS or not _SPELLED_AS_FRACTION.search(body):
            raise
        try:
            given = from_json(body)
        except ValueError:
            raise error from None
    return model.model_validate_json(to_json(whole_numbers(given)), strict=True)


def refuse_repeated_keys(body: bytes) -> None:
    """Go on if no object of a body has a key twice.

    Raises
    ------
    Rejected
        If one has, with a pointer to each.
    """
    twice = tuple(repeated_keys(body))
    if twice:
        detail = "this key is given more than once in the same object; keep one of them"
        raise Rejected(FieldError(pointer, detail) for pointer in twice)


def whole_numbers(value: Any) -> Any:
    """A JSON value whose floats without a fraction are integers."""
    if isinstance(value, float):
        return int(value) if abs(value) <= _EXACT and value.is_integer() else value
    if isinstance(value, dict):
        return {name: whole_numbers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [whole_numbers(part) for part in value]
    return value


class _Object(dict[str, Any]):
    """An object of a body, with the keys that it had more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice: tuple[str, ...] = ()
        if len(self) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            self.twice = tuple(name for name, count in counts.items() if count > 1)


def repeated_keys(body: bytes) -> Iterator[str]:
    """JSON pointers to keys that an object has more than once; none of what is no JSON.

    Written again after it was read, a body has a colon less for every key that was dropped. Only
    what differs in that, or spells characters by number, is read again with an eye on every key.
    """
    if b"\\u" not in body:
        try:
            if orjson.dumps(orjson.loads(body)).count(b":") == body.count(b":"):
                return
        except (orjson.JSONDecodeError, orjson.JSONEncodeError):
            pass  # what is wrong with it is told better where it is validated
    try:
        whole = json.loads(body, object_pairs_hook=_Object)
    except (ValueError, RecursionError):
        return
    yield from _twice(whole, "")


def _twice(value: Any, pointer: str) -> Iterator[str]:
    if isinstance(value, _Object):
        yield from (f"{pointer}/{_escaped(name)}" for name in value.twice)
        for name, part in value.items():
            yield from _twice(part, f"{pointer}/{_escaped(name)}")
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from _twice(part, f"{pointer}/{at}")


def _escaped(name: str) -> str:
    shown = name.encode("utf-8", "replace").decode()[:200]
    return shown.replace("~", "~0").replace("/", "~1")
