"""Why estimates miss certain measurements, as far as it has been looked into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from service.validation.report.statistics import Compared

_NOT_LOOKED_INTO = "not explained"
_IMPLAUSIBLE = "more than 30 times apart: another unit, or another thing"
#: What remarks can tell comparisons apart by.
FACTS = ("id", "source", "quantity", "model", "accelerator", "accelerators", "engine", "weights")


@dataclass(frozen=True, slots=True)
class Remark:
    """An explanation, and the comparisons that it is about: all whose facts contain the texts.

    ``direction`` restricts it to estimates that are too "high" or too "low".
    """

    reason: str
    about: Mapping[str, str]
    direction: str | None

    def explains(self, entry: Compared) -> bool:
        """Whether it is about this comparison."""
        if self.direction == "high" and entry.figure.error_ratio < 0.0:
            return False
        if self.direction == "low" and entry.figure.error_ratio > 0.0:
            return False
        return all(text in str(getattr(entry, fact)) for fact, text in self.about.items())


def read_remarks(path: Path) -> tuple[Remark, ...]:
    """Remarks from a YAML list of ``{reason, direction?, about: {fact: text}}``.

    Raises
    ------
    ValueError
        If one of them is about a fact that comparisons do not have.
    """
    listed: list[dict[str, Any]] = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    for entry in listed:
        unknown = set(entry["about"]) - set(FACTS)
        if unknown:
            raise ValueError(f"{path.name}: no fact {', '.join(sorted(unknown))}")
    return tuple(
        Remark(
            reason=" ".join(entry["reason"].split()),
            about={fact: str(text) for fact, text in entry["about"].items()},
            direction=entry.get("direction"),
        )
        for entry in listed
    )


def remark_on(entry: Compared, remarks: Sequence[Remark]) -> str:
    """The first remark about a comparison, else what its answer warned of."""
    for remark in remarks:
        if remark.explains(entry):
            return remark.reason
    if entry.figure.implausible:
        return _IMPLAUSIBLE
    if entry.warnings:
        return f"{_NOT_LOOKED_INTO}; the estimate warns: {entry.warnings[0]}"
    return _NOT_LOOKED_INTO
