"""Packaged comparisons of every source with estimates by constants fitted without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from service.estimation.measurements.compared import ComparedFigure
from service.validation.report.statistics import Compared
from service.validation.tables import read_table

#: Where they lie in the catalog's folder, written by `./headroom calibrate --write`.
PATH = Path("measurements") / "left_out.csv"
#: The same of requests that leave releases and recipes to defaults.
LESS = Path("measurements") / "left_out_less.csv"
#: The same of the last engine that fitted every engine on every hardware family by itself, which is
#: kept for what has changed since.
FORMER = Path("measurements") / "left_out_0.2.0.csv"
FORMER_ENGINE = "0.2.0"


@dataclass(frozen=True, slots=True)
class LeftOutFigure:
    """A measured figure beside its estimate by constants that were fitted without its source.

    ``stand_ins`` are codes of warnings that others' constants stood in, with spaces between them.
    """

    id: str
    quantity: str
    measured: float
    value: float
    low: float
    high: float
    source: str
    model: str
    accelerator: str
    family: str
    engine: str
    stand_ins: str


@dataclass(frozen=True, slots=True)
class FormerFigure:
    """An estimate of a former engine by constants that were fitted without the source."""

    id: str
    quantity: str
    value: float
    low: float
    high: float


def read_left_out(path: Path) -> tuple[str, list[LeftOutFigure]]:
    """The digest and the comparisons of a file.

    Raises
    ------
    LeftOutInvalid
        If it is not such a file.
    """
    return read_table(path, LeftOutFigure)


def read_former(path: Path) -> list[FormerFigure]:
    """The comparisons of a former engine.

    Raises
    ------
    LeftOutInvalid
        If the file is none of them.
    """
    return read_table(path, FormerFigure, dated=False)[1]


def left_out_of(
    figures: Iterable[LeftOutFigure | FormerFigure], compared: Sequence[Compared]
) -> list[Compared]:
    """The comparisons that were also made without their source, with that estimate."""
    known = {(one.id, one.quantity): one for one in figures}
    return [
        replace(
            entry,
            figure=ComparedFigure(
                one.quantity, entry.figure.measured, one.value, one.low, one.high
            ),
            stand_ins=tuple(getattr(one, "stand_ins", "").split()),
        )
        for entry in compared
        if (one := known.get((entry.id, entry.quantity))) is not None
    ]
