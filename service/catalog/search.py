"""Searching the catalog by what people type: parts of names, in any order, with slips."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from service.catalog.entries.documents import Document
from service.catalog.entries.references import loosened
from service.catalog.search_index import (
    SEARCHED,
    Found,
    Name,
    SearchIndex,
    plain,
    search_index,
    words,
)
from service.catalog.snapshot import CatalogSnapshot

__all__ = ["SEARCHED", "Hit", "label", "search", "words"]

#: What a name is worth that is what was typed, begins with it or holds it, in whole words, and
#: that has all its words in any order; then those that hold it only in the midst of words.
_EXACT, _BEGINS, _HOLDS, _ALL_WORDS, _INSIDE = 100.0, 95.0, 88.0, 85.0, 72.0
#: What it adds that a name begins with the first word.
_FIRST = 3.0
#: What a word is worth that one of the entry's names has, that surrounds it, that is only begun.
_OWN, _AROUND, _BEGUN, _BEGUN_NUMBER, _BEGUN_VERSION = 1.0, 0.92, 0.94, 0.9, 0.98
#: What misspelt words and names are worth at most, and names that have only some of the words.
_MISSPELT, _SOME_WORDS = 78.0, 60.0
#: Below this two words or names share little but letters.
_LEAST_SIMILAR = 75.0
#: Words of fewer letters are like too many others.
_LEAST_LETTERS = 4
#: Words that are as like as any to what was typed.
_MOST_SPELLINGS = 12
#: Share of what was typed that a name must at least have, by letters; a number counts as one.
_LEAST_SHARE = 0.4
#: Longer names that hold the same words are further from what was typed.
_LENGTH_WEIGHT = 4.0
#: A release in fewer bits comes after the model that it was made of.
_OF_ANOTHER = 3.0
#: What it adds to be a year newer, where names are as near.
_A_YEAR, _FIRST_YEAR, _MOST_YEARS = 0.1, 2017, 10
_LONGEST = 200
_RUN = re.compile(r"[a-z0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that a search found: by which of its names, and how well (0 to 100)."""

    collection: str
    entry_id: str
    name: str
    matched: str
    score: float


def search(
    snapshot: CatalogSnapshot, text: str, collections: Iterable[str], limit: int
) -> list[Hit]:
    """Entries by their names and what surrounds them, the nearest first.

    A name that is what was typed, or what a request would take it for, or begins with it, or holds
    it, or an entry that has all of its words, counts most, whatever the case, accents, hyphens and
    spaces; the city and country of a region, the cloud and accelerators of an instance and the
    maker of the rest count as words. Only where nothing has them all are misspelt words taken, and
    last what has some of them.

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
    typed = text[:_LONGEST]
    wanted = [name for name in SEARCHED if name in frozenset(collections)]
    hits = [hit for name in wanted for hit in _all_words(snapshot, name, typed)]
    hits = hits or [hit for name in wanted for hit in _misspelt(snapshot, name, typed)]
    hits = hits or [hit for name in wanted for hit in _some_words(snapshot, name, typed)]
    hits.sort(key=lambda hit: (-hit.score, hit.entry_id))
    return hits[:limit]


def label(document: Document) -> str:
    """What people call an entry."""
    return str(document.get("name") or document.get("title") or document["id"])


def _all_words(snapshot: CatalogSnapshot, collection: str, typed: str) -> Iterator[Hit]:
    index, asked = search_index(snapshot, collection), words(typed)
    loose = loosened(plain(typed))
    meant = frozenset(snapshot.references[collection].candidates(typed))
    holding, chunks = _holding(index, asked), _chunks(typed)
    for at, entry in enumerate(index.entries):
        named = _best_name(entry, loose) if loose else None
        score, name = (0.0, entry.names[0]) if named is None else named
        if entry.entry_id in meant and score < _BEGINS:
            score, name = _BEGINS, entry.names[0]
        worth = holding.get(at)
        if worth is not None and score < _ALL_WORDS + _FIRST:
            nearest = _nearest(entry, asked)
            first = _FIRST if words(nearest.text)[:1] == asked[:1] else 0.0
            scattered = _ALL_WORDS * worth + first - _length(loose, nearest)
            if scattered > score and all(entry.has_together(chunk) for chunk in chunks):
                score, name = scattered, nearest
        if score > 0.0:
            yield _hit(snapshot, collection, entry, name, score)


def _chunks(typed: str) -> tuple[str, ...]:
    """Runs of letters and numbers without anything between, such as k80."""
    runs = (loosened(run) for run in _RUN.findall(plain(typed)))
    return tuple(run for run in runs if len(words(run)) > 1)


def _best_name(entry: Found, loose: str) -> tuple[float, Name] | None:
    """The name that holds the text itself, with what it is worth."""
    best = None
    for name in entry.names:
        at = name.loose.find(loose)
        if at < 0:
            continue
        whole = at + len(loose) in name.ends
        if name.loose == loose:
            score = _EXACT
        elif at == 0 and whole:
            score = _BEGINS
        elif whole and at in name.ends:
            score = _HOLDS
        elif not loose[-1].isdigit() or not name.loose[at + len(loose) :][:1].isdigit():
            score = _ALL_WORDS if at == 0 or at in name.ends else _INSIDE
        else:
            # The typed number is the beginning of another.
            score = _INSIDE
        score -= _length(loose, name)
        if best is None or score > best[0]:
            best = score, name
    return best


def _length(loose: str, name: Name) -> float:
    return _LENGTH_WEIGHT * (1.0 - min(len(loose) / max(len(name.loose), 1), 1.0))


def _holding(index: SearchIndex, asked: tuple[str, ...]) -> dict[int, float]:
    """Entries that have all words, with what each is worth on the mean."""
    if not asked:
        return {}
    spellings = []
    for place, word in enumerate(asked):
        held = {word: 1.0} if word in index.holders else {}
        if word.isalpha() or place == len(asked) - 1:
            held |= {longer: _begun(word, longer) for longer in index.beginning_with(word)}
        spellings.append(held)
    return _with_all(index, spellings)


def _begun(word: str, longer: str) -> float:
    """What a word is worth that is the beginning of another: 4 of 4.1 more than of 40."""
    if word.isalpha():
        return _BEGUN
    return _BEGUN_VERSION if longer[len(word)] == "." else _BEGUN_NUMBER


def _with_all(index: SearchIndex, spellings: list[dict[str, float]]) -> dict[int, float]:
    """Entries that have some spelling of each word, with the mean worth of the best ones."""
    total: dict[int, float] | None = None
    for held in spellings:
        worth: dict[int, float] = {}
        for word, spelt in held.items():
            for at in index.holders.get(word, ()):
                own = _OWN if word in index.entries[at].own else _AROUND
                worth[at] = max(worth.get(at, 0.0), own * spelt)
        if total is None:
            total = worth
        else:
            total = {at: total[at] + worth[at] for at in total.keys() & worth.keys()}
    return {at: sum_ / len(spellings) for at, sum_ in (total or {}).items()}


def _nearest(entry: Found, asked: tuple[str, ...]) -> Name:
    """The name that has most of the words, and little else."""
    wanted = frozenset(asked)
    return max(
        entry.names,
        key=lambda name: (len(wanted & frozenset(words(name.text))), -len(name.loose)),
    )


def _misspelt(snapshot: CatalogSnapshot, collection: str, typed: str) -> Iterator[Hit]:
    """Entries that have all words nearly, or a name that is nearly what was typed."""
    from rapidfuzz import fuzz, process

    index, asked = search_index(snapshot, collection), words(typed)
    letters = [word for word in index.alphabet if _misspelt_word(word)]
    spellings: list[dict[str, float]] = []
    for word in asked:
        near = process.extract(
            word,
            letters if _misspelt_word(word) else (),
            scorer=fuzz.ratio,
            limit=_MOST_SPELLINGS,
            score_cutoff=_LEAST_SIMILAR,
        )
        held = {spelling: score / 100.0 for spelling, score, _ in near}
        spellings.append(held | ({word: 1.0} if word in index.holders else {}))
    best: dict[int, tuple[float, Name]] = {}
    loose = loosened(plain(typed))
    numbered = [chunk for chunk in _chunks(typed) if not any(map(_misspelt_word, words(chunk)))]
    for at, worth in _with_all(index, spellings).items():
        if not all(index.entries[at].has_together(chunk) for chunk in numbered):
            continue
        name = _nearest(index.entries[at], asked)
        best[at] = _MISSPELT * worth - _length(loose, name), name
    names = [(at, name) for at, entry in enumerate(index.entries) for name in entry.names]
    for _, score, place in process.extract(
        loose,
        [name.loose for _, name in names],
        scorer=fuzz.ratio,
        limit=None,
        score_cutoff=_LEAST_SIMILAR,
    ):
        at, name = names[place]
        worth = _MISSPELT * score / 100.0
        if at not in best or best[at][0] < worth:
            best[at] = worth, name
    for at, (score, name) in best.items():
        yield _hit(snapshot, collection, index.entries[at], name, score)


def _misspelt_word(word: str) -> bool:
    """Whether a word is long enough to be taken for another."""
    return word.isalpha() and len(word) >= _LEAST_LETTERS


def _some_words(snapshot: CatalogSnapshot, collection: str, typed: str) -> Iterator[Hit]:
    """Entries that have much of what was typed, if not all."""
    index, asked = search_index(snapshot, collection), words(typed)
    chunks = _chunks(typed)
    weights = {word: len(word) if word.isalpha() else 1 for word in asked}
    had: dict[int, int] = {}
    for word, weight in weights.items():
        for at in index.holders.get(word, ()):
            had[at] = had.get(at, 0) + weight
    whole = sum(weights.values())
    for at, weight in had.items():
        entry = index.entries[at]
        if weight / whole >= _LEAST_SHARE and all(entry.has_together(chunk) for chunk in chunks):
            name = _nearest(entry, asked)
            score = _SOME_WORDS * weight / whole - _length(typed, name)
            yield _hit(snapshot, collection, entry, name, score)


def _hit(snapshot: CatalogSnapshot, collection: str, entry: Found, name: Name, score: float) -> Hit:
    document: Mapping[str, object] = snapshot.collection(collection)[entry.entry_id].document
    if score < _BEGINS:
        score -= _OF_ANOTHER if entry.of_another else 0.0
    if _MISSPELT < score < _BEGINS:
        score += _A_YEAR * min(max(entry.year - _FIRST_YEAR, 0), _MOST_YEARS)
    return Hit(collection, entry.entry_id, label(document), name.text, round(score, 1))
