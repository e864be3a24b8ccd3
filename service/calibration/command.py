"""What ``headroom calibrate`` does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from service.calibration.documents import CalibrationEntry, differences, document_text
from service.calibration.inference import COMMENT as INFERENCE_COMMENT
from service.calibration.inference import inference_entries
from service.calibration.power import COMMENT as POWER_COMMENT
from service.calibration.power import power_entries
from service.calibration.training import COMMENT as TRAINING_COMMENT
from service.calibration.training import training_entries
from service.catalog.entries.documents import CatalogInvalid
from service.catalog.snapshot import CatalogSnapshot
from service.core.errors import InvalidInput
from service.validation.packaged import Bench, read_bench, read_measurements
from service.validation.rows.tables import Row, TableInvalid
from service.validation.rows.vocabulary import Vocabulary

_FOLDER = "calibration"
#: Figures that agree within this were fitted to the same rows, on another machine perhaps.
TOLERANCE_RATIO = 0.02

Entries = Callable[[Sequence[Row], Vocabulary, CatalogSnapshot], list[CalibrationEntry]]


class CalibrationRefused(InvalidInput):
    """Measurements or catalog cannot be read."""


@dataclass(frozen=True, slots=True)
class CalibrationFile:
    """A file of the catalog that is fitted: which entries, from rows of which tables, by what.

    ``ids`` is a pattern of the shell that all of its entries follow and no others.
    """

    name: str
    ids: str
    tables: tuple[str, ...]
    comment: Iterable[str]
    entries: Entries

    def holds(self, id_: str) -> bool:
        """Whether an entry stands in this file."""
        return fnmatchcase(id_, self.ids)


#: In order: power follows from how hard accelerators work, which efficiencies say.
FILES = (
    CalibrationFile(
        "performance.yaml",
        "performance/*/*",
        ("latency_inference",),
        INFERENCE_COMMENT,
        inference_entries,
    ),
    CalibrationFile(
        "power.yaml",
        "power/*",
        ("energy_inference", "latency_inference"),
        POWER_COMMENT,
        power_entries,
    ),
    CalibrationFile(
        "training_speed.yaml",
        "training/*/*",
        ("training_speed",),
        TRAINING_COMMENT,
        training_entries,
    ),
)


def calibration(
    catalog: Path,
    *,
    write: bool,
    note: Callable[[str], object],
    files: Iterable[CalibrationFile] = FILES,
) -> list[str]:
    """Refit the catalog's efficiencies from the packaged measurements.

    Parameters
    ----------
    catalog
        Directory of the catalog's files.
    write
        Write what was fitted in place of what is there.
    note
        Takes a line about every entry.
    files
        Which of the files.

    Returns
    -------
    list of str
        What the files say otherwise than the measurements do; empty if they agree.

    Raises
    ------
    CalibrationRefused
        If something cannot be read.
    """
    try:
        bench = read_bench(catalog)
        tables = read_measurements(catalog, None)
    except (TableInvalid, CatalogInvalid, OSError) as invalid:
        raise CalibrationRefused(str(invalid)) from None
    found: list[str] = []
    for file in files:
        rows = [row for table in file.tables for row in tables.rows.get(table, ())]
        entries = refitted(file, rows, bench)
        for entry in entries:
            note(f"{entry.id}: {entry.note}")
        path = catalog / _FOLDER / file.name
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        found += [f"{file.name}: {line}" for line in differences(entries, there, TOLERANCE_RATIO)]
        if write:
            path.write_text(document_text(file.comment, entries), encoding="utf-8")
            bench = read_bench(catalog)
    return found


def refitted(file: CalibrationFile, rows: Sequence[Row], bench: Bench) -> list[CalibrationEntry]:
    """The entries that a file's rows give."""
    return file.entries(rows, bench.vocabulary, bench.snapshot)
