"""Rows of a sweep as Parquet: how chunks are kept, and how results are handed out."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.csv as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from service.estimation.sweeps.chunks import ENDS, Rows

#: Rows that are read together at least: few enough for a page, enough to be packed well.
_GROUP_ROWS = 10_000


def packed(rows: Rows) -> bytes:
    """Rows as a Parquet file; figures that are unknown are null."""
    columns = {
        name: pa.DictionaryArray.from_arrays(column, pa.array(rows.texts[name], pa.string()))
        if name in rows.texts
        else pa.array(column, mask=np.isnan(column) if column.dtype == np.float64 else None)
        for name, column in rows.columns.items()
    }
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="zstd", row_group_size=_GROUP_ROWS)
    return out.getvalue()


def shown(content: bytes, first: int, count: int) -> list[dict[str, Any]]:
    """Some rows of a chunk as answers show them: figures as objects of value, low and high."""
    file = pq.ParquetFile(pa.BufferReader(content))
    last = min(first + count, file.metadata.num_rows)
    if last <= first:
        return []
    groups = range(first // _GROUP_ROWS, (last - 1) // _GROUP_ROWS + 1)
    table = file.read_row_groups(list(groups))
    start = first - groups.start * _GROUP_ROWS
    return [_shaped(line) for line in table.slice(start, last - first).to_pylist()]


def _shaped(line: dict[str, Any]) -> dict[str, Any]:
    # A figure is what has ends of its own.
    figures = [name for name in line if all(f"{name}{suffix}" in line for _, suffix in ENDS)]
    columns = {f"{name}{suffix}" for name in figures for _, suffix in ENDS}
    plain = {name: value for name, value in line.items() if name not in columns}
    return plain | {
        "figures": {
            name: None
            if line[name] is None
            else {end: line[f"{name}{suffix}"] for end, suffix in ENDS}
            for name in figures
        }
    }


def as_csv(content: bytes, header: bool) -> bytes:
    """A chunk as lines of a CSV table, with its header or as the part that follows one."""
    table = pq.read_table(pa.BufferReader(content))
    for at, name in enumerate(table.column_names):
        if _is_text(table.column(at).type):
            table = table.set_column(at, name, _safe(table.column(at)))
    out = io.BytesIO()
    pc.write_csv(table, out, pc.WriteOptions(include_header=header, quoting_style="needed"))
    return out.getvalue()


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_dictionary(kind) or pa.types.is_string(kind))


def _safe(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts that a spreadsheet would run as a formula are made plain text."""
    texts = [
        f"'{text}" if text[:1] in tuple("=+-@\t\r") else text
        for text in column.cast(pa.string()).to_pylist()
    ]
    return pa.chunked_array([pa.array(texts, pa.string())])


async def as_parquet(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Chunks joined to one Parquet file, a piece of it after each."""
    sink = _Pieces()
    writer: pq.ParquetWriter | None = None

    def written(content: bytes) -> bytes:
        nonlocal writer
        table = pq.read_table(pa.BufferReader(content))
        if writer is None:
            writer = pq.ParquetWriter(sink, table.schema, compression="zstd")
        writer.write_table(table, row_group_size=len(table) or None)
        return sink.taken()

    async for content in chunks:
        yield await asyncio.to_thread(written, content)
    if writer is not None:
        writer.close()
    yield sink.taken()


class _Pieces(io.RawIOBase):
    """A file that is only written to, and from which what was written is taken at any time."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: Any) -> int:
        """Hold some bytes."""
        piece = bytes(data)
        self._held.append(piece)
        self._written += len(piece)
        return len(piece)

    def tell(self) -> int:
        """How much was written, taken or not [B]."""
        return self._written

    def taken(self) -> bytes:
        """Take what has been written since the last time."""
        held, self._held = b"".join(self._held), []
        return held
