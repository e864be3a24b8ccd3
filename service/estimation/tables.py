"""Answers as tables: every figure with its interval; units are in the names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: Parts that are words or grounds, not figures.
_NO_FIGURES = ("warnings", "provenance", "explanation")
#: What names the members of a list.
_NAMES = ("name", "id")


def figure_rows(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each figure: its path in the answer, value, low and high.

    What is exact has no low and high, what is not known no row. Members of lists go by their names.
    """
    return list(_figures(_of_figures(answer), ""))


def wide_row(answer: Mapping[str, Any]) -> dict[str, Any]:
    """All figures in one row, for tables of many answers; ``_low`` and ``_high`` are the ends."""
    row: dict[str, Any] = {}
    for each in figure_rows(answer):
        row[each["figure"]] = each["value"]
        if each["low"] is not None:
            row[f"{each['figure']}_low"] = each["low"]
            row[f"{each['figure']}_high"] = each["high"]
    return row


def batch_rows(items: list[Any]) -> list[dict[str, Any]]:
    """A row for each answer of a batch, or with what was wrong with its request."""
    return [
        {
            "index": item["index"],
            **({} if item["answer"] is None else wide_row(item["answer"])),
            "errors": "; ".join(f"{each['pointer']}: {each['detail']}" for each in item["errors"]),
        }
        for item in items
    ]


def _of_figures(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in answer.items() if name not in _NO_FIGURES}


def _figures(value: Any, path: str) -> Iterator[dict[str, Any]]:
    if isinstance(value, Mapping):
        if value.keys() == {"value", "low", "high"}:
            yield {"figure": path, **value}
            return
        for name, inner in value.items():
            yield from _figures(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            named = (
                [inner[key] for key in _NAMES if key in inner] if isinstance(inner, dict) else []
            )
            yield from _figures(inner, f"{path}.{named[0] if named else at}")
    elif isinstance(value, bool | int | float | str):
        yield {"figure": path, "value": value, "low": None, "high": None}
