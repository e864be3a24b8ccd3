"""Shapes of answers: intervals, explanations and provenance as plain dictionaries."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import isfinite
from typing import Any

from service import ENGINE_VERSION
from service.catalog.entries import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import EstimateWarning, Step
from service.core.interval import Interval


def figure(interval: Interval) -> dict[str, float]:
    """An interval as it goes over the wire."""
    return {
        "value": float(interval.value),
        "low": float(interval.low),
        "high": float(interval.high),
    }


def known_figure(interval: Interval | None) -> dict[str, float] | None:
    """An interval, or null where it is unknown or without bound."""
    return scaled_figure(interval, 1.0)


def scaled_figure(interval: Interval | None, factor: float) -> dict[str, float] | None:
    """An interval times a count or unit, or null where it is unknown or without bound."""
    if interval is None or not isfinite(interval.high):
        return None
    return {
        "value": float(interval.value) * factor,
        "low": float(interval.low) * factor,
        "high": float(interval.high) * factor,
    }


def explanation(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Explanation steps as they go over the wire."""
    return [
        {
            "name": step.formula.name,
            "formula": step.formula.expression,
            "inputs": {name: _plain(value) for name, value in step.inputs.items()},
            "value": _plain(step.value),
            "unit": step.formula.unit,
            "source": step.formula.source,
        }
        for step in steps
    ]


def warning_entries(warnings: Iterable[EstimateWarning]) -> list[dict[str, str]]:
    """Warnings as they go over the wire, each once."""
    seen: dict[tuple[str, str], None] = dict.fromkeys((c.code, c.message) for c in warnings)
    return [{"code": code, "message": message} for code, message in seen]


def frame(catalog_revision: int) -> dict[str, Any]:
    """What every answer starts with: the two things that make it repeatable."""
    return {"catalog_revision": catalog_revision, "engine_version": ENGINE_VERSION}


def _plain(value: Any) -> float | str | None:
    if isinstance(value, str):
        return value
    number = float(value)
    return number if isfinite(number) else None


def provenance(snapshot: CatalogSnapshot, entries: Iterable[tuple[str, Entry[Any]]]) -> list[Any]:
    """Which catalog entries an answer used, and who says so.

    Parameters
    ----------
    snapshot
        Holds the sources.
    entries
        Collection and entry, in the order they are to be listed.

    Returns
    -------
    list
        ``{"collection", "id", "figures": [{"name", "entry", "year", "kind", "source"}],
        "sources": [{"id", "title", "publisher", "year", "url"}]}``; ``entry`` is where a figure
        stands when it was inherited or stood in for.
    """
    return [entry_provenance(snapshot, collection, entry) for collection, entry in entries]


@lru_cache(maxsize=1024)
def entry_provenance(
    snapshot: CatalogSnapshot, collection: str, entry: Entry[Any]
) -> dict[str, Any]:
    """Provenance of one entry; see :func:`provenance`."""
    figures = [
        {
            "name": name,
            "entry": f"{origin.collection}/{origin.entry_id}",
            "year": origin.year,
            "kind": origin.kind,
            "source": origin.source,
        }
        for name, origin in sorted(entry.origins.items())
    ]
    named = sorted({o.source for o in entry.origins.values() if o.source})
    known = [snapshot.sources[id_].document for id_ in named if id_ in snapshot.sources]
    fetched_from = entry.document.get("fetched_from")
    if fetched_from is not None:
        known = [*known, fetched_from]
    return {
        "collection": collection,
        "id": entry.id,
        "figures": figures,
        "sources": [
            {
                "id": source["id"],
                "title": source["title"],
                "publisher": source["publisher"],
                "year": source["year"],
                "url": source["url"],
            }
            for source in known
        ],
    }
