"""What ``headroom validate`` does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from rich.markup import escape

from service.catalog.entries.documents import CatalogInvalid
from service.core.errors import InvalidInput
from service.validation.packaged import read_bench, read_measurements
from service.validation.report.compared import assess, report
from service.validation.report.console import shown, stdout
from service.validation.report.document import accuracy_document
from service.validation.rows.tables import TableInvalid


class ValidationRefused(InvalidInput):
    """Measurements or catalog cannot be read, or the request contradicts itself."""


def validation(
    catalog: Path,
    data: Path | None,
    *,
    as_json: bool,
    document: Path | None,
    note: Callable[[str], object],
) -> None:
    """Assess measurements and print the report.

    Parameters
    ----------
    catalog
        Directory of the catalog's files.
    data
        Directory of measurements, or None for the catalog's own.
    as_json
        Print JSON in place of tables.
    document
        File to write the accuracy document to; only of the catalog's own measurements.
    note
        Takes remarks that are no part of the report.

    Raises
    ------
    ValidationRefused
        If something cannot be read.
    """
    if document is not None and data is not None:
        raise ValidationRefused("--write-docs is about the packaged measurements: leave out --data")
    try:
        bench = read_bench(catalog)
        tables = read_measurements(catalog, data)
    except (TableInvalid, CatalogInvalid) as invalid:
        raise ValidationRefused(str(invalid)) from None
    for line in tables.notes:
        note(escape(line))
    outcomes = assess(tables, bench.vocabulary, bench.snapshot)
    if document is not None:
        document.write_text(
            accuracy_document(outcomes, bench.remarks, bench.peers), encoding="utf-8"
        )
    found = report(outcomes, bench.remarks)
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False))  # noqa: T201
    else:
        stdout().print(shown(found))
