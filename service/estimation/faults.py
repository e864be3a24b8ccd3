"""What a validator found, in the words of whoever filled in the field."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from types import MappingProxyType
from typing import Any

#: Days as people write them elsewhere: 22.11.2026, 22/11/2026.
_DAY_FIRST = re.compile(r"(\d{1,2})[./](\d{1,2})[./](\d{4})")
#: What follows the sentence of a validator that was made for several kinds of input.
_NOTHING_THERE = "EOF while parsing a value at line 1 column 0"
_OWN_WORDS = ("Value error, ", "Invalid JSON: ")


def fault(error: Mapping[str, Any]) -> str:
    """What is wrong with a field, as a predicate of it: "must be at least 1".

    Parameters
    ----------
    error
        One of a pydantic ``ValidationError``, with what was given if that is to be told.
    """
    told = _TOLD.get(error["type"])
    if told is not None:
        return told(error.get("ctx") or {}, error.get("input"))
    said = str(error["msg"]).replace(_NOTHING_THERE, "the body is empty; send a JSON object")
    for own in _OWN_WORDS:
        said = said.removeprefix(own)
    return said.replace("Input should be ", "must be ", 1)


def corrections(error: Mapping[str, Any]) -> tuple[str, ...]:
    """What the field would accept in place of what was given, where that can be told for sure."""
    given = error.get("input")
    if not isinstance(given, str):
        return ()
    kind = error["type"]
    if kind in ("int_type", "float_type") and _is_number(given):
        return (given.strip(),)
    if kind.startswith("date") and (day := _DAY_FIRST.fullmatch(given.strip())):
        try:
            return (date(int(day[3]), int(day[2]), int(day[1])).isoformat(),)
        except ValueError:
            return ()
    return ()


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?(e\d{1,3})?", text.strip()) is not None


def _number(number: Any) -> str:
    """A bound as people write it."""
    if isinstance(number, float) and number.is_integer() and abs(number) < _WRITTEN_OUT:
        number = int(number)
    return f"{number:,}" if isinstance(number, int) else str(number)


#: Numbers from here on are written with an exponent.
_WRITTEN_OUT = 1e15


def _bound(words: str, name: str) -> Callable[[Mapping[str, Any], Any], str]:
    return lambda ctx, _: f"must be {words} {_number(ctx[name])}"


def _typed(expected: str) -> Callable[[Mapping[str, Any], Any], str]:
    """That something of another type was given."""

    def told(_: Mapping[str, Any], given: Any) -> str:
        if given is None:
            return "must not be null; leave out what you have no value for"
        if isinstance(given, str) and _is_number(given) and "number" in expected:
            return f"must be {expected}, without quotation marks"
        if isinstance(given, float) and "whole" in expected:
            return f"must be {expected}, not {given!r}"
        if isinstance(given, bool) and expected != _YES_OR_NO:
            return f"must be {expected}, not true or false"
        return f"must be {expected}"

    return told


_YES_OR_NO = "true or false"


def _length(least: bool) -> Callable[[Mapping[str, Any], Any], str]:
    def told(ctx: Mapping[str, Any], _: Any) -> str:
        count = ctx["min_length"] if least else ctx["max_length"]
        unit = "item" if "field_type" in ctx else "character"
        plural = "" if count == 1 else "s"
        return f"must have at {'least' if least else 'most'} {_number(count)} {unit}{plural}"

    return told


def _choice(ctx: Mapping[str, Any], _: Any) -> str:
    expected = str(ctx["expected"]).replace(chr(39), "")
    # A word that stands alone is there in place of a number: as many as fit, or as a machine has.
    return f"must be {expected}" if " " in expected else f"must be a whole number or {expected}"


def _day(_: Mapping[str, Any], __: Any) -> str:
    return "must be a day of the calendar, written year-month-day: 2026-11-22"


def _always(text: str) -> Callable[[Mapping[str, Any], Any], str]:
    return lambda _, __: text


_NUMBER, _WHOLE, _TEXT, _LIST = "a number", "a whole number", "text", "a list"
_TOLD: Mapping[str, Callable[[Mapping[str, Any], Any], str]] = MappingProxyType(
    {
        "missing": _always("is required"),
        "greater_than": _bound("greater than", "gt"),
        "greater_than_equal": _bound("at least", "ge"),
        "less_than": _bound("less than", "lt"),
        "less_than_equal": _bound("at most", "le"),
        "multiple_of": _bound("a multiple of", "multiple_of"),
        "finite_number": _always("must be a finite number"),
        "int_type": _typed(_WHOLE),
        "int_parsing": _typed(_WHOLE),
        "int_parsing_size": _always("has too many digits"),
        "int_from_float": _typed(_WHOLE),
        "float_type": _typed(_NUMBER),
        "float_parsing": _typed(_NUMBER),
        "bool_type": _typed(_YES_OR_NO),
        "bool_parsing": _typed(_YES_OR_NO),
        "string_type": _typed(_TEXT),
        "string_too_short": _length(least=True),
        "string_too_long": _length(least=False),
        "too_short": _length(least=True),
        "too_long": _length(least=False),
        "list_type": _typed(_LIST),
        "tuple_type": _typed(_LIST),
        "dict_type": _typed("an object"),
        "model_type": _typed("an object"),
        "model_attributes_type": _typed("an object"),
        "literal_error": _choice,
        "date_type": _day,
        "date_parsing": _day,
        "date_from_datetime_parsing": _day,
        "date_from_datetime_inexact": _day,
    }
)
