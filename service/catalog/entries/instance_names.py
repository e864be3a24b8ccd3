"""Finding an instance by what people and their clouds' pages call it.

Azure writes "ND H100 v5" of the series that Standard_ND96isr_H100_v5 is of, a user of AWS "p5en"
and one of Lambda "8x H100".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from service.catalog.entries.references import MOST_CANDIDATES, ReferenceIndex

_WORD = re.compile(r"[a-z0-9]+")
#: How many, written together with what: "8xh100".
_NUMBER_OF = re.compile(r"\b(\d+x)(?=[a-z]+\d)")
#: A size that names its series by the letters around its number: ND96isr is an ND and an NDisr.
_SIZED = re.compile(r"([a-z]+)\d+([a-z]+)")
_LONGEST_NAME = 200


class InstanceIndex(ReferenceIndex):
    """Ids, aliases and names of instances.

    What is not found as in every collection is looked up by its words: those instances are meant
    that have them all, in their name or in that of their series. Words without any number say too
    little, and so do words that more instances have than anybody reads.
    """

    def __init__(self, entries: Mapping[str, Iterable[str]], names: Mapping[str, str]) -> None:
        """Index ``entries``, the aliases by id, and their ``names``."""
        kept = {entry_id: tuple(aliases) for entry_id, aliases in entries.items()}
        super().__init__(kept)
        self._told = {id_: (id_, *kept[id_], names.get(id_, "")) for id_ in kept}

    def could_be(self, reference: str) -> tuple[str, ...]:
        """Ids of all instances that somebody who wrote the name could mean, in order."""
        return self.candidates(reference) or self._with_words(reference)

    def _with_words(self, reference: str) -> tuple[str, ...]:
        written = _NUMBER_OF.sub(r"\1 ", reference[:_LONGEST_NAME].casefold())
        typed = frozenset(_WORD.findall(written))
        if not any(map(str.isdigit, "".join(typed))):
            return ()
        found = sorted(id_ for id_, words in self._words.items() if typed <= words)
        return tuple(found) if len(found) <= MOST_CANDIDATES else ()

    @cached_property
    def _words(self) -> Mapping[str, frozenset[str]]:
        return {id_: frozenset(_words_of(" ".join(told))) for id_, told in self._told.items()}


def _words_of(name: str) -> Iterable[str]:
    """Words of a name, and the series that they are of."""
    for word in _WORD.findall(name.casefold()):
        yield word
        sized = _SIZED.fullmatch(word)
        if sized is not None:
            yield from (sized[1], sized[1] + sized[2])
