"""Where the parts of a file stand: line and column by JSON pointer, both counted from 1."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import yaml

from service.catalog.documents import escape

Position: TypeAlias = tuple[int, int]
Positions: TypeAlias = Mapping[str, Position]

_DEEPEST = 40
_BLANK = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class FileError:
    """One thing wrong with a file; ``position`` is None where none can be told."""

    pointer: str
    detail: str
    position: Position | None


class FileUnreadable(ValueError):  # noqa: N818 - the name says what happened to the caller
    """A file that cannot be read at all, or not as what it says it is."""

    def __init__(self, detail: str, position: Position | None = None, pointer: str = "") -> None:
        super().__init__(detail)
        self.error = FileError(pointer, detail, position)


def nearest(positions: Positions, pointer: str) -> Position | None:
    """Position of a part, or of the innermost part around it that the file has."""
    while pointer not in positions:
        if not pointer:
            return None
        pointer = pointer.rpartition("/")[0]
    return positions[pointer]


def yaml_positions(root: yaml.Node) -> dict[str, Position]:
    """Positions in YAML.

    Raises
    ------
    FileUnreadable
        If a part is used twice by an alias, which in a few lines can grow beyond any memory, or is
        nested too deeply.
    """
    positions: dict[str, Position] = {}
    seen: set[int] = set()
    waiting: deque[tuple[str, yaml.Node, int]] = deque([("", root, 0)])
    while waiting:
        pointer, node, depth = waiting.popleft()
        at = _of_mark(node)
        if id(node) in seen:
            raise FileUnreadable("aliases are not taken: write the part out", at, pointer)
        if depth > _DEEPEST:
            raise FileUnreadable("is nested too deeply", at, pointer)
        seen.add(id(node))
        positions[pointer] = at
        if isinstance(node, yaml.MappingNode):
            waiting += [
                (f"{pointer}/{escape(key.value)}", value, depth + 1) for key, value in node.value
            ]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(f"{pointer}/{at}", item, depth + 1) for at, item in enumerate(node.value)]
    return positions


def json_positions(text: str) -> dict[str, Position]:
    """Positions in JSON that is known to be JSON.

    Raises
    ------
    FileUnreadable
        If an object has a key twice, of which a parser would silently keep one, or if it is nested
        too deeply.
    """
    lines = [0, *(found.end() for found in re.finditer("\n", text))]
    positions: dict[str, Position] = {}
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
        positions[pointer] = position(at)
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
                    detail = f"the key {key!r:.80} stands twice"
                    raise FileUnreadable(detail, position(begins), pointer)
            at = after_blank(walk(at, f"{pointer}/{escape(key)}", depth + 1))
            at = after_blank(at + 1) if text[at] == "," else at
            count += 1
        return at + 1

    walk(after_blank(0), "", 0)
    return positions


def _of_mark(node: yaml.Node) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1
