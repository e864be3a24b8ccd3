"""What ``headroom learning`` does: learning curves, and the likeness that they rest on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from service.calibration.documents import CalibrationEntry, document_text
from service.catalog.entries.documents import CatalogInvalid
from service.catalog.snapshot import CatalogSnapshot
from service.core.errors import InvalidInput
from service.estimation.learning.lessons import CALIBRATIONS
from service.estimation.levels import ASSUMPTION
from service.validation.learning.likeness import FittedLikeness, figures_of, fitted_likeness
from service.validation.learning.packaged import packaged_rows, packaged_section
from service.validation.learning.section import learning_section
from service.validation.packaged import packaged_lines, read_packaged
from service.validation.reading import FileInvalid
from service.validation.tables import LeftOutInvalid

_FILE = Path("calibration") / "learning.yaml"
_COMMENT = (
    "How alike deployments are: the share of the variance of an estimate's log error that two of",
    "them have in common by what they share. Shares of a channel add up to 1. Written by",
    "`./headroom learning --write` from errors of sources that were left out of the fit.",
)


class LearningRefused(InvalidInput):
    """Measurements or catalog cannot be read."""


def learning(catalog: Path, *, write: bool, note: Callable[[str], object]) -> str:
    """The section about own reports, with the likeness of the catalog or a new one.

    Parameters
    ----------
    catalog
        Directory of the catalog's files.
    write
        Fit the likeness anew and write it into the catalog first.
    note
        Takes a line about every channel that is fitted.

    Raises
    ------
    LearningRefused
        If something cannot be read.
    """
    try:
        packaged = read_packaged(catalog)
        files = packaged_lines(catalog, packaged.snapshot)
    except (CatalogInvalid, FileInvalid, LeftOutInvalid, OSError) as invalid:
        raise LearningRefused(str(invalid)) from None
    if not write:
        return packaged_section(files, packaged)
    rows, fresh = packaged_rows(files.values(), packaged)
    fitted = fitted_likeness(rows)
    entries = [_entry(channel, found, packaged.snapshot) for channel, found in fitted.items()]
    for entry in entries:
        note(f"{entry.id}: {entry.note}")
    (catalog / _FILE).write_text(document_text(_COMMENT, entries), encoding="utf-8")
    return learning_section(rows, {name: one.likeness for name, one in fitted.items()}, fresh)


def _entry(channel: str, found: FittedLikeness, snapshot: CatalogSnapshot) -> CalibrationEntry:
    counts = found.sources
    most = min(counts, key=lambda name: (-counts[name], name), default=ASSUMPTION)
    return CalibrationEntry(
        id=f"{CALIBRATIONS}{channel}",
        applies_to={"channel": channel},
        note=(
            f"Maximum likelihood on errors of {sum(counts.values())} runs of {len(counts)} "
            "sources, each taken for an organisation; channels of few sources lean on all others."
        ),
        figures=figures_of(found.likeness),
        source=most,
        year=int(snapshot.sources[most].document["year"]),
        fitted=bool(counts),
    )
