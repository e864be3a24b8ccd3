"""How much a catalog holds, and how well its figures are sourced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from service.catalog.entries.documents import DocumentSet


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """Counts of one collection; ``kinds`` are those of figures (datasheet, measured, …)."""

    collection: str
    entries: int
    figures: int
    with_range: int
    kinds: Mapping[str, int]
    newest_year: int | None


def collection_statistics(documents: DocumentSet) -> Iterator[CollectionStatistics]:
    """Counts of each collection, in the order of the documents."""
    for collection, entries in documents.items():
        figures = [figure for entry in entries.values() for figure in _figures(entry)]
        yield CollectionStatistics(
            collection,
            len(entries),
            len(figures),
            sum("low" in figure for figure in figures),
            Counter(figure["kind"] for figure in figures),
            max((figure["year"] for figure in figures), default=None),
        )


def _figures(value: Any) -> Iterator[Mapping[str, Any]]:
    """Everything in a document that is a figure: a value with a source and a kind."""
    if isinstance(value, Mapping):
        if {"value", "source", "kind", "year"} <= set(value):
            yield value
        else:
            for part in value.values():
                yield from _figures(part)
    elif isinstance(value, list):
        for part in value:
            yield from _figures(part)
