"""Learning curves of the packaged measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from service.estimation.learning.lessons import likeness
from service.estimation.measurements.compared import compared
from service.estimation.rejection import Rejected
from service.validation.learning.rows import Estimate, SourceRow, source_rows
from service.validation.learning.section import learning_section
from service.validation.packaged import Packaged
from service.validation.reading import Line


def packaged_section(files: Mapping[str, Sequence[Line]], packaged: Packaged) -> str:
    """What own reports do to estimates of the packaged sources, in Markdown."""
    rows, fresh = packaged_rows(files.values(), packaged)
    return learning_section(rows, likeness(packaged.snapshot), fresh)


def packaged_rows(
    files: Iterable[Sequence[Line]], packaged: Packaged
) -> tuple[list[SourceRow], frozenset[str]]:
    """Rows of all sources, and the quantities that were estimated without each of them.

    Other quantities have the errors of constants that were fitted to most of the sources.
    """
    snapshot, left_out = packaged.snapshot, packaged.left_out or ()
    fresh = {(one.id, one.quantity): Estimate(one.value, one.low, one.high) for one in left_out}
    quantities = frozenset(quantity for _, quantity in fresh)
    documents = [line.document for lines in files for line in lines if line.document is not None]
    known = dict(fresh)
    for document in documents:
        if quantities.issuperset(document.figures):
            continue
        try:
            figures = compared(document, snapshot).figures
        except Rejected:
            continue
        known |= {
            (str(document.id), one.quantity): Estimate(one.value, one.low, one.high)
            for one in figures
            if one.quantity not in quantities
        }
    return source_rows(documents, known, snapshot), quantities
