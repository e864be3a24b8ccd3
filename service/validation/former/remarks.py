"""Why estimates miss certain measurements, as far as it has been looked into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from service.validation.former.statistics import Compared

_NOT_LOOKED_INTO = "not explained"


@dataclass(frozen=True, slots=True)
class Remark:
    """An explanation and the rows that it is about: all whose cells contain the given texts.

    ``direction`` restricts it to estimates that are too "high" or too "low".
    """

    reason: str
    cells: Mapping[str, str]
    direction: str | None

    def is_about(self, entry: Compared) -> bool:
        """Whether the remark explains this comparison."""
        if self.direction == "high" and entry.error_ratio < 0.0:
            return False
        if self.direction == "low" and entry.error_ratio > 0.0:
            return False
        return all(text in entry.row.text(column) for column, text in self.cells.items())


def read_remarks(path: Path) -> tuple[Remark, ...]:
    """Remarks from a YAML list of ``{reason, direction?, rows: {column: text}}``."""
    listed: list[dict[str, Any]] = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    return tuple(
        Remark(
            reason=" ".join(entry["reason"].split()),
            cells=entry["rows"],
            direction=entry.get("direction"),
        )
        for entry in listed
    )


def remark_on(entry: Compared, remarks: Sequence[Remark]) -> str:
    """The first remark about a comparison, else what its answer warned of."""
    for remark in remarks:
        if remark.is_about(entry):
            return remark.reason
    if entry.warnings:
        return f"{_NOT_LOOKED_INTO}; the estimate warns: {entry.warnings[0]}"
    return _NOT_LOOKED_INTO
