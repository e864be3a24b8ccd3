"""What the measurements of a directory say about the estimates."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from pydantic import ValidationError

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.rejection import Rejected
from service.validation.former.remarks import Remark, remark_on
from service.validation.former.statistics import Compared, accuracy
from service.validation.rows.emissions import emissions_row
from service.validation.rows.energy import energy_row
from service.validation.rows.latency import latency_row
from service.validation.rows.memory import fits, memory_row
from service.validation.rows.tables import Row, RowRefused, Tables
from service.validation.rows.training import training_fits, training_memory_row
from service.validation.rows.training_speed import training_speed_row
from service.validation.rows.vocabulary import Vocabulary

Feed = Callable[[Row, Vocabulary, CatalogSnapshot], Compared]

_OUT_OF_MEMORY = "OOM"
_LOW = "low confidence: kept out of the statistics, reported apart"
_CONFIDENCES = ("high", "medium", "low")
_WORST_ROWS = 15


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """What became of a table's rows.

    ``compared`` are of high and medium confidence, ``sanity`` of low. ``refusals`` counts
    reasons, ``fit_tests`` says of rows that ran out of memory whether the estimate agrees.
    """

    rows: int
    compared: tuple[Compared, ...]
    sanity: tuple[Compared, ...]
    refusals: Mapping[str, int]
    fit_tests: tuple[tuple[Row, bool], ...]


def assess(
    tables: Tables, vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> dict[str, TableOutcome]:
    """Feed every row through the use cases.

    Parameters
    ----------
    tables
        Measurements.
    vocabulary
        Names and stated assumptions.
    snapshot
        The catalog that estimates are made from.

    Returns
    -------
    dict
        Outcome by table.
    """
    return {
        name: _assess_table(rows, _FEEDS[name], vocabulary, snapshot)
        for name, rows in tables.rows.items()
    }


def report(outcomes: Mapping[str, TableOutcome], remarks: Sequence[Remark]) -> dict[str, Any]:
    """The outcomes as plain data, by table; ratios are dimensionless."""
    return {name: _table_report(outcome, remarks) for name, outcome in outcomes.items()}


def summary(compared: Sequence[Compared]) -> dict[str, Any]:
    """Rows and accuracy of a group of comparisons, as plain data."""
    found = accuracy(compared)
    return {
        "rows_used": found.rows,
        "median_error_ratio": found.median_error_ratio,
        "p90_error_ratio": found.p90_error_ratio,
        "coverage_ratio": found.coverage_ratio,
        "median_width_ratio": _finite(found.median_width_ratio),
        "median_signed_error_ratio": found.bias_ratio,
    }


def worst(
    compared: Iterable[Compared], remarks: Sequence[Remark], most: int
) -> list[dict[str, Any]]:
    """The comparisons that are furthest off, with the likely reason."""
    ordered = sorted(compared, key=lambda entry: (-abs(entry.error_ratio), entry.row.id))
    return [
        {
            "row_id": entry.row.id,
            "source": entry.row.source,
            "metric": entry.metric,
            "model": entry.row.text("model"),
            "hardware": entry.row.text("hardware"),
            "hardware_count": entry.row.text("hardware_count"),
            "measured": entry.measured,
            "estimate": entry.value,
            "low": entry.low,
            "high": entry.high,
            "unit": entry.unit,
            "error_ratio": entry.error_ratio,
            "covered": entry.covered,
            "reason": remark_on(entry, remarks),
        }
        for entry in ordered[:most]
    ]


def _assess_table(
    rows: Sequence[Row], feed: Feed, vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> TableOutcome:
    compared: list[Compared] = []
    sanity: list[Compared] = []
    refusals: Counter[str] = Counter()
    fit_tests: list[tuple[Row, bool]] = []
    for row in rows:
        try:
            if row.confidence not in _CONFIDENCES:
                raise RowRefused("confidence is none of high, medium and low")
            if row.text("value").upper() == _OUT_OF_MEMORY:
                fit_tests.append((row, _agrees_that_it_does_not_fit(row, vocabulary, snapshot)))
                continue
            row.needed("value")
            found = feed(row, vocabulary, snapshot)
        except RowRefused as refused:
            refusals[refused.reason] += 1
        except Rejected as rejected:
            refusals[f"the request is refused: {rejected.errors[0].detail[:160]}"] += 1
        except ValidationError as invalid:
            field = ".".join(str(part) for part in invalid.errors()[0]["loc"])
            refusals[f"beyond what a request may ask: {field[:80]}"] += 1
        else:
            if row.confidence == "low":
                refusals[_LOW] += 1
                sanity.append(found)
            else:
                compared.append(found)
    return TableOutcome(len(rows), tuple(compared), tuple(sanity), dict(refusals), tuple(fit_tests))


def _agrees_that_it_does_not_fit(
    row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> bool:
    if row.table not in _FITS:
        raise RowRefused("ran out of memory, but measures none")
    return not _FITS[row.table](row, vocabulary, snapshot)


def _table_report(outcome: TableOutcome, remarks: Sequence[Remark]) -> dict[str, Any]:
    compared = outcome.compared
    wrong = [row.id for row, right in outcome.fit_tests if not right]
    return {
        "rows": outcome.rows,
        **summary(compared),
        "rows_refused": sum(outcome.refusals.values()),
        "by_metric": _by(compared, lambda entry: entry.metric),
        "by_source": _by(compared, lambda entry: entry.row.source),
        "by_family": _by(compared, lambda entry: entry.family),
        "refusals": dict(sorted(outcome.refusals.items(), key=lambda item: (-item[1], item[0]))),
        "fit_tests": {
            "rows": len(outcome.fit_tests),
            "right": len(outcome.fit_tests) - len(wrong),
            "wrong": len(wrong),
            "wrong_rows": wrong,
        },
        "low_confidence": summary(outcome.sanity),
        "worst": worst(compared, remarks, _WORST_ROWS),
    }


def _by(compared: Sequence[Compared], key: Callable[[Compared], str]) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[Compared]] = defaultdict(list)
    for entry in compared:
        groups[key(entry)].append(entry)
    return {name: summary(group) for name, group in sorted(groups.items())}


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


_FITS: Mapping[str, Callable[[Row, Vocabulary, CatalogSnapshot], bool]] = {
    "memory_inference": fits,
    "memory_training": training_fits,
}
_FEEDS: Mapping[str, Feed] = {
    "memory_inference": memory_row,
    "memory_training": training_memory_row,
    "latency_inference": latency_row,
    "energy_inference": energy_row,
    "training_speed": training_speed_row,
    "training_emissions": emissions_row,
}
