"""Which of several forms of an answer a client wants (RFC 9110, 12.5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from service.api.http.problems import Problem


def preferred(accept: str, offered: Sequence[str], what: str) -> str:
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
    weights = dict(_weighted(accept)) or {"*/*": 1.0}
    found = max(offered, key=lambda kind: _weight(weights, kind))
    if not _weight(weights, found):
        *others, last = offered
        raise Problem("not-acceptable", f"{what} are available as {', '.join(others)} or {last}")
    return found


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
