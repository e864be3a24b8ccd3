"""``headroom equations``: the equations of the page about the method, made from the formulas."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Annotated

import typer

from service.cli.upkeep.checkout import checkout
from service.core.explanation import Formula

_BLOCK = re.compile(r"(<!-- equations (\S+):(\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEAD = "\n| figure | equation | unit | source |\n| --- | --- | --- | --- |\n"
_ADDRESS = re.compile(r"https?://[^\s,;)]+")


def equations(
    write_docs: Annotated[bool, typer.Option(help="Write docs/methodology.md.")] = False,
) -> None:
    """Print the page about the method with the equations of today's formulas."""
    path = checkout() / "docs" / "methodology.md"
    page = with_equations(path.read_text(encoding="utf-8"))
    if write_docs:
        path.write_text(page, encoding="utf-8")
    else:
        print(page, end="")


def with_equations(page: str) -> str:
    """A page with the formulas that its markers name, as ``<!-- equations module:NAME -->``."""
    return _BLOCK.sub(
        lambda found: f"{found[1]}{_table(getattr(import_module(found[2]), found[3]))}{found[4]}",
        page,
    )


def _table(formulas: tuple[Formula, ...]) -> str:
    rows = (
        f"| {formula.name} | `{formula.expression}` | {formula.unit} "
        f"| {_ADDRESS.sub(lambda address: f'<{address[0]}>', formula.source)} |\n"
        for formula in formulas
    )
    return f"{_HEAD}{''.join(rows)}\n"
