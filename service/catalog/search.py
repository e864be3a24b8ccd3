"""Searching the catalog by what people type: parts of names, in any order, with slips."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from service.catalog.derived import derived
from service.catalog.entries.documents import COLLECTIONS, Document
from service.catalog.entries.references import loosened
from service.catalog.snapshot import CatalogSnapshot

#: Calibrations and tables of offers have no names that people would type.
SEARCHED = tuple(name for name in COLLECTIONS if name not in ("calibrations", "offers"))

_EXACT, _BEGINS, _HOLDS, _ALL_WORDS = 100.0, 95.0, 90.0, 85.0
#: Below this two names share little but letters.
_LEAST_SIMILAR = 75.0
#: Longer names that hold the same words are further from what was typed.
_LENGTH_WEIGHT = 4.0
_LONGEST = 200
_WORD = re.compile(r"[a-z]+|[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that a search found: by which of its names, and how well (0 to 100)."""

    collection: str
    entry_id: str
    name: str
    matched: str
    score: float


@dataclass(frozen=True, slots=True)
class _Name:
    collection: str
    entry_id: str
    text: str
    loose: str
    words: frozenset[str]


def search(
    snapshot: CatalogSnapshot, text: str, collections: Iterable[str], limit: int
) -> list[Hit]:
    """Entries by their names, the nearest first.

    A name that is what was typed, or what a request would take it for, or begins with it, or holds
    it, or holds all of its words, counts most, whatever the case, hyphens and spaces; only where no
    name does are similar ones taken.

    Parameters
    ----------
    snapshot
        The catalog to search.
    text
        What was typed.
    collections
        Where to look; each entry is found once, by its best name.
    limit
        Most hits wanted.
    """
    wanted = frozenset(collections)
    names = [name for name in _names(snapshot) if name.collection in wanted]
    typed = text[:_LONGEST]
    found = [*_meant(names, typed, snapshot), *_holding(names, typed)]
    found = found or list(_similar(names, typed))
    found.sort(key=lambda hit: (-hit[1], hit[0].entry_id))
    best: dict[tuple[str, str], tuple[_Name, float]] = {}
    for name, score in found:
        best.setdefault((name.collection, name.entry_id), (name, score))
    return [
        Hit(
            name.collection,
            name.entry_id,
            label(snapshot.collection(name.collection)[name.entry_id].document),
            name.text,
            round(score, 1),
        )
        for name, score in list(best.values())[:limit]
    ]


def label(document: Document) -> str:
    """What people call an entry."""
    return str(document.get("name") or document.get("title") or document["id"])


def words(text: str) -> frozenset[str]:
    """Its runs of letters and its numbers: "H100 80GB SXM5" has h, 100, 80, gb, sxm and 5."""
    return frozenset(_WORD.findall(text.casefold()))


@derived()
def _names(snapshot: CatalogSnapshot) -> tuple[_Name, ...]:
    return tuple(
        _Name(collection, entry_id, text, loosened(text), words(f"{text} {entry_id}"))
        for collection in SEARCHED
        for entry_id, entry in snapshot.collection(collection).items()
        for text in dict.fromkeys(_texts(entry_id, entry.document))
    )


def _texts(entry_id: str, document: Mapping[str, object]) -> Iterator[str]:
    yield entry_id
    for part in ("name", "title"):
        if document.get(part):
            yield str(document[part])
    aliases = document.get("aliases")
    yield from (str(alias) for alias in aliases) if isinstance(aliases, list) else ()


def _meant(
    names: Iterable[_Name], text: str, snapshot: CatalogSnapshot
) -> Iterator[tuple[_Name, float]]:
    """What a reference would find: an accelerator by what its driver calls it, for one."""
    meant = {
        collection: frozenset(index.candidates(text))
        for collection, index in snapshot.references.items()
    }
    for name in names:
        if name.text == name.entry_id and name.entry_id in meant[name.collection]:
            yield name, _BEGINS


def _holding(names: Iterable[_Name], text: str) -> Iterator[tuple[_Name, float]]:
    loose, asked = loosened(text), words(text)
    if not loose:
        return
    for name in names:
        if name.loose == loose:
            score = _EXACT
        elif name.loose.startswith(loose):
            score = _BEGINS
        elif loose in name.loose:
            score = _HOLDS
        elif asked and asked <= name.words:
            score = _ALL_WORDS
        else:
            continue
        yield name, score - _LENGTH_WEIGHT * (1.0 - min(len(loose) / len(name.loose), 1.0))


def _similar(names: list[_Name], text: str) -> Iterator[tuple[_Name, float]]:
    from rapidfuzz import fuzz, process

    nearest = process.extract(
        loosened(text),
        [name.loose for name in names],
        scorer=fuzz.ratio,
        limit=None,
        score_cutoff=_LEAST_SIMILAR,
    )
    # Similar names are below whatever holds the text itself.
    yield from ((names[at], 0.8 * score) for _, score, at in nearest)
