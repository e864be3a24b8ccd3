"""The header of a safetensors file.

References
----------
https://huggingface.co/docs/safetensors (format): eight bytes of length, little-endian, then a JSON
object of at most 100 MB that gives each tensor's ``dtype``, ``shape`` and ``data_offsets``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod
from pathlib import Path

from service.checkpoints.reading import BoundedReader, CheckpointUnreadable, json_object

_MOST_HEADER_BYTES = 100_000_000
_LENGTH_BYTES = 8
_MOST_ELEMENTS = 10**15


def elements_by_type(path: Path) -> Mapping[str, int]:
    """Elements of a file's tensors by their type, such as ``BF16``.

    Raises
    ------
    CheckpointUnreadable
        If it is no safetensors file.
    OSError
        If the file cannot be read.
    """
    with path.open("rb") as file:
        reader = BoundedReader(file, _LENGTH_BYTES + _MOST_HEADER_BYTES)
        length = int.from_bytes(reader.read(_LENGTH_BYTES), "little")
        header = json_object(reader.read(length))
    found: Counter[str] = Counter()
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        kind = tensor.get("dtype") if isinstance(tensor, dict) else None
        shape = tensor.get("shape") if isinstance(tensor, dict) else None
        if not isinstance(kind, str) or not isinstance(shape, list):
            raise CheckpointUnreadable(f"tensor {name[:80]!r} has no dtype or no shape")
        if not all(type(size) is int and 0 <= size <= _MOST_ELEMENTS for size in shape):
            raise CheckpointUnreadable(f"tensor {name[:80]!r} has an impossible shape")
        found[kind] += prod(shape)
    return {kind: elements for kind, elements in found.items() if elements}
