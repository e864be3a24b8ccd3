"""Files of measurements: one JSON document a line, whoever wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from service.catalog.snapshot import CatalogSnapshot
from service.core.errors import InvalidInput
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.imports.reading import Content, FileRefused
from service.estimation.measurements.imports.registry import recognised
from service.estimation.measurements.understood import NotUnderstood, understood

#: Ending of the files that are read in a folder.
SUFFIX = ".jsonl"
#: A file of a folder that says who published the others' measurements, and holds none itself.
SOURCES = "sources.jsonl"
LARGEST_FILE_BYTES = 64 * 1024 * 1024
LARGEST_LINE_BYTES = 1024 * 1024
MOST_LINES = 100_000
MOST_FILES = 1_000
_DEEPEST = 32
#: What every document has.
_DOCUMENT = ("kind", "request", "measured")
#: What other files begin with.
_MAGIC: Mapping[bytes, str] = {
    b"\x1f\x8b": "gzip: unpack it first",
    b"\x28\xb5\x2f\xfd": "zstd: unpack it first",
    b"PK\x03\x04": "a ZIP archive or an office document",
    b"PAR1": "Parquet",
    b"%PDF": "a PDF document",
    b"GGUF": "a GGUF model",
    b"\xff\xfe": "text in UTF-16: save it as UTF-8",
    b"\xfe\xff": "text in UTF-16: save it as UTF-8",
}
#: Columns of the tables that were read before there was one form.
_OLD_COLUMNS = frozenset(("row_id", "metric", "value", "unit"))


class FileInvalid(InvalidInput):
    """A file that cannot be read as measurements, with the place."""

    def __init__(self, file: str, line: int | None, column: int | None, detail: str) -> None:
        place = file if line is None else f"{file}, line {line}"
        if column is not None:
            place = f"{place}, column {column}"
        super().__init__(f"{place}: {detail}")


class NotMeasurements(FileInvalid):
    """A file of another kind."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file: a document and what was done to understand it, or why it is refused."""

    number: int
    document: MeasurementDocument | None
    refusal: str | None
    warnings: tuple[str, ...]


def read_files(
    path: Path, snapshot: CatalogSnapshot, note: Callable[[str], object] | None = None
) -> dict[str, tuple[Line, ...]]:
    """All measurements of a file, or of a folder's files, by the file's name.

    Parameters
    ----------
    path
        A file, or a folder with files that end in ``.jsonl``.
    snapshot
        The catalog, which says what engines are known.
    note
        Takes a line about every file of a folder that is of another kind, and left out.

    Raises
    ------
    FileInvalid
        If there are no measurements, or a line of them is broken; then nothing is read.
    """
    if not path.exists():
        raise FileInvalid(str(path), None, None, "there is no such file or folder")
    if not path.is_dir():
        return {path.name: read_file(path, snapshot)}
    files = sorted(one for one in path.glob(f"*{SUFFIX}") if one.name != SOURCES)
    if not files:
        others = sorted(one.name for one in path.iterdir() if one.is_file())
        hint = ""
        if {"latency_inference.csv", "memory_inference.csv", "training_speed.csv"} & set(others):
            hint = "; tables with one number per row are no longer read"
        raise FileInvalid(str(path), None, None, f"there is no file ending in {SUFFIX}{hint}")
    if len(files) > MOST_FILES:
        raise FileInvalid(str(path), None, None, f"more than {MOST_FILES} files")
    found: dict[str, tuple[Line, ...]] = {}
    strange: list[NotMeasurements] = []
    for one in files:
        try:
            found[one.name] = read_file(one, snapshot)
        except NotMeasurements as other:
            strange.append(other)
    if not found:
        raise strange[0]
    if note is not None:
        for told in strange:
            note(f"left out: {told}")
    return found


def read_file(path: Path, snapshot: CatalogSnapshot) -> tuple[Line, ...]:
    """The measurements of one file.

    Raises
    ------
    FileInvalid
        If it is of another kind, saying which, or a line of it is broken, saying where.
    """
    return tuple(
        _line(number, given, snapshot) for number, given in _objects(path.name, _text(path))
    )


def _line(number: int, given: Mapping[str, Any], snapshot: CatalogSnapshot) -> Line:
    try:
        found = understood(given, snapshot)
    except NotUnderstood as reason:
        return Line(number, None, str(reason), ())
    return Line(number, found.document, None, found.warnings)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            _refuse(path.name, f"larger than {LARGEST_FILE_BYTES} bytes")
        data = path.read_bytes()
    except OSError as error:
        _refuse(path.name, error.strerror or "cannot be read")
    for magic, told in _MAGIC.items():
        if data.startswith(magic):
            _refuse(path.name, f"does not hold measurements; it looks like {told}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _refuse(path.name, f"not UTF-8 at byte {error.start}")


def _objects(file: str, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The JSON objects of all lines with their numbers; blank lines hold none."""
    lines = text.split("\n")
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        _refuse(file, "is empty")
    seems = _seems(text, first.strip())
    if seems is not None:
        _refuse(
            file, f"does not hold measurements, one JSON document a line; it looks like {seems}"
        )
    count = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        count += 1
        if count > MOST_LINES:
            raise FileInvalid(file, number, None, f"more than {MOST_LINES} documents")
        if len(line) > LARGEST_LINE_BYTES:
            raise FileInvalid(file, number, None, f"longer than {LARGEST_LINE_BYTES} characters")
        yield number, _object(file, number, line, first=count == 1)


def _object(file: str, number: int, line: str, *, first: bool) -> Mapping[str, Any]:
    try:
        value = json.loads(line, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise FileInvalid(file, number, error.colno, f"not JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        detail = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise FileInvalid(file, number, None, f"not JSON: {detail}") from None
    if not isinstance(value, dict):
        raise FileInvalid(file, number, 1, "must be a JSON object")
    if _depth(value) > _DEEPEST:
        raise FileInvalid(file, number, None, f"nested more than {_DEEPEST} levels deep")
    missing = [name for name in _DOCUMENT if name not in value]
    if missing:
        kind = NotMeasurements if first and len(missing) == len(_DOCUMENT) else FileInvalid
        raise kind(file, number, 1, f"no measurement: {', '.join(missing)} is missing")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _depth(value: Any) -> int:
    """How deep objects and lists are nested, counted no further than is allowed."""
    level, reached = [value], 0
    while level and reached <= _DEEPEST:
        reached += 1
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        level = [one for one in inner if isinstance(one, dict | list)]
    return reached


def _seems(text: str, first: str) -> str | None:
    """What a file of another kind seems to be; None where it may be measurements."""
    if first.startswith("["):
        return "a JSON array: write each of its documents in a line of its own"
    if first.startswith("{"):
        return _seems_json(text, first)
    if first.startswith("<"):
        return "XML or a web page"
    columns = {name.strip().strip('"').lower() for name in first.split(",")}
    if columns >= _OLD_COLUMNS:
        return "a table with one number per row, which is no longer read"
    return _seems_tool(text) or ("CSV" if len(columns) > 2 else None)


def _seems_json(text: str, first: str) -> str | None:
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        value = None
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if isinstance(whole, dict) and set(_DOCUMENT) <= set(whole):
            return "one document over many lines: write it in one"
        value = whole
    if not isinstance(value, dict) or set(_DOCUMENT) & set(value):
        return None
    return _seems_tool(text)


def _seems_tool(text: str) -> str | None:
    """The tool that wrote a file, if it is one that is imported."""
    try:
        found = recognised(Content(text.encode()))
    except FileRefused:
        return None
    if found is None:
        return None
    return f"{found.title}; import it with `./headroom measurements import`"


def _refuse(file: str, detail: str) -> NoReturn:
    raise NotMeasurements(file, None, None, detail)
