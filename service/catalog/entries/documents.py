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
    "offers",
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


class Canonical(dict[str, Any]):
    """An object that is in canonical form already, so that nobody looks through it again.

    It is never changed, and so keeps what was found out about it: ``digest``, its hash, None until
    somebody asks, and ``meets``, that of the schema that it was last found to meet. Copies start
    anew.
    """

    digest: str | None = None
    meets: str | None = None

    def __reduce__(self) -> tuple[type[Canonical], tuple[dict[str, Any]]]:
        return Canonical, (dict(self),)


class _Flaw(InvalidInput):
    """What is wrong with a part of a value; its place is put together on the way up."""

    def __init__(self, detail: str, *, of_key: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.of_key = of_key
        self.path: list[object] = []


def canonical(value: Any, pointer: str = "") -> Any:
    """A JSON value in the one form that survives files, databases and clients alike.

    Whole numbers that a double holds exactly become integers and larger ones floats, so that
    ``80.0`` and ``80`` are the same document wherever it has been. Errors are placed below
    ``pointer``.

    Raises
    ------
    DocumentInvalid
        If the value is no JSON, is nested too deeply, or holds NaN, an infinity or a NUL
        character, none of which a JSONB column can keep.
    """
    if isinstance(value, Canonical):
        return value
    try:
        return _canonical(value, 0)
    except _Flaw as flaw:
        path = "".join(f"/{escape(part)}" for part in reversed(flaw.path))
        raise DocumentInvalid(pointer + path, flaw.detail) from None


def _canonical(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise _Flaw(f"nested more than {_MAX_DEPTH} levels deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        return _number(value)
    at: object = None
    try:
        if isinstance(value, Mapping):
            held = {}
            for at, item in value.items():
                held[_key(at)] = _canonical(item, depth + 1)
            return held
        if isinstance(value, (list, tuple)):
            listed: list[Any] = []
            for item in value:
                at = len(listed)
                listed.append(_canonical(item, depth + 1))
            return listed
    except _Flaw as flaw:
        if not flaw.of_key:
            flaw.path.append(at)
        flaw.of_key = False
        raise
    raise _Flaw(f"{type(value).__name__} is not a JSON value")


def canonical_set(documents: DocumentSet) -> DocumentSet:
    """The documents in canonical form, and those that have none as they are."""
    return {
        collection: {entry_id: _in_form(document) for entry_id, document in entries.items()}
        for collection, entries in documents.items()
    }


def _in_form(document: Document) -> Document:
    try:
        held = canonical(document)
        return held if isinstance(held, Canonical) else Canonical(held)
    except DocumentInvalid:
        return document


def canonical_bytes(document: Document) -> bytes:
    """The document as JSON with sorted keys: equal documents have equal bytes."""
    return orjson.dumps(canonical(document), option=orjson.OPT_SORT_KEYS)


def document_hash(document: Document) -> str:
    """SHA-256 of the canonical bytes, in hexadecimal."""
    if not isinstance(document, Canonical):
        return sha256(canonical_bytes(document)).hexdigest()
    if document.digest is None:
        document.digest = sha256(canonical_bytes(document)).hexdigest()
    return document.digest


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


def _key(value: object) -> str:
    if not isinstance(value, str):
        raise _Flaw("keys must be strings", of_key=True)
    try:
        return _text(value)
    except _Flaw as flaw:
        flaw.of_key = True
        raise


def _text(value: str) -> str:
    if "\0" in value:
        raise _Flaw("a NUL character cannot be stored")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Flaw("a lone surrogate is not Unicode text") from None
    return value


def _number(value: float) -> int | float:
    if isinstance(value, int) and abs(value) < _EXACT_INTEGERS:
        return value
    try:
        number = float(value)
    except OverflowError:
        raise _Flaw("the number is too large") from None
    if not isfinite(number):
        raise _Flaw("must be a finite number")
    if number.is_integer() and abs(number) < _EXACT_INTEGERS:
        return int(number)
    return number
