"""A tool's file as bytes, text, JSON or lines, within bounds, and parts of it with their places."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import orjson

from service.catalog.entries.documents import escape
from service.core.errors import InvalidInput
from service.estimation.formatting import megabytes

#: A file of a tool is a report or a log, not a data set.
MOST_BYTES = 64_000_000
_MOST_LINES = 1_000_000
_LONGEST_LINE = 4_000_000
_MOST_COLUMNS = 500
_LARGEST = 1e30
_JSON = re.compile(r"\s*(?:\{|\[\s*[\[{\"])")
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}m")

Position: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FileFault:
    """One thing wrong with a file.

    ``pointer`` is a JSON pointer into the file, or into the document that was made of it;
    ``position`` the line and column where they can be told.
    """

    detail: str
    pointer: str = ""
    position: Position | None = None

    def __str__(self) -> str:
        """The place and what is wrong there."""
        where = "" if self.position is None else "line {}, column {}: ".format(*self.position)
        return f"{where}{self.pointer}{': ' if self.pointer else ''}{self.detail}"


class FileRefused(InvalidInput):
    """A file that cannot be read, with everything that is wrong with it."""

    def __init__(self, *faults: FileFault) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


def refused(detail: str, pointer: str = "", position: Position | None = None) -> FileRefused:
    """A refusal for one reason."""
    return FileRefused(FileFault(detail, pointer, position))


@dataclass(frozen=True, slots=True)
class Part:
    """A value of a file and its place: a JSON pointer, after a line number in a file of lines."""

    value: Any
    pointer: str = ""
    line: int | None = None

    @property
    def place(self) -> str:
        """Where it stands, for people."""
        line = "" if self.line is None else f"line {self.line}"
        return f"{line}{' ' if line and self.pointer else ''}{self.pointer}" or "the file"

    def fault(self, detail: str) -> FileRefused:
        """A refusal that names this place."""
        at = None if self.line is None else (self.line, 1)
        return refused(detail, self.pointer, at)

    def part(self, *keys: str | int) -> Part | None:
        """A part further in, or None where there is none or it is null."""
        value, pointer = self.value, self.pointer
        for key in keys:
            if isinstance(key, int):
                found = isinstance(value, list) and key < len(value)
            else:
                found = isinstance(value, dict) and key in value
            if not found:
                return None
            value, pointer = value[key], f"{pointer}/{escape(str(key))}"
        return None if value is None else Part(value, pointer, self.line)

    def first(self, *names: str) -> Part | None:
        """The first of several names that is there."""
        found = (self.part(name) for name in names)
        return next((part for part in found if part is not None), None)

    def parts(self, *keys: str | int) -> Iterator[Part]:
        """The items of a list further in; none where there is no list."""
        listed = self.part(*keys) if keys else self
        if listed is not None and isinstance(listed.value, list):
            for index, value in enumerate(listed.value):
                yield Part(value, f"{listed.pointer}/{index}", self.line)

    def values(self) -> Iterator[Part]:
        """The values of an object; none where it is no object."""
        for key, value in self.value.items() if isinstance(self.value, dict) else ():
            yield Part(value, f"{self.pointer}/{escape(str(key))}", self.line)

    def number(self, *keys: str | int) -> Part | None:
        """A finite number further in, or None where there is none, it is null or not finite.

        Raises
        ------
        FileRefused
            If it is something else than a number.
        """
        part = self.part(*keys)
        if part is None:
            return None
        value = part.value
        if isinstance(value, str):
            value = parsed_number(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise part.fault(f"{str(part.value)[:40]!r} is not a number")
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if abs(value) > _LARGEST:
            raise part.fault("the number is too large")
        return Part(value, part.pointer, part.line)

    def text(self, *keys: str | int) -> Part | None:
        """A text further in that is not empty, without what surrounds it."""
        part = self.part(*keys)
        if part is None or not isinstance(part.value, str) or not part.value.strip():
            return None
        return Part(part.value.strip()[:500], part.pointer, part.line)

    def by(self, factor: float) -> Part:
        """The number in another unit."""
        return Part(float(self.value) * factor, self.pointer, self.line)


def parsed_number(text: str) -> float | None:
    """The number that a text is, or None."""
    try:
        return float(text.strip()) if len(text) < 100 and "_" not in text else None
    except ValueError:
        return None


class Content:
    """The bytes of a file, with what they can be read as."""

    def __init__(self, data: bytes, name: str = "") -> None:
        """Take the bytes of a file that is called ``name``.

        Raises
        ------
        FileRefused
            If it is empty or too large.
        """
        if not data.strip():
            raise refused("the file is empty")
        if len(data) > MOST_BYTES:
            raise refused(f"the file is larger than {megabytes(MOST_BYTES)}, the most that is read")
        self.data = data
        self.name = name

    @cached_property
    def text(self) -> str | None:
        """The text without colours of terminals; None if it is none."""
        try:
            text = self.data.decode("utf-16" if self._is_utf_16 else "utf-8-sig")
        except UnicodeDecodeError:
            return None
        return None if "\0" in text else _COLOURS.sub("", text)

    @property
    def _is_utf_16(self) -> bool:
        """Whether PowerShell wrote it."""
        return self.data[:2] in (b"\xff\xfe", b"\xfe\xff")

    @cached_property
    def json_fault(self) -> FileFault | None:
        """What keeps the text from being JSON; None if nothing does."""
        try:
            _ = self.json
        except FileRefused as fault:
            return fault.faults[0]
        return None

    @cached_property
    def json(self) -> Part:
        """The JSON value that the text is.

        Raises
        ------
        FileRefused
            If it is none, with line and column.
        """
        if self.text is None:
            raise refused("is not text")
        return Part(parsed_json(self.text))

    @cached_property
    def is_json(self) -> bool:
        """Whether the text begins as an object or a list of JSON does."""
        return self.text is not None and _JSON.match(self.text) is not None

    @property
    def whole(self) -> Part | None:
        """The JSON value that the text is, or None."""
        return self.json if self.is_json and self.json_fault is None else None

    @cached_property
    def objects(self) -> tuple[Part, ...]:
        """JSON objects, one a line or in a list; none where the text is no such file."""
        try:
            return self.json_lines if self.is_json else ()
        except FileRefused:
            return ()

    @cached_property
    def json_lines(self) -> tuple[Part, ...]:
        """JSON objects, one a line; a file that is one object or a list of them counts as well.

        Raises
        ------
        FileRefused
            With the line and column of the first line that is not JSON.
        """
        if self.json_fault is None:
            whole = self.json
            return tuple(whole.parts()) if isinstance(whole.value, list) else (whole,)
        found = []
        for number, line in self.lines():
            if not line.strip():
                continue
            try:
                found.append(Part(parsed_json(line, number), line=number))
            except FileRefused as fault:
                # A single value over several lines, which is broken somewhere.
                raise fault if found else FileRefused(self.json_fault) from None
        return tuple(found)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Lines of the text, numbered from 1.

        Raises
        ------
        FileRefused
            If there are too many, or one is too long.
        """
        for number, line in enumerate(io.StringIO(self.text or ""), 1):
            if number > _MOST_LINES:
                raise refused(f"has more than {_MOST_LINES:,} lines", position=(number, 1))
            if len(line) > _LONGEST_LINE:
                raise refused("the line is too long", position=(number, 1))
            yield number, line.rstrip("\r\n")

    @cached_property
    def header(self) -> tuple[str, ...]:
        """Columns of the first line, read as CSV."""
        first = next((line for _, line in self.lines() if line.strip()), "")
        if len(first) > 100_000:
            return ()
        try:
            cells = next(csv.reader([first], skipinitialspace=True), [])
        except csv.Error:
            return ()
        return tuple(cell.strip() for cell in cells[:_MOST_COLUMNS])

    def rows(self) -> Iterator[Part]:
        """Rows of a CSV table below its header, each a mapping of texts.

        Raises
        ------
        FileRefused
            If a row has more or fewer cells than the header, or quotes never end.
        """
        lines = csv.reader((line for _, line in self.lines()), strict=True, skipinitialspace=True)
        header: list[str] | None = None
        try:
            for cells in lines:
                row = [cell.strip() for cell in cells]
                if not any(row):
                    continue
                if header is None:
                    header = row
                    if len(set(header)) < len(header) or len(header) > _MOST_COLUMNS:
                        detail = "a column occurs twice, or there are too many"
                        raise refused(detail, position=(lines.line_num, 1))
                    continue
                if row == header:
                    continue
                if len(row) != len(header):
                    detail = f"the row has {len(row)} cells, the header {len(header)}"
                    raise refused(detail, position=(lines.line_num, 1))
                yield Part(dict(zip(header, row, strict=True)), line=lines.line_num)
        except csv.Error as error:
            raise refused(f"is not CSV: {error}", position=(lines.line_num, 1)) from None


def parsed_json(text: str, line: int | None = None) -> Any:
    """The value of a JSON text; NaN and Infinity, which Python writes, are read as such.

    Raises
    ------
    FileRefused
        If it is not JSON, with line and column; ``line`` is the line of a file that it is.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        told, at = error.msg, (error.lineno, error.colno)
    if "NaN" in text or "Infinity" in text:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            told, at = error.msg, (error.lineno, error.colno)
        except (ValueError, RecursionError):
            told = "a number is too long, or parts are nested too deeply"
    position = at if line is None else (line, at[1])
    raise refused(f"is not JSON: {told}", position=position)


def flattened(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of a mapping of mappings, by JSON pointer; lists are leaves."""
    for key, value in mapping.items():
        pointer = f"{prefix}/{escape(str(key))}"
        if isinstance(value, Mapping) and value:
            yield from flattened(value, pointer)
        else:
            yield pointer, value
