"""Finding an entry by what people write: its id, an alias, or nearly either of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from service.core.errors import NotFound

#: Ids that an entry of any collection has had, each with the day on which it got another.
FORMER_IDS = "former_ids"

_SEPARATORS = str.maketrans("", "", "-_ ")
MOST_SUGGESTIONS = 5
#: All entries that a name could mean are told, unless they are more than anybody reads.
MOST_CANDIDATES = 20
_LEAST_SCORE = 60.0
_LONGEST_COMPARED = 200


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
        from rapidfuzz import fuzz, process, utils

        nearest = process.extract(
            reference[:_LONGEST_COMPARED],
            list(self._exact),
            scorer=fuzz.WRatio,
            processor=utils.default_process,
            limit=4 * MOST_SUGGESTIONS,
            score_cutoff=_LEAST_SCORE,
        )
        ids = dict.fromkeys(self._exact[name] for name, _, _ in nearest)
        return tuple(ids)[:MOST_SUGGESTIONS]


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
