"""Files that change the catalog: what they want changed, and where each part of it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import orjson
import yaml

from service.catalog.entries.checks import Schemas
from service.catalog.entries.documents import (
    COLLECTIONS,
    CatalogError,
    Document,
    DocumentInvalid,
    canonical,
    escape,
)
from service.catalog.exchange.positions import (
    FileError,
    FileUnreadable,
    Positions,
    check_yaml,
    json_positions,
    nearest,
    yaml_positions,
)
from service.catalog.exchange.tables import read_table
from service.catalog.files import Yaml
from service.core.errors import InvalidInput

Form: TypeAlias = Literal["yaml", "json", "csv"]

#: Beside the collections, the part of a file that lists ids of entries to be removed.
REMOVED = "remove"


class FileInvalid(InvalidInput):
    """A file that cannot be brought in, with everything that is wrong with it."""

    def __init__(self, errors: Iterable[FileError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(_line(error) for error in self.errors))


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """What a file wants changed.

    ``entries`` holds documents by collection and id, None for those to be removed; ``pointers``
    says where in the file each of them stands, and ``positions`` where a pointer is found.
    """

    entries: Mapping[tuple[str, str], Document | None]
    pointers: Mapping[tuple[str, str], str]
    positions: Positions

    def located(self, errors: Iterable[CatalogError]) -> FileInvalid:
        """What is wrong with the catalog after the change, at the places in this file."""
        found = []
        for error in errors:
            pointer = self.pointers.get((error.collection, error.entry_id))
            if pointer is None:
                found.append(FileError("", f"this would break another entry: {error}", None))
            else:
                pointer += error.pointer
                found.append(FileError(pointer, error.detail, nearest(self.positions, pointer)))
        return FileInvalid(found)


def read_catalog_file(
    content: bytes, form: Form, collection: str | None, schemas: Schemas
) -> CatalogFile:
    """Read a file of entries.

    Parameters
    ----------
    content
        The file in UTF-8: a list of entries, or for YAML and JSON also an object of such lists by
        collection, in which ``remove`` holds lists of ids.
    form
        What it is written in.
    collection
        Where the entries of a list or a table belong.
    schemas
        Schemas by collection.

    Raises
    ------
    FileInvalid
        With everything that is wrong with its form; what the catalog says to it is not known yet.
    """
    try:
        text = content.decode("utf-8-sig")
        if "\0" in text:
            raise FileUnreadable("a NUL character cannot be stored")
        parsed, positions, errors = _parsed(text, form, collection, schemas)
        lists = _by_collection(parsed, collection, positions)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileInvalid([FileError("", "is not UTF-8 text", (line, 1))]) from None
    except FileUnreadable as unreadable:
        raise FileInvalid([unreadable.error]) from None

    entries: dict[tuple[str, str], Document | None] = {}
    pointers: dict[tuple[str, str], str] = {}
    for name, pointer, listed in lists:
        for at, given in enumerate(listed):
            place = f"{pointer}/{at}"
            entry_id, document, detail = _entry(given, removed=pointer.startswith(f"/{REMOVED}/"))
            if detail is None and (name, entry_id) in entries:
                detail = f"the entry occurs twice; first at {pointers[name, entry_id]}"
            if detail is not None:
                errors.append(FileError(place, detail, nearest(positions, place)))
                continue
            try:
                entries[name, entry_id] = None if document is None else canonical(document, place)
            except DocumentInvalid as invalid:
                at_fault = nearest(positions, invalid.pointer)
                errors.append(FileError(invalid.pointer, invalid.detail, at_fault))
            pointers[name, entry_id] = place
    if not entries and not errors:
        errors.append(FileError("", "it is empty", None))
    if errors:
        raise FileInvalid(errors)
    return CatalogFile(entries, pointers, positions)


def _parsed(
    text: str, form: Form, collection: str | None, schemas: Schemas
) -> tuple[Any, Positions, list[FileError]]:
    if form == "csv":
        if collection is None or collection not in schemas:
            raise FileUnreadable("a table needs the name of its collection")
        return read_table(text, schemas[collection])
    if form == "json":
        try:
            parsed = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise FileUnreadable(error.msg, (error.lineno, error.colno)) from None
        return parsed, json_positions(text), []
    loader = Yaml(text)
    try:
        check_yaml(yaml.parse(text, Loader=Yaml))
        node = loader.get_single_node()
        if node is None:
            return None, {}, []
        positions = yaml_positions(node)
        return loader.construct_document(node), positions, []
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = None if mark is None else (mark.line + 1, mark.column + 1)
        raise FileUnreadable(error.problem or "is not valid YAML", at) from None
    except FileUnreadable:
        raise
    except (yaml.YAMLError, ValueError) as error:
        # Python reads no number of thousands of digits.
        raise FileUnreadable(f"is not valid YAML: {error}"[:300]) from None
    finally:
        loader.dispose()


def _by_collection(
    parsed: Any, collection: str | None, positions: Positions
) -> list[tuple[str, str, list[Any]]]:
    """Lists of entries with their collection and their pointer in the file."""
    if isinstance(parsed, list):
        if collection is None:
            raise FileUnreadable("a list needs the name of its collection")
        return [(collection, "", parsed)]
    if not isinstance(parsed, dict):
        raise FileUnreadable("must be a list of entries, or lists by collection")
    if "id" in parsed and collection is not None:
        raise FileUnreadable("a single entry must be in a list, too", (1, 1))
    lists = []
    for name, listed in parsed.items():
        if name == REMOVED and isinstance(listed, dict):
            lists += [
                (of, f"/{REMOVED}/{escape(of)}", _checked(of, ids, f"/{REMOVED}", positions))
                for of, ids in listed.items()
            ]
        else:
            lists.append((name, f"/{escape(name)}", _checked(name, listed, "", positions)))
    return lists


def _checked(name: Any, listed: Any, around: str, positions: Positions) -> list[Any]:
    pointer = f"{around}/{escape(name)}"
    if name not in COLLECTIONS:
        known = ", ".join((*COLLECTIONS, REMOVED))
        detail = f"no such collection (known: {known})"
        raise FileUnreadable(detail, nearest(positions, pointer), pointer)
    if not isinstance(listed, list):
        raise FileUnreadable("must be a list", nearest(positions, pointer), pointer)
    return listed


def _entry(given: Any, *, removed: bool) -> tuple[str, Document | None, str | None]:
    """Id and document of an item, and what is wrong with it if anything is."""
    if removed:
        if isinstance(given, str):
            return given, None, None
        return "", None, "must be the id of an entry"
    if not isinstance(given, dict):
        return "", None, "must be an entry"
    entry_id = given.get("id")
    if not isinstance(entry_id, str) or not entry_id:
        return "", None, "every entry needs an id"
    return entry_id, given, None


def _line(error: FileError) -> str:
    where = "" if error.position is None else "line {}, column {}: ".format(*error.position)
    return f"{where}{error.pointer or 'the file'}: {error.detail}"
