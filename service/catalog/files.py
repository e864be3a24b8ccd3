"""Reading the reviewed catalog files, with everything that is wrong with them at once."""

from __future__ import annotations

import csv
import gc
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import yaml

from service.cached_files import cache_home, forget_all_but_latest, write_whole
from service.catalog.entries.checks import Schemas, check_documents, known_to_meet, schemas_from
from service.catalog.entries.documents import (
    Canonical,
    CatalogError,
    CatalogInvalid,
    Document,
    DocumentInvalid,
    DocumentSet,
    canonical,
    canonical_set,
)
from service.catalog.entries.specs import FIGURES, with_figures
from service.settings import INSTALLATION

_INSTALLED = INSTALLATION / "hardware_catalog"
#: Installations whose catalogs are kept, each in 3 MB: those that were used last.
_MOST_KEPT = 8

#: Folder of the files of each collection.
FOLDERS: Mapping[str, str] = {
    "accelerators": "accelerators",
    "platforms": "platforms",
    "models": "models",
    "regions": "regions",
    "memory-tiers": "memory_tiers",
    "interconnects": "interconnects",
    "instances": "instances",
    "offers": "offers",
    "engines": "engines",
    "rules": "rules",
    "sources": "sources",
    "calibrations": "calibration",
}
#: Folder of texts that belong to the engine: they are checked like the catalog's documents, but
#: are no part of its revisions.
TEXT_FOLDERS: Mapping[str, str] = {
    "techniques": "techniques",
    "claims": "claims",
    "region-groups": "region_groups",
    "hourly-profiles": "hourly_profiles",
}


@dataclass(frozen=True, slots=True)
class CatalogFiles:
    """What the files of a catalog directory say.

    ``places`` names the file of each document by collection and id, and ``errors`` holds what
    could not be read at all.
    """

    documents: DocumentSet
    places: Mapping[tuple[str, str], str]
    errors: tuple[CatalogError, ...]


def packaged_documents(directory: Path) -> DocumentSet:
    """The documents of a catalog directory, read and checked together with its texts.

    That takes a second, so what came of the installed catalog is kept, and serves until its files
    or the code that reads and checks them differ by a byte.

    Raises
    ------
    CatalogInvalid
        With every error in every file.
    """
    with _all_kept():
        return _packaged(directory)


@contextmanager
def _all_kept() -> Iterator[None]:
    """Spare the search for garbage while all that is made is kept: it takes a third of the time."""
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searched:
            gc.enable()


def _packaged(directory: Path) -> DocumentSet:
    if directory != _INSTALLED:
        return _documents(directory)
    digest = _digest()
    name = sha256(bytes(_INSTALLED)).hexdigest()[:16]
    kept = cache_home() / "catalog" / f"{name}.json"
    with suppress(OSError, ValueError):
        held, _, content = kept.read_bytes().partition(b"\n")
        if held == digest:
            loaded: DocumentSet = orjson.loads(content)
            documents: DocumentSet = {
                collection: {entry_id: Canonical(entry) for entry_id, entry in entries.items()}
                for collection, entries in loaded.items()
            }
            known_to_meet(documents, _schemas(directory))
            with suppress(OSError):
                os.utime(kept)
            return documents
    documents = _documents(directory)
    with suppress(OSError):
        write_whole(kept, digest + b"\n" + orjson.dumps(documents))
        forget_all_but_latest(kept.parent, _MOST_KEPT)
    return documents


def _documents(directory: Path) -> DocumentSet:
    checked = checked_files(directory)
    documents = canonical_set({collection: checked[collection] for collection in FOLDERS})
    known_to_meet(documents, _schemas(directory))
    return documents


def _digest() -> bytes:
    """Of all that the installed catalog's documents follow from: its files, and our code."""
    whole = sha256()
    code = INSTALLATION / "service"
    for folder, pattern in (
        (_INSTALLED, "**/*.yaml"),
        (_INSTALLED / FOLDERS["offers"], "*.csv"),
        (_INSTALLED / "schema", "*.json"),
        (code / "catalog", "**/*.py"),
        (code / "core", "**/*.py"),
    ):
        for path in sorted(folder.glob(pattern)):
            content = path.read_bytes()
            whole.update(f"{path}\0{len(content)}\0".encode())
            whole.update(content)
    return whole.hexdigest().encode()


def checked_files(directory: Path) -> DocumentSet:
    """The documents and texts of a catalog directory, read and checked.

    Raises
    ------
    CatalogInvalid
        With every error in every file.
    """
    files = read_files(directory, {**FOLDERS, **TEXT_FOLDERS})
    found = check_documents(files.documents, read_schemas(directory))
    located = [
        replace(error, file=files.places.get((error.collection, error.entry_id), ""))
        for error in found
    ]
    if files.errors or located:
        raise CatalogInvalid([*files.errors, *located])
    return files.documents


def read_files(directory: Path, folders: Mapping[str, str] = FOLDERS) -> CatalogFiles:
    """All documents of folders of a catalog, in canonical form but otherwise unchecked."""
    documents: dict[str, dict[str, Document]] = {}
    places: dict[tuple[str, str], str] = {}
    errors: list[CatalogError] = []
    for collection, folder in folders.items():
        held = documents.setdefault(collection, {})
        for path in sorted((directory / folder).glob("*.yaml")):
            file = f"{folder}/{path.name}"
            try:
                listed = _listed(canonical(yaml.load(path.read_bytes(), Loader=Yaml)))  # noqa: S506
            except (yaml.YAMLError, DocumentInvalid) as error:
                errors.append(CatalogError(collection, "", "", str(error), file))
                continue
            for position, document in enumerate(listed):
                entry_id = document.get("id") if isinstance(document, dict) else None
                if not isinstance(entry_id, str):
                    detail = "every entry needs an id"
                    errors.append(CatalogError(collection, "", f"/{position}", detail, file))
                elif entry_id in held:
                    detail = f"the id is taken by {places[collection, entry_id]}"
                    errors.append(CatalogError(collection, entry_id, "/id", detail, file))
                else:
                    held[entry_id] = document
                    places[collection, entry_id] = file
        for path in sorted((directory / folder).glob("*.csv") if collection == "offers" else ()):
            file = f"{folder}/{path.name}"
            try:
                held[path.stem] = _offers(path)
                places[collection, path.stem] = file
            except (UnicodeDecodeError, csv.Error, DocumentInvalid) as error:
                errors.append(CatalogError(collection, path.stem, "", str(error), file))
    return CatalogFiles(documents, places, tuple(errors))


def _offers(path: Path) -> Document:
    """The document of a table of offers, whose name is that of the provider.

    Raises
    ------
    UnicodeDecodeError, csv.Error
        If it is no table.
    DocumentInvalid
        If a value cannot be kept.
    """
    with path.open(newline="", encoding="utf-8") as table:
        columns, *rows = [*csv.reader(table, strict=True)] or [[]]
    price = columns.index("usd_per_hour") if "usd_per_hour" in columns else 0
    return canonical(  # type: ignore[no-any-return]
        {
            "id": path.stem,
            "columns": columns,
            "rows": [
                [_cell(cell) if at == price else cell for at, cell in enumerate(row)]
                for row in rows
            ],
        }
    )


def _cell(text: str) -> float | str | None:
    """A price, None where there is none, and what is no number as it stands."""
    if not text:
        return None
    with suppress(ValueError):
        return float(text)
    return text


def read_schemas(directory: Path) -> Schemas:
    """The JSON Schemas beside the files, by collection."""
    return schemas_from(_schemas(directory))


def _schemas(directory: Path) -> dict[str, Any]:
    return {
        path.name.removesuffix(".schema.json"): orjson.loads(path.read_bytes())
        for path in sorted((directory / "schema").glob("*.schema.json"))
    }


def declared_schemas(directory: Path) -> Iterator[tuple[Path, str]]:
    """The files of the JSON Schemas with declared figures, and what they are to say."""
    for collection in FIGURES:
        path = directory / "schema" / f"{collection}.schema.json"
        schema = with_figures(collection, orjson.loads(path.read_bytes()))
        yield path, json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _listed(content: Any) -> list[Any]:
    if content is None:
        return []
    return content if isinstance(content, list) else [content]


class Yaml(yaml.CSafeLoader):
    """YAML as its 1.2 core schema reads it, the only tags being those of JSON.

    PyYAML follows version 1.1, in which the country NO is false, 2026-11-20 is no text, 1e9 is no
    number, 1:30 is ninety, and of two equal keys the last one silently wins.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """An object, whose keys are plain texts that stand once."""
        seen: set[str] = set()
        for key, _ in node.value:
            fault = None
            if not isinstance(key, yaml.ScalarNode):
                fault = "a key must be plain text"
            elif key.value in seen:
                fault = f"the key {key.value!r:.80} occurs twice"
            if fault is not None:
                raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


Yaml.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|)$"), ["~", "n", ""])
Yaml.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), ["t", "f"])
Yaml.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789")
)
Yaml.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)
