"""What entries can be found by: the words of their names, and those of what surrounds them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from unicodedata import normalize

from service.catalog.derived import derived
from service.catalog.entries.documents import COLLECTIONS, Document
from service.catalog.entries.references import loosened
from service.catalog.snapshot import CatalogSnapshot

#: Calibrations and tables of offers have no names that people would type.
SEARCHED = tuple(name for name in COLLECTIONS if name not in ("calibrations", "offers"))

_WORD = re.compile(r"[a-z]+|[0-9]+(?:\.[0-9]+)?")
#: Names of instances with a size after a dot.
_SIZED = re.compile(r"[a-z][0-9]+[a-z]*\.[0-9a-z]")
#: What else clouds are called.
_CLOUDS: Mapping[str, str] = {
    "aws": "amazon web services",
    "azure": "microsoft",
    "gcp": "google cloud",
    "oci": "oracle cloud",
    "verda": "datacrunch",
}
#: Cities by the names that they have at home.
_ENDONYMS: Mapping[str, str] = {
    "athina": "athens",
    "bruxelles": "brussels",
    "brussel": "brussels",
    "bucuresti": "bucharest",
    "firenze": "florence",
    "geneve": "geneva",
    "goteborg": "gothenburg",
    "kobenhavn": "copenhagen",
    "koln": "cologne",
    "lisboa": "lisbon",
    "milano": "milan",
    "moskva": "moscow",
    "munchen": "munich",
    "praha": "prague",
    "roma": "rome",
    "torino": "turin",
    "warszawa": "warsaw",
    "wien": "vienna",
    "zuerich": "zurich",
}


def plain(text: str) -> str:
    """A text without accents and case."""
    return normalize("NFKD", text).encode("ascii", "ignore").decode().casefold()


def words(text: str) -> tuple[str, ...]:
    """Its runs of letters and its numbers: "H100 80GB SXM5" has h, 100, 80, gb, sxm and 5."""
    return tuple(_ENDONYMS.get(word, word) for word in _WORD.findall(plain(text)))


@dataclass(frozen=True, slots=True)
class Name:
    """One of an entry's names: as it is, without separators, and where its words end there."""

    text: str
    loose: str
    ends: frozenset[int]


@dataclass(frozen=True, slots=True)
class Found:
    """An entry as search sees it: its names with their words, and words that surround it.

    ``of_another`` marks a model that is another in fewer bits, ``year`` is that of its release.
    """

    entry_id: str
    names: tuple[Name, ...]
    own: frozenset[str]
    around: frozenset[str]
    loose_around: tuple[str, ...]
    of_another: bool
    year: int

    def has_together(self, chunk: str) -> bool:
        """Whether some name has letters and numbers beside each other as they were typed."""
        return any(chunk in name.loose for name in self.names) or any(
            chunk in loose for loose in self.loose_around
        )


@dataclass(frozen=True, slots=True)
class SearchIndex:
    """The entries of a collection by each of their words; ``alphabet`` is all words in order."""

    entries: tuple[Found, ...]
    holders: Mapping[str, frozenset[int]]
    alphabet: tuple[str, ...] = field(default=())

    def beginning_with(self, word: str) -> Iterator[str]:
        """Words that begin with another and are longer."""
        at = bisect_left(self.alphabet, word)
        while at < len(self.alphabet) and self.alphabet[at].startswith(word):
            if self.alphabet[at] != word:
                yield self.alphabet[at]
            at += 1


@derived(most=len(SEARCHED))
def search_index(snapshot: CatalogSnapshot, collection: str) -> SearchIndex:
    """The index of one collection of a snapshot, made once."""
    entries = tuple(
        _found(snapshot, collection, entry_id, entry.document)
        for entry_id, entry in snapshot.collection(collection).items()
    )
    holders: dict[str, set[int]] = {}
    for at, entry in enumerate(entries):
        for word in entry.own | entry.around:
            holders.setdefault(word, set()).add(at)
    return SearchIndex(
        entries, {word: frozenset(held) for word, held in holders.items()}, tuple(sorted(holders))
    )


def _found(snapshot: CatalogSnapshot, collection: str, entry_id: str, document: Document) -> Found:
    texts = tuple(dict.fromkeys(_texts(entry_id, document)))
    around = _AROUND.get(collection)
    surrounding = () if around is None else tuple(around(snapshot, entry_id, document))
    return Found(
        entry_id,
        tuple(_name(text) for text in texts),
        frozenset(word for text in texts for part in _parts(text) for word in words(part)),
        frozenset(word for text in surrounding for word in words(text)),
        tuple(dict.fromkeys(loosened(plain(text)) for text in surrounding)),
        "base_model" in document,
        int(document.get("release_year") or 0),
    )


def _name(text: str) -> Name:
    loose = loosened(plain(text))
    ends = {0}
    for part in _parts(text):
        at = 0
        for found in _WORD.finditer(plain(part)):
            at = loose.find(found[0], at) + len(found[0])
            ends.add(at)
    return Name(text, loose, frozenset(ends))


def _parts(text: str) -> tuple[str, ...]:
    """A text, and again with dots between words: p5.48xlarge is a p5."""
    return (text, text.replace(".", " ")) if _SIZED.search(text) else (text,)


def _texts(entry_id: str, document: Document) -> Iterator[str]:
    yield entry_id
    for part in ("name", "title"):
        if document.get(part):
            yield str(document[part])
    aliases = document.get("aliases")
    yield from (str(alias) for alias in aliases) if isinstance(aliases, list) else ()


def _of_region(snapshot: CatalogSnapshot, entry_id: str, document: Document) -> Iterator[str]:
    """Its city, its state and its country, and what its cloud is called."""
    yield str(document.get("place") or "")
    yield _CLOUDS.get(entry_id.partition("/")[0], "")
    above = {f"country/{document.get('country')}", f"state/{document.get('subdivision')}"}
    for parent in above - {entry_id}:
        if parent in snapshot.regions:
            yield str(snapshot.regions[parent].document["name"])


def _of_instance(
    snapshot: CatalogSnapshot,
    entry_id: str,  # noqa: ARG001 - all have one shape
    document: Document,
) -> Iterator[str]:
    """Its provider and its accelerators by all their names."""
    yield _CLOUDS.get(str(document.get("provider")), "")
    yield f"{document.get('accelerators', '')}x"
    accelerator = snapshot.accelerators.get(str(document.get("accelerator")))
    if accelerator is not None:
        yield from _texts(accelerator.id, accelerator.document)


def _of_platform(
    snapshot: CatalogSnapshot,
    entry_id: str,  # noqa: ARG001 - all have one shape
    document: Document,
) -> Iterator[str]:
    """Its maker, and the accelerators that usually stand in it."""
    yield str(document.get("vendor") or "")
    for accelerator_id, entry in snapshot.accelerators.items():
        if _usual(document, accelerator_id):
            yield accelerator_id
            yield str(entry.document.get("name") or "")


def _of_accelerator(snapshot: CatalogSnapshot, entry_id: str, document: Document) -> Iterator[str]:
    """Its maker, its generation and the machines that it usually stands in."""
    yield str(document.get("vendor") or "")
    yield str(document.get("family") or "")
    for entry in snapshot.platforms.values():
        if document.get("form_factor") == "soc" and _usual(entry.document, entry_id):
            yield str(entry.document.get("name") or "")


def _of_model(
    snapshot: CatalogSnapshot,  # noqa: ARG001 - all have one shape
    entry_id: str,  # noqa: ARG001
    document: Document,
) -> Iterator[str]:
    yield str(document.get("organisation") or "")


def _usual(platform: Document, accelerator_id: str) -> bool:
    patterns: Iterable[str] = platform.get("default_for") or ()
    return any(fnmatchcase(accelerator_id, pattern) for pattern in patterns)


_AROUND = {
    "regions": _of_region,
    "instances": _of_instance,
    "platforms": _of_platform,
    "accelerators": _of_accelerator,
    "models": _of_model,
}
