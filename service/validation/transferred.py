"""Packaged estimates by constants fitted without any row of some hardware, engine or load."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from io import StringIO
from pathlib import Path
from typing import Any

from service.validation.left_out import DIGEST, LeftOutInvalid

#: Where they lie in the catalog's folder, written by `./headroom calibrate --write --transfer`.
TRANSFERRED = Path("measurements") / "left_out_kinds.csv"
_DIGITS = 5


@dataclass(frozen=True, slots=True)
class TransferredFigure:
    """An estimate by constants that were fitted without anything of its ``kind`` and ``key``."""

    kind: str
    key: str
    id: str
    quantity: str
    value: float
    low: float
    high: float


def transferred_text(figures: Iterable[TransferredFigure], digest: str) -> str:
    """The estimates as CSV, below a line with the digest of the constants."""
    text = StringIO()
    text.write(f"{DIGEST}{digest}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(TransferredFigure)])
    for figure in figures:
        writer.writerow(
            f"{each:.{_DIGITS}g}" if isinstance(each, float) else each for each in astuple(figure)
        )
    return text.getvalue()


def read_transferred(path: Path) -> list[TransferredFigure]:
    """The estimates of a file.

    Raises
    ------
    LeftOutInvalid
        If it is not such a file.
    """
    first, _, rest = path.read_text(encoding="utf-8").partition("\n")
    names = [field.name for field in fields(TransferredFigure)]
    table = csv.DictReader(StringIO(rest))
    if not first.startswith(DIGEST) or list(table.fieldnames or ()) != names:
        raise LeftOutInvalid(f"{path.name} has not the columns {', '.join(names)}")
    numbers = {field.name for field in fields(TransferredFigure) if field.type == "float"}
    try:
        return [_figure(row, numbers) for row in table]
    except (TypeError, ValueError) as wrong:
        raise LeftOutInvalid(f"{path.name}: {wrong}") from None


def _figure(row: Mapping[str, str], numbers: set[str]) -> TransferredFigure:
    given: dict[str, Any] = {
        name: float(text) if name in numbers else text for name, text in row.items()
    }
    return TransferredFigure(**given)
