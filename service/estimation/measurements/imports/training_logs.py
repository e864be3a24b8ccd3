"""Logs of training: lines of steps, of which the first are left out.

The first steps compile, allocate and warm up; the median of the others is what training takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from service.estimation.measurements.imports.reading import Part, parsed_number

_WARM_UP_STEPS = 3
_WARM_UP_RATIO = 0.1


def settled(parts: Sequence[Part]) -> list[Part]:
    """Figures of steps without those of the warm-up; all of them if there are few."""
    left_out = max(_WARM_UP_STEPS, round(_WARM_UP_RATIO * len(parts)))
    return list(parts[left_out:]) if len(parts) > 2 * left_out else list(parts[-1:])


def middle(parts: Sequence[Part]) -> Part | None:
    """The median of figures of steps after the warm-up, at the place of the first of them."""
    kept = settled(parts)
    if not kept:
        return None
    return Part(float(median(part.value for part in kept)), kept[0].pointer, kept[0].line)


def span(parts: Sequence[Part]) -> str:
    """Which lines a figure was taken from, for people."""
    kept = settled(parts)
    return f"median of {len(kept)} of {len(parts)} lines of steps, from line {kept[0].line}"


def read_number(text: str, line: int) -> Part:
    """A number in a line of a log.

    Raises
    ------
    FileRefused
        If it is none, with the line.
    """
    value = parsed_number(text)
    if value is None:
        raise Part(text, line=line).fault(f"{text[:40]!r} is not a number")
    return Part(value, line=line)
