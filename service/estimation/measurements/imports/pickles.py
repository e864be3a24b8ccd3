"""Pickles of plain values: numbers, texts, lists, tuples and mappings, and nothing that runs.

The instructions of pickle protocols 0 to 5 that make such values are followed; one that would look
up a class or call something is refused where it stands.
"""

from __future__ import annotations

import struct
from typing import Any

from service.core.errors import InvalidInput
from service.estimation.measurements.imports.reading import FileRefused, refused

PICKLE_MARK = b"\x80"
_MOST_VALUES = 20_000_000
_LONGEST_TEXT = 1_000_000
_MOST_DIGITS = 16


class _Unsound(InvalidInput):
    """An instruction that cannot be followed."""


_FIXED: dict[int, Any] = {
    ord("N"): None,
    0x88: True,
    0x89: False,
}
#: Instructions with a number of fixed width: its format and the bytes that it takes.
_NUMBERS = {
    ord("K"): struct.Struct("<B"),
    ord("M"): struct.Struct("<H"),
    ord("J"): struct.Struct("<i"),
    ord("G"): struct.Struct(">d"),
}
#: Instructions with a text behind its length.
_TEXTS = {0x8C: struct.Struct("<B"), ord("X"): struct.Struct("<I"), 0x8D: struct.Struct("<Q")}
_SAVED = {ord("q"): struct.Struct("<B"), ord("r"): struct.Struct("<I")}
_LOADED = {ord("h"): struct.Struct("<B"), ord("j"): struct.Struct("<I")}
_SHORT_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}


def plain_pickle(data: bytes) -> Any:
    """The value of a pickle.

    Raises
    ------
    FileRefused
        If it is none of plain values, with the byte of the instruction at fault.
    """
    reader = _Reader(data)
    try:
        return reader.value()
    except _Unsound as unsound:
        raise refused(f"byte {reader.began:,}: {unsound}") from None
    except (struct.error, IndexError, KeyError, TypeError, UnicodeDecodeError):
        raise refused(f"byte {reader.began:,}: the pickle is broken") from None


class _Reader:
    """Follows the instructions of one pickle."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.began = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def value(self) -> Any:
        """What the pickle holds."""
        for _ in range(_MOST_VALUES):
            self.began = self._at
            code = self._data[self._at]
            self._at += 1
            if code == ord("."):
                return self._stack.pop()
            self._follow(code)
        raise FileRefused(*refused("the pickle has too many values").faults)

    def _take(self, form: struct.Struct) -> Any:
        found = form.unpack_from(self._data, self._at)[0]
        self._at += form.size
        return found

    def _bytes(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise _Unsound("the pickle ends too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def _since_mark(self) -> list[Any]:
        at = self._marks.pop()
        taken = self._stack[at:]
        del self._stack[at:]
        return taken

    def _follow(self, code: int) -> None:
        stack = self._stack
        if code in _FIXED:
            stack.append(_FIXED[code])
        elif code in _NUMBERS:
            stack.append(self._take(_NUMBERS[code]))
        elif code in _TEXTS:
            length = self._take(_TEXTS[code])
            if length > _LONGEST_TEXT:
                raise _Unsound("a text is too long")
            stack.append(self._bytes(length).decode("utf-8", "replace"))
        elif code == 0x8A:
            count = self._take(_NUMBERS[ord("K")])
            if count > _MOST_DIGITS:
                raise _Unsound("a number is too large")
            stack.append(int.from_bytes(self._bytes(count), "little", signed=True))
        elif code in _SAVED:
            self._memo[self._take(_SAVED[code])] = stack[-1]
        elif code == 0x94:
            self._memo[len(self._memo)] = stack[-1]
        elif code in _LOADED:
            stack.append(self._memo[self._take(_LOADED[code])])
        elif code == 0x80:
            if self._take(_NUMBERS[ord("K")]) > 5:
                raise _Unsound("the pickle's protocol is not known")
        elif code == 0x95:
            self._bytes(8)
        else:
            self._compose(code)

    def _compose(self, code: int) -> None:
        """Instructions that put values together."""
        stack = self._stack
        match code:
            case 0x28:  # mark
                self._marks.append(len(stack))
            case 0x7D:  # empty mapping
                stack.append({})
            case 0x5D:  # empty list
                stack.append([])
            case 0x29:  # empty tuple
                stack.append(())
            case 0x85 | 0x86 | 0x87:
                count = _SHORT_TUPLES[code]
                if len(stack) < count:
                    raise _Unsound("the pickle is broken")
                stack[-count:] = [tuple(stack[-count:])]
            case 0x74:  # tuple
                stack.append(tuple(self._since_mark()))
            case 0x61:  # append
                item = stack.pop()
                self._list().append(item)
            case 0x65:  # appends
                items = self._since_mark()
                self._list().extend(items)
            case 0x73:  # set item
                value, key = stack.pop(), stack.pop()
                self._mapping()[_key(key)] = value
            case 0x75:  # set items
                items = self._since_mark()
                if len(items) % 2:
                    raise _Unsound("the pickle is broken")
                pairs = zip(items[::2], items[1::2], strict=True)
                self._mapping().update((_key(key), value) for key, value in pairs)
            case _:
                raise _Unsound("it holds more than plain values, which is not read")

    def _list(self) -> list[Any]:
        if not isinstance(self._stack[-1], list):
            raise _Unsound("the pickle is broken")
        return self._stack[-1]

    def _mapping(self) -> dict[Any, Any]:
        if not isinstance(self._stack[-1], dict):
            raise _Unsound("the pickle is broken")
        return self._stack[-1]


def _key(key: Any) -> Any:
    if not isinstance(key, str | int | float | None):
        raise _Unsound("a key is neither text nor number")
    return key
