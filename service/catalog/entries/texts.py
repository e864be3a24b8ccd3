"""Techniques, claims and groups of regions: packaged with the engine, beside the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from service.catalog.entries.documents import CatalogInvalid, Document
from service.catalog.entries.references import PlaceIndex, ReferenceIndex
from service.catalog.files import FOLDERS, TEXT_FOLDERS, read_files
from service.settings import INSTALLATION

#: Kinds whose texts are of places, which are only suggested where they look or sound alike.
_OF_PLACES = frozenset(("region-groups",))


@dataclass(frozen=True, slots=True)
class Text:
    """A text with the sources that it cites."""

    fields: Document
    sources: tuple[Document, ...]


class Texts:
    """Texts of one kind by id, in the order of their files."""

    def __init__(self, kind: str, texts: Mapping[str, Text]) -> None:
        self._kind = kind
        names = {text_id: text.fields.get("aliases", ()) for text_id, text in texts.items()}
        self._index = PlaceIndex(names, {}) if kind in _OF_PLACES else ReferenceIndex(names)
        self.by_id = texts

    def known(self, name: str) -> str | None:
        """The id that a name means, or None where it means none."""
        return self._index.find(name)

    def find(self, name: str) -> str:
        """The id that a name means: an id or an alias.

        Raises
        ------
        UnknownReference
            If there is none, with the ids nearest to it.
        """
        found = self.known(name)
        if found is None:
            raise self._index.unfound(self._kind, name)
        return found


@cache
def packaged_texts() -> Mapping[str, Texts]:
    """The texts of techniques and claims, and groups of regions, as installed.

    Raises
    ------
    CatalogInvalid
        If a file cannot be read.
    """
    folders = {**TEXT_FOLDERS, "sources": FOLDERS["sources"]}
    files = read_files(INSTALLATION / "hardware_catalog", folders)
    if files.errors:
        raise CatalogInvalid(files.errors)
    sources = files.documents["sources"]
    return {
        kind: Texts(
            kind,
            {
                text_id: Text(fields, tuple(sources[id_] for id_ in fields.get("sources", ())))
                for text_id, fields in files.documents[kind].items()
            },
        )
        for kind in TEXT_FOLDERS
    }
