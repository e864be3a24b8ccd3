"""Where the parts of a file stand: line and column by JSON pointer, both counted from 1."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from service.catalog.entries.documents import escape
from service.core.errors import InvalidInput

Position: TypeAlias = tuple[int, int]
Positions: TypeAlias = Mapping[str, Position]

_DEEPEST = 40
#: What pointers may take together. A long key stands in the pointers of all that is under it, so
#: that a file of a megabyte could otherwise ask for terabytes.
_MOST_POINTERS_BYTES = 60_000_000
#: What a position takes beside its pointer, roughly [byte].
_POSITION_BYTES = 150
_TOO_MANY = "has too many parts; send it as several files"
#: Tags that say what a part is anyway; the others make what JSON has not.
_PLAIN_TAGS = frozenset(
    {None, "!", *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))}
)
_BLANK = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class FileError:
    """One thing wrong with a file; ``position`` is None where none can be told."""

    pointer: str
    detail: str
    position: Position | None


class FileUnreadable(InvalidInput):
    """A file that cannot be read at all, or not as what it says it is."""

    def __init__(self, detail: str, position: Position | None = None, pointer: str = "") -> None:
        super().__init__(detail)
        self.error = FileError(pointer, detail, position)


class PositionsOfFile(dict[str, Position]):
    """Positions by pointer, of a file whose parts are few enough to be noted."""

    def __init__(self) -> None:
        super().__init__()
        self._left_bytes = _MOST_POINTERS_BYTES

    def spend(self, pointer: str, at: Position) -> None:
        """Count a pointer that is about to be kept.

        Raises
        ------
        FileUnreadable
            If that is one too many.
        """
        self._left_bytes -= len(pointer) + _POSITION_BYTES
        if self._left_bytes < 0:
            raise FileUnreadable(_TOO_MANY, at)

    def note(self, pointer: str, at: Position) -> None:
        """Keep a position."""
        self.spend(pointer, at)
        self[pointer] = at


def nearest(positions: Positions, pointer: str) -> Position | None:
    """Position of a part, or of the innermost part around it that the file has."""
    while pointer not in positions:
        if not pointer:
            return None
        pointer = pointer.rpartition("/")[0]
    return positions[pointer]


def check_yaml(events: Iterator[yaml.Event]) -> None:
    """Hold a document's events against what a file may have, before anything is built of them.

    The library builds parts within parts by calling itself, and ends the process where they are
    nested too deeply.

    Raises
    ------
    FileUnreadable
        If there are too many parts, or one has a tag of its own or is nested too deeply.
    """
    depth = 0
    for count, event in enumerate(events):
        mark = event.start_mark
        at = None if mark is None else (mark.line + 1, mark.column + 1)
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            if event.tag not in _PLAIN_TAGS:
                raise FileUnreadable(f"the tag {event.tag!r:.80} is not supported", at)
            depth += isinstance(event, yaml.CollectionStartEvent)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise FileUnreadable("is nested too deeply", at)
        if count * _POSITION_BYTES > _MOST_POINTERS_BYTES:
            raise FileUnreadable(_TOO_MANY, at)


def yaml_positions(root: yaml.Node) -> PositionsOfFile:
    """Positions in YAML whose events were checked.

    Raises
    ------
    FileUnreadable
        If a part is used twice by an alias, which in a few lines can grow beyond any memory, or
        there are too many.
    """
    positions = PositionsOfFile()
    seen: set[int] = set()
    waiting: deque[tuple[str, yaml.Node]] = deque([("", root)])
    while waiting:
        pointer, node = waiting.popleft()
        at = _of_mark(node)
        if id(node) in seen:
            raise FileUnreadable("YAML aliases are not supported; repeat the part", at, pointer)
        seen.add(id(node))
        positions[pointer] = at
        inner: Iterable[tuple[Any, yaml.Node]] = ()
        if isinstance(node, yaml.MappingNode):
            inner = ((key.value, value) for key, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            inner = enumerate(node.value)
        for key, value in inner:
            below = f"{pointer}/{escape(key)}"
            positions.spend(below, at)
            waiting.append((below, value))
    return positions


def json_positions(text: str) -> PositionsOfFile:
    """Positions in JSON that is known to be JSON.

    Raises
    ------
    FileUnreadable
        If an object has a key twice, of which a parser would silently keep one, if it is nested
        too deeply, or has too many parts.
    """
    lines = [0, *(found.end() for found in re.finditer("\n", text))]
    positions = PositionsOfFile()
    decoder = json.JSONDecoder()

    def position(at: int) -> Position:
        line = bisect_right(lines, at)
        return line, at - lines[line - 1] + 1

    def after_blank(at: int) -> int:
        found = _BLANK.match(text, at)
        assert found is not None  # noqa: S101 - it matches nothing at all, too
        return found.end()

    def walk(at: int, pointer: str, depth: int) -> int:
        """Note the value that begins here; where it ends."""
        if depth > _DEEPEST:
            raise FileUnreadable("is nested too deeply", position(at), pointer)
        positions.note(pointer, position(at))
        if text[at] not in "{[":
            return int(decoder.raw_decode(text, at)[1])
        closing = "}" if text[at] == "{" else "]"
        count = 0
        at = after_blank(at + 1)
        while text[at] != closing:
            key: object = count
            if closing == "}":
                begins = at
                key, at = decoder.raw_decode(text, at)
                at = after_blank(after_blank(at) + 1)
                if f"{pointer}/{escape(key)}" in positions:
                    detail = f"the key {key!r:.80} occurs twice"
                    raise FileUnreadable(detail, position(begins), pointer)
            at = after_blank(walk(at, f"{pointer}/{escape(key)}", depth + 1))
            at = after_blank(at + 1) if text[at] == "," else at
            count += 1
        return at + 1

    walk(after_blank(0), "", 0)
    return positions


def _of_mark(node: yaml.Node) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1
