"""Bounded reading: files come from anywhere, so no length in them is believed unchecked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

from service.core.errors import InvalidInput

#: Larger than any config.json; some carry maps of a hundred thousand labels.
MOST_CONFIG_BYTES = 5_000_000


class CheckpointUnreadable(InvalidInput):
    """A file that is not what its name says, is cut short, or is absurd."""


class BoundedReader:
    """Reads a stream from its start, and not beyond a bound [B]."""

    def __init__(self, stream: BinaryIO, most_bytes: int) -> None:
        self._stream = stream
        self._left = most_bytes

    def read(self, size: int) -> bytes:
        """The next bytes, all of them.

        Raises
        ------
        CheckpointUnreadable
            If there are fewer, or more would be read than is allowed.
        """
        if size > self._left:
            raise CheckpointUnreadable("its header is too large")
        self._left -= size
        content = self._stream.read(size)
        if len(content) < size:
            raise CheckpointUnreadable("it is truncated")
        return content


def json_object(content: bytes) -> dict[str, Any]:
    """A JSON object, in which infinities and NaN, which some configurations hold, become null.

    Raises
    ------
    CheckpointUnreadable
        If it is none.
    """
    try:
        found = json.loads(content, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise CheckpointUnreadable(f"it is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise CheckpointUnreadable("it is not a JSON object")
    return found


def read_json_object(path: Path, most_bytes: int) -> dict[str, Any]:
    """The JSON object in a file of bounded size.

    Raises
    ------
    CheckpointUnreadable
        If it is none, or too large.
    OSError
        If the file cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise CheckpointUnreadable(f"it is larger than {most_bytes / 1e6:.0f} MB")
    return json_object(content)
