"""Pieces that the views are put together from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from service.cli.views.quantities import column, figure_cells, label


def heading(text: str) -> Text:
    """A section's title."""
    return Text(f"\n{text}", style="bold")


def plain_table(*columns: str, right: Sequence[str] = ()) -> Table:
    """A table without frames; columns that hold numbers are right-aligned."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in columns:
        table.add_column(head, justify="right" if head in right else "left")
    return table


def figures_table(section: Mapping[str, Any], fields: Iterable[str]) -> Padding:
    """Figures of a section, each with its 90 % interval; what the section lacks is left out."""
    table = plain_table("", "estimate", "90 % interval", right=("estimate",))
    for field in fields:
        if field in section and section[field] is not None:
            table.add_row(label(field), *figure_cells(field, section[field]))
    return indented(table)


def columns_table(
    texts: Sequence[tuple[str, Sequence[str | Text]]],
    numbers: Sequence[tuple[str, str, Sequence[float | None]]],
) -> Table:
    """A table of rows: texts, which fold, and numbers with one unit a column, under its head.

    Parameters
    ----------
    texts
        Heads and cells.
    numbers
        Heads, fields (whose names tell the unit) and cells.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    cells: list[Sequence[str | Text]] = []
    for head, column_texts in texts:
        table.add_column(head, overflow="fold")
        cells.append(column_texts)
    for head, field, values in numbers:
        unit, shown = column(field, values)
        table.add_column(f"{head}\n{unit}", justify="right", no_wrap=True)
        cells.append(shown)
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table


def indented(part: Any) -> Padding:
    """Something under its section's title."""
    return Padding(part, (0, 0, 0, 2))


def warnings(answer: Mapping[str, Any]) -> list[Any]:
    """Assumptions and limits to be aware of."""
    found = answer.get("warnings") or ()
    if not found:
        return []
    table = plain_table("", "")
    table.show_header = False
    for item in found:
        table.add_row("•", Text(item["message"]))
    return [heading("Warnings"), indented(table)]


def footer(answer: Mapping[str, Any]) -> Text:
    """What own measurements did, and what makes the answer repeatable."""
    own = answer.get("calibration") or {}
    said = f"\n{own['summary']}" if "summary" in own else ""
    reports = f", your reports at revision {own['revision']}" if "revision" in own else ""
    return Text.assemble(
        said,
        (
            f"\ncatalog revision {answer['catalog_revision']}, engine {answer['engine_version']}"
            f"{reports}",
            "dim",
        ),
    )
