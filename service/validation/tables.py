"""Tables of comparisons beside the measurements: CSV, below a line with what they belong to."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import astuple, fields
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from service.core.errors import InvalidInput

Row = TypeVar("Row")

#: What stands before the digest of the constants that a table belongs to.
DIGEST = "# constants "
_DIGITS = 6
_READ = {"float": float, "int": int, "str": str}


class LeftOutInvalid(InvalidInput):
    """A file of left-out comparisons is not one."""


def table_text(rows: Iterable[Any], kind: type[Any], digest: str) -> str:
    """The rows, dataclasses of one kind, below the digest of the constants that they belong to."""
    text = StringIO()
    text.write(f"{DIGEST}{digest}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(kind)])
    for row in rows:
        writer.writerow(
            f"{each:.{_DIGITS}g}" if isinstance(each, float) else each for each in astuple(row)
        )
    return text.getvalue()


def read_table(path: Path, kind: type[Row], *, dated: bool = True) -> tuple[str, list[Row]]:
    """The digest and the rows of a file.

    Parameters
    ----------
    path
        The file.
    kind
        A dataclass of text, whole numbers and numbers, whose fields are the columns.
    dated
        Whether a digest stands above; an empty one is given back where none does.

    Raises
    ------
    LeftOutInvalid
        If it is not such a file.
    """
    first, _, rest = path.read_text(encoding="utf-8").partition("\n")
    columns: Any = fields(kind)  # type: ignore[arg-type]
    table = csv.DictReader(StringIO(rest if dated else f"{first}\n{rest}"))
    names = [column.name for column in columns]
    if (dated and not first.startswith(DIGEST)) or list(table.fieldnames or ()) != names:
        raise LeftOutInvalid(f"{path.name} has not the columns {', '.join(names)}")
    try:
        rows = [
            kind(**{column.name: _READ[column.type](row[column.name]) for column in columns})
            for row in table
        ]
    except (TypeError, ValueError) as wrong:
        raise LeftOutInvalid(f"{path.name}: {wrong}") from None
    return first.removeprefix(DIGEST) if dated else "", rows
