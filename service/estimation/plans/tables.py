"""Plans as tables: a row for each load in each year, or for each part of a day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def fleet_rows(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each load, and one for all of them, in each year."""
    rows = [
        {"load": load["name"], **flat(year)} for load in answer["loads"] for year in load["years"]
    ]
    return [*rows, *({"load": "all", **flat(year)} for year in answer["years"])]


def traffic_rows(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each interval of the day."""
    return [flat(interval) for interval in answer["intervals"]]


def site_rows(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each kind of hardware, with what it serves."""
    rows = []
    for option in answer["options"]:
        plain = {
            name: value
            for name, value in option.items()
            if not isinstance(value, list | Mapping) or name.endswith(_FIGURES)
        }
        served = option["serves"] or {}
        rates = {name: served[name] for name in _RATES if served.get(name) is not None}
        rows.append({**flat(plain | rates), "failed_rules": "; ".join(option["failed_rules"])})
    return rows


#: Ends of names of figures with intervals, and what of a deployment stands in a table.
_FIGURES = ("_kw", "_per_year", "_per_day")
_RATES = ("requests_per_s", "output_tokens_per_s")


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the ends of each interval in columns of their own."""
    return dict(_cells(row))


def _cells(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, figure in row.items():
        if isinstance(figure, Mapping):
            yield name, figure["value"]
            yield f"{name}_low", figure["low"]
            yield f"{name}_high", figure["high"]
        else:
            yield name, figure
