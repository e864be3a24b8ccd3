"""What a time limit applies to: the mean or a percentile over requests, named alike everywhere."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

_KNOWN = ("p50", "p95", "p99")
#: How people write a percentile: p95, P95, 95, 95th, 95%.
_WRITTEN = re.compile(r"p?(\d{1,2}(?:\.\d+)?)(?:th|st|nd|rd|%)?", re.IGNORECASE)


def _understood(given: object) -> object:
    """The name of a percentile that is given as a number from 1 to 99, or as people write it.

    Raises
    ------
    PydanticCustomError
        If it is another percentile, or a ratio, which might be meant otherwise.
    """
    if given == "mean" or isinstance(given, bool) or not isinstance(given, str | int | float):
        return given
    written = _WRITTEN.fullmatch(str(given).strip())
    if written is None:
        return given
    number = float(written[1])
    name = f"p{number:g}"
    if name in _KNOWN:
        return name
    if 0.0 < number < 1.0:
        meant = f"p{round(number * 100, 6):g}"
        told = f"must be mean, p50, p95 or p99; {number:g} is a ratio, which would be {meant}"
        raise _refused(told, (meant,) if meant in _KNOWN else ())
    near = min(_KNOWN, key=lambda one: abs(float(one[1:]) - number))
    raise _refused(f"must be mean, p50, p95 or p99; {name} is not computed", (near,))


def _refused(told: str, near: tuple[str, ...]) -> PydanticCustomError:
    return PydanticCustomError("percentile", "{text}", {"text": told, "suggestions": near})


#: The number alone (95) is understood as well.
Percentile = Annotated[Literal["mean", "p50", "p95", "p99"], BeforeValidator(_understood)]
