"""Names that were perhaps meant by one that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST_COMPARED = 80
_LEAST_ALIKE = 0.6


def nearest(given: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Known names that are spelt much like what was given, the nearest first.

    Names with one word more (``input_tokens`` of ``tokens``) come before those that are spelt
    otherwise.
    """
    typed = given[:_LONGEST_COMPARED].casefold()
    spelt = {name.casefold(): name for name in known}
    longer = [one for one in spelt if one != typed and _holds(one, typed)]
    alike = get_close_matches(typed, spelt, most, _LEAST_ALIKE)
    return tuple(spelt[one] for one in dict.fromkeys([*longer, *alike]))[:most]


def _holds(name: str, word: str) -> bool:
    """Whether a name is a word and one more."""
    return name.startswith(f"{word}_") or name.endswith(f"_{word}")


def hint(near: Iterable[str]) -> str:
    """What may have been meant, to be put after what is wrong; "" where nothing is near."""
    listed = ", ".join(near)
    return f"; did you mean {listed}?" if listed else ""
