"""The validation report as tables for a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

_SHOWN_WORST = 5


def shown(report: dict[str, Any]) -> Group:
    """The report of all tables, to be printed by a :class:`Console`."""
    parts: list[Any] = []
    for name, content in report.items():
        parts.append(_table(name, content))
        parts += [
            escape(f"  refused {count} row(s): {reason}")
            for reason, count in content["refusals"].items()
        ]
        tests = content["fit_tests"]
        if tests["rows"]:
            parts.append(f"  out of memory: {tests['right']} of {tests['rows']} predicted")
        parts += [
            escape(
                f"  {row['row_id']} ({row['metric']}, {row['model']}, {row['hardware']}): "
                f"{row['error_ratio']:+.0%}, {row['reason']}"
            )
            for row in content["worst"][:_SHOWN_WORST]
        ]
        parts.append("")
    return Group(*parts)


def _table(name: str, content: dict[str, Any]) -> Table:
    title = f"{name}: {content['rows_used']} rows used, {content['rows_refused']} refused"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("group")
    for column in ("rows", "median", "p90", "covered", "high/low"):
        table.add_column(column, justify="right")
    groups = [("all, each source once", content)]
    for label in ("metric", "source", "family"):
        groups += [(f"{label} {key}", value) for key, value in content[f"by_{label}"].items()]
    for label, group in groups:
        if group["rows_used"]:
            table.add_row(escape(label), *figures(group))
    return table


def figures(group: dict[str, Any]) -> list[str]:
    """Rows, errors, coverage and width of a group, as text."""
    coverage, width = group["coverage_ratio"], group["median_width_ratio"]
    return [
        str(group["rows_used"]),
        f"{group['median_error_ratio']:.1%}",
        f"{group['p90_error_ratio']:.1%}",
        "–" if coverage is None else f"{coverage:.0%}",
        "–" if width is None else f"{width:.2f}",
    ]


def stdout() -> Console:
    """A terminal, or a file as wide as the tables need."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=160)
