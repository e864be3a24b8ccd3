"""Finding an entry by what people write: its id, an alias, or nearly either of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from service.core.errors import NotFound

_SEPARATORS = str.maketrans("", "", "-_ ")
MOST_SUGGESTIONS = 5
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
        loose: dict[str, set[str]] = {}
        for entry_id, aliases in entries.items():
            for name in (entry_id, *aliases):
                folded = name.casefold()
                if name == entry_id:
                    self._exact[folded] = entry_id
                else:
                    self._exact.setdefault(folded, entry_id)
                loose.setdefault(loosened(name), set()).add(entry_id)
        self._ids = frozenset(entries)
        self._loose = {name: min(ids) for name, ids in loose.items() if len(ids) == 1}

    def find(self, reference: str) -> str | None:
        """The id of the entry meant, or None."""
        if reference in self._ids:
            return reference
        return self._exact.get(reference.casefold()) or self._loose.get(loosened(reference))

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
