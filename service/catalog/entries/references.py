"""Finding an entry by what people write: its id, an alias, or nearly either of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from unicodedata import normalize

from service.core.errors import NotFound

#: Ids that an entry of any collection has had, each with the day on which it got another.
FORMER_IDS = "former_ids"

_SEPARATORS = str.maketrans("", "", "-_ ")
MOST_SUGGESTIONS = 5
#: All entries that a name could mean are told, unless they are more than anybody reads.
MOST_CANDIDATES = 20
_LEAST_SCORE = 60.0
_LONGEST_COMPARED = 200
#: Cities of which less is alike are others.
_LEAST_CITY = 75.0
#: Names of fewer letters occur within any others.
_SHORT = 4


class UnknownReference(NotFound):
    """Nothing in the collection goes by this name.

    Parameters
    ----------
    suggestions
        Ids of the entries with the most similar id or alias, the nearest first.
    """

    def __init__(self, collection: str, reference: str, suggestions: tuple[str, ...]) -> None:
        super().__init__(f"no entry {reference[:80]!r} among the {collection}")
        self.collection = collection
        self.reference = reference
        self.suggestions = suggestions

    @property
    def hint(self) -> str:
        """What to ask for instead, to be put after what is wrong; "" where nothing is near."""
        near = ", ".join(self.suggestions)
        return f"; did you mean {near}?" if near else ""


class AmbiguousReference(UnknownReference):
    """Several entries go by this name, and none of them is guessed.

    ``suggestions`` are those entries.
    """

    @property
    def hint(self) -> str:
        """All that the name could mean, to be put after what is wrong."""
        return f"; it could be any of {', '.join(self.suggestions)}"


@dataclass(frozen=True, slots=True)
class Renaming:
    """An entry that has had another id: the old one, today's, and since when (YYYY-MM-DD)."""

    collection: str
    old: str
    new: str
    since: str


class ReferenceIndex:
    """Ids and aliases of one collection.

    A reference is looked up as it is among the ids, then without regard to case among ids and
    aliases, then without regard to hyphens, underscores and spaces either. A name that several
    entries could mean ("us-east-1" and "us-east1" of two clouds) matches none of them in the last
    step.
    """

    def __init__(self, entries: Mapping[str, Iterable[str]]) -> None:
        """Index ``entries``, the aliases by id."""
        self._exact: dict[str, str] = {}
        self._loose: dict[str, set[str]] = {}
        for entry_id, aliases in entries.items():
            for name in (entry_id, *aliases):
                folded = name.casefold()
                if name == entry_id:
                    self._exact[folded] = entry_id
                else:
                    self._exact.setdefault(folded, entry_id)
                self._loose.setdefault(loosened(name), set()).add(entry_id)
        self._ids = frozenset(entries)

    def find(self, reference: str) -> str | None:
        """The id of the entry meant, or None where that is none or not clear."""
        found = self.candidates(reference)
        return found[0] if len(found) == 1 else None

    def candidates(self, reference: str) -> tuple[str, ...]:
        """Ids of all entries that the name could mean, in order; none where it means nothing."""
        if reference in self._ids:
            return (reference,)
        exact = self._exact.get(reference.casefold())
        if exact is not None:
            return (exact,)
        return tuple(sorted(self._loose.get(loosened(reference), ())))

    def unfound(self, collection: str, reference: str) -> UnknownReference:
        """The error that says why a reference was not found."""
        could_be = self.candidates(reference)
        if could_be:
            return AmbiguousReference(collection, reference, could_be[:MOST_CANDIDATES])
        return UnknownReference(collection, reference, self.suggestions(reference))

    def suggestions(self, reference: str) -> tuple[str, ...]:
        """Ids of entries with a similar name, the nearest first."""
        return _similar(reference, self._exact)


class PlaceIndex(ReferenceIndex):
    """Ids and aliases of regions, whose cities are suggested, too: there may be several in one."""

    def __init__(
        self, entries: Mapping[str, Iterable[str]], places: Mapping[str, Iterable[str]]
    ) -> None:
        """Index ``entries``, the aliases by id, and ``places``, names of cities by id."""
        super().__init__(entries)
        self._cities: dict[str, list[str]] = {}
        for entry_id, cities in places.items():
            for city in cities:
                self._cities.setdefault(_plain(city), []).append(entry_id)

    def suggestions(self, reference: str) -> tuple[str, ...]:
        """Ids of regions in a city of a similar name, else of those with a similar name.

        Names of two or three letters are like parts of any word, and are compared with such only.
        """
        from rapidfuzz import fuzz, process

        typed = _plain(reference[:_LONGEST_COMPARED])
        nearest = process.extract(
            typed, list(self._cities), scorer=fuzz.ratio, score_cutoff=_LEAST_CITY, limit=2
        )
        found = [entry_id for city, _, _ in nearest for entry_id in self._cities[city]]
        if not found and len(typed) >= _SHORT:
            names = {
                name: entry_id for name, entry_id in self._exact.items() if len(name) >= _SHORT
            }
            return _similar(reference, names)
        return tuple(dict.fromkeys(found))[:MOST_SUGGESTIONS] or _similar(reference, self._exact)


def _plain(name: str) -> str:
    """A name without accents and case."""
    return normalize("NFKD", name).encode("ascii", "ignore").decode().casefold().strip()


def _similar(reference: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Ids of the nearest of some names."""
    from rapidfuzz import fuzz, process, utils

    nearest = process.extract(
        reference[:_LONGEST_COMPARED],
        list(names),
        scorer=fuzz.WRatio,
        processor=utils.default_process,
        limit=4 * MOST_SUGGESTIONS,
        score_cutoff=_LEAST_SCORE,
    )
    return tuple(dict.fromkeys(names[name] for name, _, _ in nearest))[:MOST_SUGGESTIONS]


def loosened(name: str) -> str:
    """A name without case, hyphens, underscores and spaces."""
    return name.casefold().translate(_SEPARATORS)


def renamings(
    collection: str, documents: Mapping[str, Mapping[str, object]]
) -> dict[str, Renaming]:
    """Entries of a collection that have had another id, by that id without regard to case."""
    found = {}
    for entry_id, document in documents.items():
        former = document.get(FORMER_IDS)
        for old, since in former.items() if isinstance(former, Mapping) else ():
            found[str(old).casefold()] = Renaming(collection, str(old), entry_id, str(since))
    return found
