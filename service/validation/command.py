"""What ``headroom validate`` does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from service.catalog.entries.documents import CatalogInvalid
from service.core.errors import InvalidInput
from service.validation.learning.packaged import packaged_section
from service.validation.left_out import left_out_of
from service.validation.packaged import Packaged, packaged_lines, read_packaged
from service.validation.reading import FileInvalid, read_files
from service.validation.report.assessed import Assessed, assess, report, together
from service.validation.report.console import ALL, shown, stdout
from service.validation.report.document import accuracy_document
from service.validation.report.unsaid import saying_less
from service.validation.tables import LeftOutInvalid


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
        File or directory of measurements, or None for the catalog's own.
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
        packaged = read_packaged(catalog)
        snapshot = packaged.snapshot
        lines = (
            packaged_lines(catalog, snapshot) if data is None else read_files(data, snapshot, note)
        )
    except (FileInvalid, CatalogInvalid, LeftOutInvalid) as invalid:
        raise ValidationRefused(str(invalid)) from None
    found = {name: assess(listed, snapshot, name) for name, listed in lines.items()}
    if document is not None:
        less = [assess(saying_less(listed), snapshot, name) for name, listed in lines.items()]
        page = accuracy_document(together(found.values()), together(less), packaged)
        document.write_text(f"{page}\n{packaged_section(lines, packaged)}", encoding="utf-8")
    told = reports(found, packaged, own=data is None)
    if as_json:
        print(json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False))  # noqa: T201
    else:
        stdout().print(shown(told))


def reports(
    found: dict[str, Assessed], packaged: Packaged, *, own: bool
) -> dict[str, dict[str, Any]]:
    """The reports of files by their names, and of all of them together where there are several.

    ``own`` are the packaged measurements: beside the comparison with constants that were fitted to
    them stands the one with constants that were not.
    """
    named = dict(found)
    if len(found) > 1:
        named[ALL] = together(found.values())
    return {
        name: report(
            one,
            packaged.remarks,
            left_out_of(packaged.left_out, one.figures)
            if own and packaged.left_out is not None
            else None,
        )
        for name, one in named.items()
    }
