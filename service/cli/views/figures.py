"""Every figure of any answer, by its path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.cli.views.parts import footer, indented, plain_table, warnings
from service.estimation.formatting import number
from service.estimation.tables import figure_rows

#: Parts that are told below the table.
_TOLD_BELOW = ("catalog_revision", "engine_version")


def view(answer: Mapping[str, Any]) -> list[Any]:
    """An answer as a table of its figures, with its warnings."""
    table = plain_table("", "value", "90 % interval", right=("value",))
    table.columns[0].no_wrap = True
    told = {name: part for name, part in answer.items() if name not in _TOLD_BELOW}
    for row in figure_rows(told):
        low, high = row["low"], row["high"]
        spread = "" if low is None or low == high else f"{_shown(low)} … {_shown(high)}"
        table.add_row(row["figure"], _shown(row["value"]), spread)
    return [indented(table), *warnings(answer), footer(answer)]


def _shown(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)
