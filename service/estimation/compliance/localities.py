"""Counties and towns by what people call them, among those that rules name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from unicodedata import normalize

from service.catalog.entries.entry import Entry
from service.core.compliance import Rule
from service.core.deployment import Region

#: What a caller gives for a place without rules of its own.
NO_LOCALITY = "none"

LOCALITY = "locality"
_STATE = "state/"
#: Words that say what kind of place it is, not which.
_KINDS = frozenset(
    {"county", "city", "town", "municipality", "district", "of", "the", "am", "main"}
)
_MOST_SUGGESTED = 5
_LEAST_ALIKE = 0.5


@dataclass(frozen=True, slots=True)
class Locality:
    """A place as rules name it; ``id`` is None where it is none of theirs, or not clear which.

    ``near`` are those that it could be.
    """

    id: str | None
    near: tuple[str, ...] = ()


def localities(rules: Iterable[Rule]) -> tuple[str, ...]:
    """All counties and towns that rules name, in order."""
    return tuple(
        sorted(
            {
                str(condition.value)
                for rule in rules
                for condition in (*rule.applies, *rule.requires)
                if condition.fact == LOCALITY
            }
        )
    )


def locality_of(asked: str, known: Iterable[str], states: Mapping[str, str]) -> Locality:
    """The place that is meant.

    Parameters
    ----------
    asked
        What a caller writes, such as ``Fairfax County, Virginia``; `NO_LOCALITY` for none.
    known
        Places that rules name, such as ``fairfax-va``.
    states
        Abbreviations of states by their names in lower case.
    """
    if asked.strip().casefold() == NO_LOCALITY:
        return Locality(NO_LOCALITY)
    ids = {one: _words(one, {}) for one in known}
    words = _words(asked, states)
    tells = not words <= set(states.values())
    found = [one for one, own in ids.items() if tells and (words <= own or own <= words)]
    if len(found) == 1:
        return Locality(found[0])
    alike = get_close_matches(
        "-".join(sorted(words)),
        ["-".join(sorted(own)) for own in ids.values()],
        n=_MOST_SUGGESTED,
        cutoff=_LEAST_ALIKE,
    )
    near = [one for one, own in ids.items() if "-".join(sorted(own)) in alike]
    return Locality(None, tuple(found or near or ids)[:_MOST_SUGGESTED])


def states_by_name(regions: Mapping[str, Entry[Region]]) -> dict[str, str]:
    """Abbreviations of the states that the catalog has, by their names in lower case."""
    return {
        str(entry.document["name"]).partition(" (")[0].casefold(): id_.rpartition("-")[2].casefold()
        for id_, entry in regions.items()
        if id_.startswith(_STATE)
    }


def _words(text: str, states: Mapping[str, str]) -> frozenset[str]:
    """Words that tell a place from others, with states abbreviated."""
    plain = normalize("NFKD", text).encode("ascii", "ignore").decode().casefold()
    for name, short in states.items():
        plain = re.sub(rf"\b{re.escape(name)}$", short, plain.strip())
    return frozenset(re.findall(r"[a-z0-9]+", plain)) - _KINDS
