"""The header of a GGUF file: metadata and the list of tensors, without the tensors.

A reader of our own: the format's library maps the whole file and keeps every token of a
vocabulary, which takes seconds, and believes the lengths that a file states.

References
----------
ggml-org/ggml docs/gguf.md, 2025 (versions 2 and 3); block sizes: ggml src/ggml-common.h.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from service.checkpoints.reading import BoundedReader, CheckpointUnreadable

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
#: Vocabularies of 256,000 tokens with their merges take about ten megabytes.
_MOST_HEADER_BYTES = 128_000_000
_MOST_KEYS = 10_000
_MOST_TENSORS = 200_000
_MOST_NAME_BYTES = 65_535
_MOST_DIMENSIONS = 4
_MOST_ELEMENTS = 10**15
#: Longer arrays (tokens, their scores) are passed over, and only their length is kept.
_LONGEST_KEPT = 4_096

_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    _BOOL: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}

#: Elements and bytes of a block, by the number of the type.
BLOCKS: Mapping[int, tuple[int, int]] = {
    0: (1, 4),  # F32
    1: (1, 2),  # F16
    2: (32, 18),  # Q4_0
    3: (32, 20),  # Q4_1
    6: (32, 22),  # Q5_0
    7: (32, 24),  # Q5_1
    8: (32, 34),  # Q8_0
    10: (256, 84),  # Q2_K
    11: (256, 110),  # Q3_K
    12: (256, 144),  # Q4_K
    13: (256, 176),  # Q5_K
    14: (256, 210),  # Q6_K
    15: (256, 292),  # Q8_K
    16: (256, 66),  # IQ2_XXS
    17: (256, 74),  # IQ2_XS
    18: (256, 98),  # IQ3_XXS
    19: (256, 50),  # IQ1_S
    20: (32, 18),  # IQ4_NL
    21: (256, 110),  # IQ3_S
    22: (256, 82),  # IQ2_S
    23: (256, 136),  # IQ4_XS
    24: (1, 1),  # I8
    25: (1, 2),  # I16
    26: (1, 4),  # I32
    27: (1, 8),  # I64
    28: (1, 8),  # F64
    29: (256, 56),  # IQ1_M
    30: (1, 2),  # BF16
    34: (256, 54),  # TQ1_0
    35: (256, 66),  # TQ2_0
    39: (32, 17),  # MXFP4
    40: (64, 36),  # NVFP4
}


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor's shape, fastest dimension first, and the number of its type."""

    shape: tuple[int, ...]
    type: int

    @property
    def stored_bytes(self) -> int:
        """What it takes in the file [B]."""
        elements, size = BLOCKS[self.type]
        return prod(self.shape) // elements * size


@dataclass(frozen=True, slots=True)
class PassedOver:
    """An array that was too long to keep."""

    length: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a file says of itself: metadata by key, and tensors by name."""

    metadata: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]


def read_gguf_header(path: Path) -> GgufHeader:
    """The header of a file.

    Raises
    ------
    CheckpointUnreadable
        If it is no GGUF file of a known version, or not a sound one.
    OSError
        If the file cannot be read.
    """
    with path.open("rb") as file:
        reader = BoundedReader(file, _MOST_HEADER_BYTES)
        if reader.read(4) != _MAGIC:
            raise CheckpointUnreadable("it is not a GGUF file")
        version = _number(reader, "<I")
        if version not in _VERSIONS:
            raise CheckpointUnreadable(f"GGUF version {version} is not supported (2 and 3 are)")
        tensor_count = _count(reader, _MOST_TENSORS, "tensors")
        key_count = _count(reader, _MOST_KEYS, "keys")
        metadata = {}
        for _ in range(key_count):
            key = _text(reader)
            metadata[key] = _value(reader, _number(reader, "<I"))
        tensors = dict(_tensor(reader) for _ in range(tensor_count))
    return GgufHeader(metadata, tensors)


def _tensor(reader: BoundedReader) -> tuple[str, GgufTensor]:
    name = _text(reader)
    dimensions = _number(reader, "<I")
    if dimensions > _MOST_DIMENSIONS:
        raise CheckpointUnreadable(f"tensor {name[:80]!r} has {dimensions} dimensions")
    shape = tuple(int(_number(reader, "<Q")) for _ in range(dimensions))
    kind = int(_number(reader, "<I"))
    reader.read(8)  # where its data begin
    if kind not in BLOCKS:
        raise CheckpointUnreadable(f"tensor {name[:80]!r} is of type {kind}, which is not known")
    if prod(shape) > _MOST_ELEMENTS or prod(shape) % BLOCKS[kind][0]:
        raise CheckpointUnreadable(f"tensor {name[:80]!r} has an impossible shape")
    return name, GgufTensor(shape, kind)


def _value(reader: BoundedReader, kind: int) -> Any:
    if kind == _STRING:
        return _text(reader, _MOST_HEADER_BYTES)
    if kind != _ARRAY:
        return _number(reader, _scalar(kind))
    inner = int(_number(reader, "<I"))
    length = int(_number(reader, "<Q"))
    if inner == _STRING:
        read: Callable[[], Any] = lambda: _text(reader, _MOST_HEADER_BYTES)  # noqa: E731
    else:
        size = struct.calcsize(_scalar(inner))
        if length > _LONGEST_KEPT:
            reader.read(length * size)
            return PassedOver(length)
        read = lambda: _number(reader, _scalar(inner))  # noqa: E731
    if length > _LONGEST_KEPT:
        for _ in range(length):
            read()
        return PassedOver(length)
    return [read() for _ in range(length)]


def _scalar(kind: int) -> str:
    if kind not in _SCALARS:
        raise CheckpointUnreadable(f"a value of type {kind}, which is not known")
    return _SCALARS[kind]


def _number(reader: BoundedReader, form: str) -> Any:
    return struct.unpack(form, reader.read(struct.calcsize(form)))[0]


def _count(reader: BoundedReader, most: int, what: str) -> int:
    count = int(_number(reader, "<Q"))
    if count > most:
        raise CheckpointUnreadable(f"it claims {count} {what}; at most {most} are accepted")
    return count


def _text(reader: BoundedReader, most: int = _MOST_NAME_BYTES) -> str:
    length = int(_number(reader, "<Q"))
    if length > most:
        raise CheckpointUnreadable(f"a text of {length} bytes")
    return reader.read(length).decode("utf-8", "replace")
