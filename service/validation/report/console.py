"""The validation report as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.table import Table

_SHOWN_WORST = 5
#: Of more files than this, only all together are shown.
_MOST_FILES = 3
ALL = "all"


def shown(report: Mapping[str, Any]) -> Group:
    """The reports of all files, to be printed by a :class:`Console`."""
    chosen = report
    if len(report) > _MOST_FILES and ALL in report:
        chosen = {f"{len(report) - 1} files": report[ALL]}
    parts: list[Any] = []
    for name, content in chosen.items():
        parts.append(_table(name, content))
        for kind, counts in (
            ("refused", content["refusals"]),
            ("not compared", content["figure_refusals"]),
            ("note", content["warnings"]),
        ):
            parts += [f"  {kind} ({count}): {why}" for why, count in counts.items()]
        tests = content["fit_tests"]
        if tests["rows"]:
            parts.append(f"  out of memory: {tests['right']} of {tests['rows']} predicted")
        apart = content["low_confidence"]
        if apart["figures"]:
            parts.append(
                f"  {content['rows_of_low_confidence']} of low confidence apart: median "
                f"{apart['median_error_ratio']:.0%}"
            )
        if content["figures_implausible"]:
            parts.append(f"  {content['figures_implausible']} more than 30 times apart")
        parts += [
            f"  {row['id']} ({row['metric']}, {row['model']}, {row['accelerator']}): "
            f"{row['error_ratio']:+.0%}, {row['reason']}"
            for row in content["worst"][:_SHOWN_WORST]
        ]
        parts.append("")
    return Group(*parts)


def _table(name: str, content: Mapping[str, Any]) -> Table:
    title = f"{name}: {content['rows_used']} rows used, {content['rows_refused']} refused"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("group")
    for column in ("figures", "median", "p90", "inside", "high/low"):
        table.add_column(column, justify="right")
    groups = [("all, each source once", content)]
    if "left_out" in content:
        groups.append(("all, each source left out of the fit", content["left_out"]))
        groups += [
            (f"left out: {key}", value) for key, value in content["left_out"]["by_metric"].items()
        ]
    for label in ("metric", "source", "family", "engine_class"):
        groups += [(f"{label} {key}", value) for key, value in content[f"by_{label}"].items()]
    for label, group in groups:
        if group["figures"]:
            table.add_row(label, *figures(group))
    return table


def figures(group: Mapping[str, Any]) -> list[str]:
    """Figures, errors, coverage and width of a group, as text."""
    coverage, width = group["coverage_ratio"], group["median_width_ratio"]
    return [
        str(group["figures"]),
        f"{group['median_error_ratio']:.1%}",
        f"{group['p90_error_ratio']:.1%}",
        "–" if coverage is None else f"{coverage:.0%}",
        "–" if width is None else f"{width:.2f}",
    ]


def stdout() -> Console:
    """A terminal, or a file as wide as the tables need."""
    terminal = Console(highlight=False, markup=False)
    return terminal if terminal.is_terminal else Console(highlight=False, markup=False, width=160)
