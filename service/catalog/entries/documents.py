"""Catalog documents: plain JSON values, their canonical bytes and their hashes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from typing import Any, TypeAlias

import orjson

from service.core.errors import InvalidInput

#: One entry of the catalog as JSON: what is reviewed, stored and served.
Document: TypeAlias = Mapping[str, Any]
#: Documents by collection and id.
DocumentSet: TypeAlias = Mapping[str, Mapping[str, Document]]

COLLECTIONS = (
    "accelerators",
    "platforms",
    "models",
    "regions",
    "memory-tiers",
    "interconnects",
    "instances",
    "engines",
    "rules",
    "sources",
    "calibrations",
)

#: Above this, a double no longer tells whole numbers apart, and JSON parsers disagree about type.
_EXACT_INTEGERS = 2**53
_MAX_DEPTH = 32


class DocumentInvalid(InvalidInput):
    """A document that is not what it should be.

    Parameters
    ----------
    pointer
        JSON pointer (RFC 6901) to the part at fault, "" for the whole.
    detail
        What is wrong with it, for a person to read.
    """

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(f"{pointer or '/'}: {detail}")
        self.pointer = pointer
        self.detail = detail


@dataclass(frozen=True, slots=True)
class CatalogError:
    """One thing wrong with one entry; ``file`` is "" for documents that came from elsewhere."""

    collection: str
    entry_id: str
    pointer: str
    detail: str
    file: str = ""

    def __str__(self) -> str:
        place = f"{self.file}: " if self.file else ""
        return f"{place}{self.collection} {self.entry_id} {self.pointer or '/'}: {self.detail}"


class CatalogInvalid(InvalidInput):
    """Documents that make no catalog, with everything that is wrong with them."""

    def __init__(self, errors: Iterable[CatalogError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


def canonical(value: Any, pointer: str = "", depth: int = 0) -> Any:
    """A JSON value in the one form that survives files, databases and clients alike.

    Whole numbers that a double holds exactly become integers and larger ones floats, so that
    ``80.0`` and ``80`` are the same document wherever it has been.

    Raises
    ------
    DocumentInvalid
        If the value is no JSON, is nested too deeply, or holds NaN, an infinity or a NUL
        character, none of which a JSONB column can keep.
    """
    if depth > _MAX_DEPTH:
        raise DocumentInvalid(pointer, f"nested more than {_MAX_DEPTH} levels deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, pointer)
    if isinstance(value, (int, float)):
        return _number(value, pointer)
    if isinstance(value, Mapping):
        return {
            _text(key, pointer): canonical(item, f"{pointer}/{escape(key)}", depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [
            canonical(item, f"{pointer}/{position}", depth + 1)
            for position, item in enumerate(value)
        ]
    raise DocumentInvalid(pointer, f"{type(value).__name__} is not a JSON value")


def canonical_bytes(document: Document) -> bytes:
    """The document as JSON with sorted keys: equal documents have equal bytes."""
    return orjson.dumps(canonical(document), option=orjson.OPT_SORT_KEYS)


def document_hash(document: Document) -> str:
    """SHA-256 of the canonical bytes, in hexadecimal."""
    return sha256(canonical_bytes(document)).hexdigest()


def content_hash(hashes: Mapping[tuple[str, str], str]) -> str:
    """Hash of a whole catalog, from its documents' hashes by collection and id."""
    whole = sha256()
    for (collection, entry_id), digest in sorted(hashes.items()):
        whole.update(f"{collection}\0{entry_id}\0{digest}\n".encode())
    return whole.hexdigest()


def hashes_of(documents: DocumentSet) -> dict[tuple[str, str], str]:
    """Hash of every document of a set, by collection and id."""
    return {
        (collection, entry_id): document_hash(document)
        for collection, entry_id, document in every_document(documents)
    }


def every_document(documents: DocumentSet) -> Iterator[tuple[str, str, Document]]:
    """Collection, id and document of everything in a set."""
    for collection, entries in documents.items():
        for entry_id, document in entries.items():
            yield collection, entry_id, document


def escape(key: object) -> str:
    """A key as one segment of a JSON pointer."""
    return str(key).replace("~", "~0").replace("/", "~1")


def _text(value: object, pointer: str) -> str:
    if not isinstance(value, str):
        raise DocumentInvalid(pointer, "keys must be strings")
    if "\0" in value:
        raise DocumentInvalid(pointer, "a NUL character cannot be stored")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DocumentInvalid(pointer, "a lone surrogate is not Unicode text") from None
    return value


def _number(value: float, pointer: str) -> int | float:
    if isinstance(value, int) and abs(value) < _EXACT_INTEGERS:
        return value
    try:
        number = float(value)
    except OverflowError:
        raise DocumentInvalid(pointer, "the number is too large") from None
    if not isfinite(number):
        raise DocumentInvalid(pointer, "must be a finite number")
    if number.is_integer() and abs(number) < _EXACT_INTEGERS:
        return int(number)
    return number
