"""Groups of measurements that are left out of a fit together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from service.calibration.rows import Row
from service.estimation.measurements.documents import MeasurementDocument

SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Group:
    """Measurements that have something in common, such as their source or hardware family.

    ``kind`` says what they have in common, and ``key`` which; ``documents`` are their ids.
    """

    kind: str
    key: str
    documents: frozenset[str] = field(repr=False)

    def holds(self, row: Row) -> bool:
        """Whether a row belongs to it."""
        return str(row.document.id) in self.documents

    @classmethod
    def of(cls, kind: str, key: str, documents: Iterable[MeasurementDocument]) -> Group:
        """The group of some documents."""
        return cls(kind, key, frozenset(str(document.id) for document in documents))


def by_source(documents: Iterable[MeasurementDocument]) -> list[Group]:
    """One group for each source, by the names of sources; nobody's documents are in none."""
    sources: dict[str, list[MeasurementDocument]] = {}
    for document in documents:
        if document.source is not None:
            sources.setdefault(document.source, []).append(document)
    return [Group.of(SOURCE, name, sources[name]) for name in sorted(sources)]
