"""What ``headroom learning`` does: learning curves, and the likeness that they rest on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from service.calibration.documents import ASSUMPTION, CalibrationEntry, document_text
from service.catalog.entries.documents import CatalogInvalid
from service.catalog.files import packaged_documents
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.core.errors import InvalidInput
from service.core.learning import Likeness
from service.estimation.learning.lessons import CALIBRATIONS, likeness
from service.estimation.measurements.compared import compared
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.rejection import Rejected
from service.validation.learning.likeness import FittedLikeness, figures_of, fitted_likeness
from service.validation.learning.rows import Estimate, source_rows
from service.validation.learning.section import learning_section
from service.validation.left_out import LeftOutInvalid, read_left_out
from service.validation.reading import FileInvalid, read_files

_MEASUREMENTS = "measurements"
_LEFT_OUT = "left_out.csv"
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
        snapshot = snapshot_from_documents(packaged_documents(catalog), 0)
        files = read_files(catalog / _MEASUREMENTS, snapshot)
        path = catalog / _MEASUREMENTS / _LEFT_OUT
        left_out = _left_out(path) if path.exists() else {}
    except (CatalogInvalid, FileInvalid, LeftOutInvalid, OSError) as invalid:
        raise LearningRefused(str(invalid)) from None
    documents = [
        line.document for lines in files.values() for line in lines if line.document is not None
    ]
    in_sample = _in_sample(documents, snapshot)
    fresh = frozenset(quantity for _, quantity in left_out)
    kept = {place: one for place, one in in_sample.items() if place[1] not in fresh}
    rows = source_rows(documents, kept | left_out, snapshot)
    shares: Mapping[str, Likeness] = likeness(snapshot)
    if write:
        fitted = fitted_likeness(rows)
        entries = [_entry(channel, found, snapshot) for channel, found in fitted.items()]
        for entry in entries:
            note(f"{entry.id}: {entry.note}")
        (catalog / _FILE).write_text(document_text(_COMMENT, entries), encoding="utf-8")
        shares = {channel: found.likeness for channel, found in fitted.items()}
    return learning_section(rows, shares, fresh)


def _left_out(path: Path) -> dict[tuple[str, str], Estimate]:
    _, figures = read_left_out(path)
    return {(one.id, one.quantity): Estimate(one.value, one.low, one.high) for one in figures}


def _in_sample(
    documents: list[MeasurementDocument], snapshot: CatalogSnapshot
) -> dict[tuple[str, str], Estimate]:
    """Estimates by the constants of the catalog."""
    found = {}
    for document in documents:
        try:
            figures = compared(document, snapshot).figures
        except Rejected:
            continue
        for one in figures:
            found[str(document.id), one.quantity] = Estimate(one.value, one.low, one.high)
    return found


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
