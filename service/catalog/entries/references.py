"""Finding an entry by what people write: its id, an alias, or nearly either of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from unicodedata import normalize

from service.core.errors import NotFound

#: Ids that an entry of any collection has had, each with the day on which it got another.
FORMER_IDS = "former_ids"

_WORD = re.compile(r"[a-z]+")
_DOUBLED = re.compile(r"(.)\1+")
_HYPHENS = str.maketrans("_ :.", "----")
_SEPARATORS = str.maketrans("", "", "-_ :")
MOST_SUGGESTIONS = 5
#: All entries that a name could mean are told, unless they are more than anybody reads.
MOST_CANDIDATES = 20
#: A sentence names fewer of them.
_MOST_NAMED = 8
_LEAST_SCORE = 60.0
_LONGEST_COMPARED = 200
#: Names of fewer letters are a slip away from any other.
_LEAST_SLIPPED = 3
#: How unlikely slips are, by how many letters are missing: another one, one too few, one too many.
_OF_LENGTH = {0: 0, 1: 1, -1: 2}
#: Names that contain what was typed; the nearest of them are suggested.
_MOST_COMPARED = 100
#: One word that was typed is as like as this to a word of what it may mean; whole words are sure,
#: and so are names that are alike as a whole.
_LEAST_WORD, _WHOLE_WORD, _SURE = 70.0, 100.0, 91.0
#: Places of which less is alike, by letters or by sound, are others.
_LEAST_PLACE = 78.0
#: Names of fewer letters are like parts of any word, and have to be more alike.
_SHORT = 4
_LEAST_SHORT = 85.0
#: Places that are so much less alike than the nearest are not what was meant.
_PLACE_BEHIND = 8.0
#: Letters that sound alike, in this order, before doubled ones and silent h go.
_SOUNDS = (
    ("sch", "s"),
    ("sh", "s"),
    ("ph", "f"),
    ("th", "t"),
    ("ck", "k"),
    ("qu", "k"),
    ("c", "k"),
    ("q", "k"),
    ("z", "s"),
    ("w", "v"),
    ("y", "i"),
    ("j", "i"),
)


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
        """What the name could mean, to be put after what is wrong."""
        named = self.suggestions[:_MOST_NAMED]
        more = ", and others" if len(self.suggestions) > len(named) else ""
        return f"; it could be any of {', '.join(named)}{more}"


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
    aliases, then without regard to hyphens, underscores, colons and spaces either. A name that
    several entries could mean ("us-east-1" and "us-east1" of two clouds) matches none of them in
    the last step.
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
        found = self.could_be(reference)
        return found[0] if len(found) == 1 else None

    def could_be(self, reference: str) -> tuple[str, ...]:
        """Ids of all entries that somebody who asks for one by this name could mean, in order."""
        return self.candidates(reference)

    def candidates(self, reference: str) -> tuple[str, ...]:
        """Ids of all entries that go by the name, in order; none where it means nothing."""
        if reference in self._ids:
            return (reference,)
        exact = self._exact.get(reference.casefold())
        if exact is not None:
            return (exact,)
        return tuple(sorted(self._loose.get(loosened(reference), ())))

    def begins(self, reference: str) -> bool:
        """Whether a name is the beginning of some entry's, before another word."""
        typed = f"{_hyphened(reference)}-"
        return any(_hyphened(name.rpartition("/")[2]).startswith(typed) for name in self._exact)

    def unfound(self, collection: str, reference: str) -> UnknownReference:
        """The error that says why a reference was not found."""
        several = self.could_be(reference)
        if several:
            return AmbiguousReference(collection, reference, several[:MOST_CANDIDATES])
        near = dict.fromkeys((*self.slips(reference), *self.suggestions(reference)))
        return UnknownReference(collection, reference, tuple(near)[:MOST_SUGGESTIONS])

    def slips(self, reference: str) -> tuple[str, ...]:
        """Ids of entries whose name one slip of the hand makes of what was typed.

        That is a letter more, less or other than meant, or two in each other's place: those first,
        as they are the surest, and a letter too many last.
        """
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        typed = reference[:_LONGEST_COMPARED].casefold()
        if len(typed) < _LEAST_SLIPPED:
            return ()
        near = process.extract(
            typed, list(self._exact), scorer=OSA.distance, score_cutoff=1, limit=None
        )

        def unlikely(name: str) -> tuple[bool, int, str]:
            return sorted(name) != sorted(typed), _OF_LENGTH[len(name) - len(typed)], name

        ordered = sorted((name for name, _, _ in near), key=unlikely)
        return tuple(dict.fromkeys(self._exact[name] for name in ordered))

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
                whole = _plain(city)
                # Santiago de Querétaro goes by its first word, too.
                for name in {whole, whole.split(" ")[0]}:
                    if name == whole or len(name) >= _SHORT:
                        self._cities.setdefault(name, []).append(entry_id)

    def suggestions(self, reference: str) -> tuple[str, ...]:
        """Ids of regions in a city, or by a name, that is spelt or sounds alike; the nearest first.

        Behind a provider's name ("gcp/us-chicago-1"), its own regions come first, then those of
        other providers in a city that is named, then its own with the same beginning. None where
        nothing is near: a place that merely shares letters is no help.
        """
        typed = _plain(reference[:_LONGEST_COMPARED])
        provider, slash, place = typed.partition("/")
        own = {id_ for id_ in self._ids if slash and _plain(id_).startswith(f"{provider}/")}
        words = [word for word in _WORD.findall(place or typed) if len(word) >= _SHORT]
        cities = [id_ for word in words for id_ in _alike_places(word, self._cities)]
        if not own:
            return _first(_alike_places(typed, self._names()) or cities)
        spelt = _alike_places(place, self._names_of(own))
        begun = f"{provider}/{re.split('[-_]', place)[0]}-"
        return _first(
            [
                *(id_ for id_ in cities if id_ in own),
                *spelt,
                *cities,
                *(sorted(id_ for id_ in own if _plain(id_).startswith(begun)) if not spelt else ()),
            ]
        )

    def _names_of(self, own: Collection[str]) -> Mapping[str, Sequence[str]]:
        """Names of some places without their provider, with the ids that go by them."""
        names = {_plain(id_).partition("/")[2]: [id_] for id_ in own}
        for name, ids in self._names().items():
            kept = [id_ for id_ in ids if id_ in own]
            if kept and "/" not in name:
                names.setdefault(name, []).extend(kept)
        return names

    def _names(self) -> Mapping[str, Sequence[str]]:
        """All names of places, with the ids that go by them."""
        names = {name: list(ids) for name, ids in self._cities.items()}
        for name, entry_id in self._exact.items():
            names.setdefault(_plain(name), []).append(entry_id)
        return names


def _first(ids: Iterable[str]) -> tuple[str, ...]:
    """As many as are suggested, each once."""
    return tuple(dict.fromkeys(ids))[:MOST_SUGGESTIONS]


def _alike_places(typed: str, names: Mapping[str, Sequence[str]]) -> list[str]:
    """Ids of the places whose names are most like what was typed, by letters or by sound."""
    from rapidfuzz import fuzz

    sound = _sound(typed)
    scored = [
        (max(fuzz.ratio(typed, name), fuzz.ratio(sound, _sound(name))), name) for name in names
    ]
    best = max((score for score, _ in scored), default=0.0)
    alike = _LEAST_PLACE if len(typed) >= _SHORT else _LEAST_SHORT
    least = max(alike, best - _PLACE_BEHIND)
    ordered = sorted((one for one in scored if one[0] >= least), key=lambda one: (-one[0], one[1]))
    return [id_ for _, name in ordered for id_ in names[name]]


def _sound(name: str) -> str:
    """About how a plain name sounds: letters for the same sound as one, doubled ones once."""
    for spelt, heard in _SOUNDS:
        name = name.replace(spelt, heard)
    return _DOUBLED.sub(r"\1", name.replace("h", ""))


def _plain(name: str) -> str:
    """A name without accents and case."""
    return normalize("NFKD", name).encode("ascii", "ignore").decode().casefold().strip()


def _similar(reference: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Ids of the nearest of some names."""
    from rapidfuzz import fuzz, process, utils

    typed = utils.default_process(reference[:_LONGEST_COMPARED])
    nearest = process.extract(
        typed,
        list(names),
        scorer=fuzz.WRatio,
        processor=utils.default_process,
        limit=_MOST_COMPARED,
        score_cutoff=_LEAST_SCORE,
    )

    def word_apart(name: str) -> float:
        """How far what was typed is from the nearest word: it is in many that mean others."""
        return -max(fuzz.ratio(typed, word) for word in utils.default_process(name).split() or "-")

    if typed.isalpha():
        # One word is meant by names that have it, else by those that have one like it.
        least = min((word_apart(name) for name, _, _ in nearest), default=0.0)
        alike = -_LEAST_WORD if least > -_WHOLE_WORD else -_WHOLE_WORD
        nearest = [one for one in nearest if one[1] >= _SURE or word_apart(one[0]) <= alike]
    ordered = sorted(nearest, key=lambda one: (-round(one[1]), word_apart(one[0]), len(one[0])))
    return tuple(dict.fromkeys(names[name] for name, _, _ in ordered))[:MOST_SUGGESTIONS]


def loosened(name: str) -> str:
    """A name without case, hyphens, underscores, colons and spaces."""
    return name.casefold().translate(_SEPARATORS)


def _hyphened(name: str) -> str:
    """A name without case, and with hyphens between its words."""
    return name.casefold().translate(_HYPHENS)


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
