"""Entries of a collection as a table: a row each, a column for every part by its dotted path.

``figures.memory_bytes.value`` is the column of a figure's value, ``prices.0.date`` that of the
first price's date. A list of plain texts is one cell, as JSON or parted by semicolons; so is, as
JSON, an object with a key that has dots itself. An empty cell says that the entry has no such part.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from service.catalog.entries.documents import Document
from service.catalog.exchange.positions import FileError, FileUnreadable, Positions, PositionsOfFile

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PARTED = ";"
_MOST_COLUMNS = 2_000
_MOST_ITEMS = 1_000
_DEEPEST = 12

#: A name on the way to a part, and what it holds on that way; None at the end.
_Step: TypeAlias = tuple[str, type[dict[str, Any]] | type[list[Any]] | None]


def table_of(documents: Iterable[Document], validator: Draft202012Validator) -> str:
    """The entries as CSV (RFC 4180). Text that a spreadsheet would run is led by an apostrophe."""
    kinds: dict[str, frozenset[str]] = {}

    def is_text(path: str) -> bool:
        if path not in kinds:
            kinds[path] = _kinds(validator.schema, path.split("."))
        return kinds[path] == {"string"}

    rows = [
        {name: _cell(value, is_text(name)) for name, value in _parts("", document)}
        for document in documents
    ]
    out = io.StringIO()
    writer = csv.DictWriter(out, _in_order(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def read_table(
    text: str, validator: Draft202012Validator
) -> tuple[list[dict[str, Any]], Positions, list[FileError]]:
    """Entries of a table, positions of their parts by pointer, and cells that make no sense.

    Positions are the line, and the number of the cell in it.

    Parameters
    ----------
    text
        The table with its header line.
    validator
        Schema of one entry, which tells numbers from texts that look like some.

    Raises
    ------
    FileUnreadable
        If it is no table.
    """
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(lines, None)
        if not header or "id" not in header:
            raise FileUnreadable("the first line must name the columns, one of them id", (1, 1))
        if len(header) > _MOST_COLUMNS or len(set(header)) < len(header):
            raise FileUnreadable("a column occurs twice, or there are too many columns", (1, 1))
        kinds = {name: _kinds(validator.schema, name.split(".")) for name in header}
        steps = {name: _steps(validator.schema, name.split(".")) for name in header}
        entries: list[dict[str, Any]] = []
        positions = PositionsOfFile()
        positions.note("", (1, 1))
        errors: list[FileError] = []
        for cells in lines:
            if not any(cells):
                continue
            line, place = lines.line_num, f"/{len(entries)}"
            positions.note(place, (line, 1))
            if len(cells) > len(header):
                errors.append(FileError(place, "more cells than columns", (line, len(header) + 1)))
            entry: dict[str, Any] = {}
            for at, (name, cell) in enumerate(zip(header, cells, strict=False), 1):
                if cell == "":
                    continue
                pointer = f"{place}/{name.replace('.', '/')}"
                positions.note(pointer, (line, at))
                try:
                    _put(entry, steps[name], _value(cell, kinds[name]))
                except ValueError as error:
                    errors.append(FileError(pointer, str(error), (line, at)))
            entries.append(entry)
    except csv.Error as error:
        raise FileUnreadable(str(error), (lines.line_num, 1)) from None
    return entries, positions, errors


def _in_order(columns: Iterable[str]) -> list[str]:
    """Columns by when each name on their way comes first, and items of a list by their number.

    Entries leave out different parts of the items of a list, which are read in order of columns.
    """
    columns, seen = list(columns), dict[str, int]()

    def prefixes(column: str) -> Iterator[tuple[str, str]]:
        way = ""
        for name in column.split("."):
            way = f"{way}.{name}"
            yield way, name

    for at, column in enumerate(columns):
        for way, _ in prefixes(column):
            seen.setdefault(way, at)
    return sorted(
        columns,
        key=lambda column: [
            int(name) if name.isdecimal() else seen[way] for way, name in prefixes(column)
        ],
    )


def _parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Everything in a document that fills a cell, with its path."""
    if isinstance(value, Mapping) and value and not any("." in key for key in value):
        for key, part in value.items():
            yield from _parts(f"{path}.{key}" if path else key, part)
    elif isinstance(value, list) and not all(isinstance(item, str) for item in value):
        for at, item in enumerate(value):
            yield from _parts(f"{path}.{at}", item)
    else:
        yield path, value


def _cell(value: Any, is_text: bool) -> str:
    """A value as a cell; where a column can hold more than text, text that looks like JSON is."""
    if isinstance(value, str) and (is_text or not _is_json(value)):
        return f"'{value}" if value.startswith((*_FORMULA, "'")) else value
    return orjson.dumps(value).decode()


def _value(cell: str, kinds: frozenset[str]) -> Any:
    """What a cell says, as a kind that its column may be."""
    text = cell[1:] if cell.startswith("'") else cell
    if kinds == {"string"}:
        return text
    if _is_json(cell):
        return orjson.loads(cell)
    if kinds == {"array"}:
        return [part.strip() for part in text.split(_PARTED) if part.strip()]
    if kinds and kinds <= {"number", "integer"}:
        raise ValueError(f"{cell[:80]!r} is not a number")
    return text


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _steps(schema: Any, path: list[str]) -> list[_Step]:
    """Names on the way to a part; a number is a position, unless the schema says it is a key."""
    steps: list[_Step] = []
    for depth, following in enumerate(path[1:], 1):
        keyed = not following.isdecimal() or _kinds(schema, path[:depth]) == {"object"}
        steps.append((path[depth - 1], dict if keyed else list))
        if depth > _DEEPEST:
            break
    return [*steps, (path[-1], None)]


def _put(entry: dict[str, Any], steps: list[_Step], value: Any) -> None:
    """Set a part by the steps to it."""
    if len(steps) > _DEEPEST or not all(name for name, _ in steps):
        raise ValueError("the column name is not a path to a part of an entry")
    held: Any = entry
    for name, holder in steps:
        new: Any = value if holder is None else holder()
        if isinstance(held, list):
            at = int(name) if name.isdecimal() and len(name) < 5 else _MOST_ITEMS
            if at > len(held) or at >= _MOST_ITEMS:
                raise ValueError("the columns of a list must be numbered from 0 without gaps")
            if at == len(held):
                held.append(new)
            held = held[at]
        elif isinstance(held, dict) and (holder is not None or name not in held):
            held = held.setdefault(name, new)
        else:
            raise ValueError("another column already gives this part a value")


def _kinds(schema: Any, path: list[str]) -> frozenset[str]:
    """JSON types that a schema allows at a path, as far as it says."""
    if len(path) > _DEEPEST:
        return frozenset()
    found = [schema]
    for name in path:
        found = [
            part
            for one in found
            for resolved in _alternatives(one, schema)
            for part in _under(resolved, name)
        ]
    kinds: set[str] = set()
    for one in found:
        for resolved in _alternatives(one, schema):
            stated = resolved.get("type", ())
            kinds.update([stated] if isinstance(stated, str) else stated)
            choices = resolved.get("enum", ())
            kinds.update("string" for value in choices if isinstance(value, str))
    return frozenset(kinds)


def _alternatives(schema: Any, root: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return
    yield schema
    reference = schema.get("$ref", "")
    if reference.startswith("#/$defs/"):
        yield from _alternatives(root.get("$defs", {}).get(reference[8:]), root, depth + 1)
    for word in ("allOf", "anyOf", "oneOf"):
        for one in schema.get(word, ()):
            yield from _alternatives(one, root, depth + 1)


def _under(schema: dict[str, Any], name: str) -> Iterator[Any]:
    if name in schema.get("properties", {}):
        yield schema["properties"][name]
    elif isinstance(schema.get("additionalProperties"), dict):
        yield schema["additionalProperties"]
    if name.isdecimal() and isinstance(schema.get("items"), dict):
        yield schema["items"]
    yield from schema.get("patternProperties", {}).values()
