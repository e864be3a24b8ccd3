"""Names that were perhaps meant by one that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST_COMPARED = 80
_LEAST_ALIKE = 0.6


def nearest(given: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Known names that are spelt much like what was given, the nearest first."""
    typed = given[:_LONGEST_COMPARED].casefold()
    spelt = {name.casefold(): name for name in known}
    return tuple(spelt[one] for one in get_close_matches(typed, spelt, most, _LEAST_ALIKE))


def hint(near: Iterable[str]) -> str:
    """What may have been meant, to be put after what is wrong; "" where nothing is near."""
    listed = ", ".join(near)
    return f"; did you mean {listed}?" if listed else ""
