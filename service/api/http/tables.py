"""Lists as CSV tables (RFC 4180), and whether a client wants one."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from service.api.http.negotiation import preferred

#: How a table among the forms of an answer is declared.
TABLE: dict[str, Any] = {"text/csv": {"schema": {"type": "string"}}}


def wants_csv(accept: str) -> bool:
    """Whether ``Accept`` prefers a table to JSON; JSON where both are as welcome.

    Raises
    ------
    Problem
        If it takes neither (406).
    """
    return preferred(accept, ("application/json", "text/csv"), "answers") == "text/csv"


def as_csv(items: Iterable[Mapping[str, Any]]) -> str:
    """Catalog entries as a table: plain fields, and the newest value of each figure."""
    rows = [_row(item) for item in items]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _row(item: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {
        name: safe_cell(value)
        for name, value in item.items()
        if isinstance(value, str | int | float | bool)
    }
    for name, stated in (item.get("figures") or {}).items():
        newest = stated[-1] if isinstance(stated, list) and stated else stated
        row[name] = newest.get("value") if isinstance(newest, Mapping) else newest
    for name, derived in (item.get("derived") or {}).items():
        row.setdefault(name, derived["value"] if isinstance(derived, Mapping) else derived)
    return row


def safe_cell(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula is made plain text."""
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r") else value
