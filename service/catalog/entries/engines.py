"""Engines from catalog documents, and whose figures hold for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from service.catalog.entries.documents import Document, DocumentInvalid, canonical
from service.catalog.entries.entry import Entry, FigureOrigin
from service.core.engines import Engine, SpeedFit

_RELATIONS = ("release_of", "like")


def engine_from_document(document: Document, engines: Mapping[str, Document]) -> Entry[Engine]:
    """An engine from a catalog document, beside those of all engines.

    Raises
    ------
    DocumentInvalid
        With a pointer to whatever is missing or of the wrong type, or where engines refer to each
        other in a circle or to one that is not there.
    """
    fields: Document = canonical(document)
    passed = {fields["id"]}
    nearest: Document = fields
    while relation := next((key for key in _RELATIONS if key in nearest), None):
        referred = nearest[relation]
        pointer = f"/{relation}" if nearest is fields else ""
        if not isinstance(referred, str) or referred not in engines:
            raise DocumentInvalid(pointer, f"no engine {referred!r:.80}")
        if referred in passed:
            raise DocumentInvalid(pointer, "leads back to itself")
        passed.add(referred)
        nearest = engines[referred]
    workloads = fields.get("workloads")
    if not isinstance(workloads, list) or not workloads:
        raise DocumentInvalid("/workloads", "must be a list")
    value = Engine(
        id=str(fields["id"]),
        name=str(fields.get("name", fields["id"])),
        workloads=frozenset(map(str, workloads)),
        release_of=fields.get("release_of"),
        like=fields.get("like"),
        speed_fit=_speed_fit(fields.get("speed_fit")),
        preallocating=fields.get("preallocating") is True,
    )
    described = FigureOrigin("engines", value.id, fields.get("source"), None, "datasheet")
    return Entry(value.id, fields, value, {"description": described})


def figures_of(engine: Engine, engines: Mapping[str, Entry[Engine]]) -> Iterator[tuple[str, bool]]:
    """Ids of the engines whose figures hold for an engine, and whether they only stand in for them.

    Its own come first; figures of an engine that it is like, and of all that follow, stand in.
    """
    stands_in = False
    yield engine.id, stands_in
    while nearest := engine.release_of or engine.like:
        stands_in = stands_in or engine.release_of is None
        engine = engines[nearest].value
        yield engine.id, stands_in


def _speed_fit(given: Any) -> SpeedFit | None:
    if given is None:
        return None
    try:
        return SpeedFit(**given)
    except TypeError:
        raise DocumentInvalid("/speed_fit", "must be an object of known fields") from None
