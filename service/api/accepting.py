"""What a client accepts (RFC 9110, 12.5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def weights(accept: str) -> Mapping[str, float]:
    """Media ranges with their weights; anything where none is named, and what is no weight is 1."""
    return dict(_weighted(accept)) or {"*/*": 1.0}


def most_specific(asked: Mapping[str, float], ranges: Iterable[str]) -> float:
    """The weight of the first of the ranges that is named, 0 if none is."""
    return next((asked[one] for one in ranges if one in asked), 0.0)


def preferred(accept: str, offered: Sequence[str]) -> str | None:
    """The media type that suits best, the first of those as welcome; None if none is welcome."""
    asked = weights(accept)

    def weight(media_type: str) -> float:
        return most_specific(asked, (media_type, f"{media_type.partition('/')[0]}/*", "*/*"))

    best = max(offered, key=weight)
    return best if weight(best) > 0.0 else None


def _weighted(accept: str) -> Iterable[tuple[str, float]]:
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
