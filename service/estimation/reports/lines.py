"""Lines of a report: one figure each, with its unit, its method and what to know about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.core.interval import Interval
from service.estimation import answers
from service.estimation.answers import figure
from service.estimation.reports.answers import ReportLine

Figure = answers.Interval | None


def line(
    code: str,
    name: str,
    amount: Interval | Figure,
    unit: str,
    method: str,
    note: str = "",
    size: float = 1.0,
) -> ReportLine:
    """One line of a report.

    Parameters
    ----------
    code, name
        What the standard calls it.
    amount
        The figure, None where it is not known: such lines are shown, not left out.
    unit, method, note
        Unit, how it was found, and what to know about it.
    size
        Of the unit, in the unit of the amount.
    """
    if isinstance(amount, Interval):
        amount = figure(amount)
    known = amount is not None
    return {
        "code": code,
        "name": name,
        "amount": None
        if amount is None
        else {
            "value": amount["value"] / size,
            "low": amount["low"] / size,
            "high": amount["high"] / size,
        },
        "unit": unit,
        "method": method,
        "note": note if known or note else "not known, see the warnings",
    }


def flat_lines(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A report's lines as rows of a table, with empty cells where a figure is not known."""
    return [
        {
            "code": entry["code"],
            "name": entry["name"],
            "value": entry["amount"]["value"] if entry["amount"] else "",
            "low": entry["amount"]["low"] if entry["amount"] else "",
            "high": entry["amount"]["high"] if entry["amount"] else "",
            "unit": entry["unit"],
            "method": entry["method"],
            "note": entry["note"],
        }
        for entry in report["lines"]
    ]
