"""A comparison as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from service.cli.views.parts import columns_table, footer
from service.estimation.comparison.table import flat_rows

#: Heads, the fields below them, and the unit of those that do not end with theirs.
_COLUMNS = (
    ("memory", "total_bytes", ""),
    ("TTFT", "ttft_s", ""),
    ("TPOT", "tpot_s", ""),
    ("output", "output_tokens_per_s", ""),
    ("CO2e/1k", "gco2e_per_1k_tokens", "_gco2e"),
    ("water/1k", "l_per_1k_tokens", "_l"),
    ("rent/M", "rented_usd_per_million_output_tokens", "_usd"),
    ("owned/M", "owned_usd_per_million_output_tokens", "_usd"),
)
#: What is embedded or ranked in one pass has no tokens to count by.
_IN_ONE_PASS = (
    ("memory", "total_bytes", ""),
    ("time", "e2e_s", ""),
    ("sequences", "requests_per_s", ""),
    ("CO2e/sequence", "gco2e_per_request", "_gco2e"),
    ("rent/sequence", "rented_usd_per_request", "_usd"),
    ("owned/sequence", "owned_usd_per_request", "_usd"),
)
_NAMES = ("model", "accelerator", "region", "weights")


def comparison_rows(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows with each figure's ends in columns of their own, as the service's CSV has them."""
    return flat_rows(dict(answer))


def view(answer: Mapping[str, Any]) -> Sequence[Any]:
    """The rows, without the names that are the same in all of them; then what was refused."""
    rows = answer["rows"]
    answered = [row for row in rows if row["results"] is not None]
    telling = [name for name in _NAMES if len({row[name] for row in answered}) > 1]
    parts: list[Any] = []
    if answered:
        first = answered[0]
        same = [str(first[name]) for name in _NAMES if name not in telling and first[name]]
        names = [_named(row, telling) for row in answered]
        fits = [Text("yes", "green") if row["fits"] else Text("no", "red") for row in answered]
        in_tokens = any(row["results"]["output_tokens_per_s"] for row in answered)
        columns = _COLUMNS if in_tokens else _IN_ONE_PASS
        numbers = [
            (head, unit or field, [_value(row["results"][field]) for row in answered])
            for head, field, unit in _known(columns, answered)
        ]
        parts += [
            Text(" · ".join(same), style="bold"),
            columns_table([("", names), ("fits", fits), *_limits(answered)], numbers),
        ]
    refused = Counter(
        f"{error['pointer'].removeprefix('/')}: {error['detail']}"
        for row in rows
        for error in row["errors"]
    )
    for complaint, times in refused.items():
        count = "1 row" if times == 1 else f"{times} rows"
        parts.append(Text(f"{count} refused: {complaint}", style="red"))
    return [*parts, footer(answer)]


def _known(
    columns: Sequence[tuple[str, str, str]], rows: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, str]]:
    """The columns without those of what hardware costs that no row has."""
    return [
        column
        for column in columns
        if not column[1].startswith(("rented", "owned"))
        or any(row["results"][column[1]] is not None for row in rows)
    ]


def _limits(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Text]]]:
    """Which limits each row misses, in a column of its own where there are limits that bind."""
    if not any(limit["limit"] for row in rows for limit in row["limits"]):
        return []
    told = []
    for row in rows:
        missed = [limit["name"] for limit in row["limits"] if limit["verdict"] != "pass"]
        if row["meets_limits"]:
            told.append(Text("met", "green"))
        else:
            told.append(Text(", ".join(missed) or "no room or load not carried", "red"))
    return [("limits", told)]


def _named(row: Mapping[str, Any], names: Sequence[str]) -> str:
    found = {name: row[name] for name in names if row[name] is not None}
    if "accelerator" in found and row["accelerator_count"]:
        found["accelerator"] = f"{row['accelerator_count']} × {found['accelerator']}"
    return " ".join(str(part) for part in found.values())


def _value(figure: Mapping[str, float] | None) -> float | None:
    return None if figure is None else figure["value"]
