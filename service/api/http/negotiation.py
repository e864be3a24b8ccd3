"""Which of several forms of an answer a client wants (RFC 9110, 12.5.1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache, wraps
from typing import Any

from service.api.http.problems import Problem

#: Headers that are longer are read each time: what clients send is not for keeping.
_LONGEST_KEPT = 200


def preferred(accept: str, offered: tuple[str, ...], what: str) -> str:
    """The media type that ``Accept`` gives the most weight to; of several, the first offered.

    Parameters
    ----------
    accept
        The header, empty if there is none.
    offered
        Media types that there are.
    what
        Says in an error what they are forms of.

    Raises
    ------
    Problem
        If it takes none of them (406).
    """
    found = (_kept if len(accept) <= _LONGEST_KEPT else _found)(accept, offered)
    if found is None:
        told = " or ".join(part for part in (", ".join(offered[:-1]), offered[-1]) if part)
        raise Problem("not-acceptable", f"{what} are available as {told}")
    return found


def negotiated(
    endpoint: Callable[..., Awaitable[Any]], offered: tuple[str, ...]
) -> Callable[..., Awaitable[Any]]:
    """An endpoint that refuses (406) who takes none of the media types that it answers in.

    Which of several it answers in is its own affair.
    """

    @wraps(endpoint)
    async def answered(**given: Any) -> Any:
        accept = given["http"].headers.get("accept")
        if accept is not None:
            preferred(accept, offered, "answers")
        return await endpoint(**given)

    return answered


def _found(accept: str, offered: tuple[str, ...]) -> str | None:
    weights = dict(_weighted(accept)) or {"*/*": 1.0}
    found = max(offered, key=lambda kind: _weight(weights, kind))
    return found if _weight(weights, found) else None


_kept = lru_cache(maxsize=256)(_found)


def _weight(weights: Mapping[str, float], kind: str) -> float:
    """By the most specific range that holds the media type."""
    ranges = (kind, f"{kind.partition('/')[0]}/*", "*/*")
    return next((weights[one] for one in ranges if one in weights), 0.0)


def _weighted(accept: str) -> Iterable[tuple[str, float]]:
    """Media ranges with their weights; what is no weight counts as 1."""
    for part in accept.split(","):
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if not kind:
            continue
        weight = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name == "q" and value.replace(".", "", 1).isdecimal():
                weight = float(value)
        yield kind, weight
