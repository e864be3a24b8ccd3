"""Reading measurements from CSV files that anybody may have written."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from types import MappingProxyType

from service.core.errors import InvalidInput

#: Files that are understood, by name without ending.
TABLES = (
    "memory_inference",
    "memory_training",
    "latency_inference",
    "energy_inference",
    "training_speed",
    "training_emissions",
)
#: Without these a row says nothing.
REQUIRED_COLUMNS = ("model", "metric", "value", "unit")
_ARCHITECTURE = (
    *("params_b", "active_params_b", "layers", "hidden", "heads", "kv_heads", "head_dim", "vocab"),
    *("ffn", "experts", "experts_per_token", "arch_note"),
)
_TRAINING = (
    *("method", "parallelism", "weight_dtype", "optimizer", "activation_checkpointing"),
    *("micro_batch", "grad_accum", "global_batch", "seq_len"),
)
_SERVING = ("tp", "pp", "weight_dtype", "kv_dtype", "batch", "input_len", "output_len")
_COMMON = (
    *("row_id", "model", *_ARCHITECTURE, "hardware", "hardware_count", "metric", "value", "unit"),
    *("framework", "framework_version", "flags", "source_id", "source_url", "source_locator"),
    *("confidence", "inferred_fields", "notes"),
)
#: Columns that are read or at least expected, by table; others are ignored with a note.
COLUMNS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "memory_inference": frozenset(
            (*_COMMON, *_SERVING, "max_model_len", "gpu_memory_utilization")
        ),
        "memory_training": frozenset((*_COMMON, *_TRAINING)),
        "latency_inference": frozenset((*_COMMON, *_SERVING, "ep", "concurrency")),
        "energy_inference": frozenset((*_COMMON, *_SERVING, "ep", "concurrency")),
        "training_speed": frozenset((*_COMMON, *_TRAINING)),
        "training_emissions": frozenset(
            (*_COMMON, "gpu_hours", "train_tokens_b", "pue", "region", "grid_gco2_per_kwh", "scope")
        ),
    }
)

LARGEST_FILE_BYTES = 64 * 1024 * 1024
MOST_ROWS = 100_000
LARGEST_NUMBER = 1e15
#: What a row without a source counts as.
NO_SOURCE = "no source given"


class TableInvalid(InvalidInput):
    """A directory or a file that cannot be read as measurements."""

    def __init__(self, file: str, line: int | None, detail: str) -> None:
        place = file if line is None else f"{file}, line {line}"
        super().__init__(f"{place}: {detail}")


class RowRefused(InvalidInput):
    """A row that no estimate can be compared with, and why.

    Functions that take a row raise it where the row leaves something open that an estimate depends
    on, or where its metric is not estimated; a request that is refused is ``Rejected``.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: a number with the configuration it was measured in."""

    table: str
    line: int
    cells: Mapping[str, str]

    @property
    def id(self) -> str:
        """The row's own id, else its line."""
        return self.text("row_id") or f"line {self.line}"

    @property
    def source(self) -> str:
        """Id of the publication that the number stands in."""
        return self.text("source_id") or NO_SOURCE

    @property
    def confidence(self) -> str:
        """``high``, ``medium`` or ``low``: how completely the configuration is known."""
        return self.text("confidence").lower() or "medium"

    def text(self, column: str) -> str:
        """A cell without surrounding space; empty where there is none."""
        return self.cells.get(column, "").strip()

    def number(self, column: str) -> float | None:
        """A cell as a number, or None where it is empty.

        Raises
        ------
        RowRefused
            If it is something else, not finite or negative.
        """
        text = self.text(column)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            raise RowRefused(f"{column} is not a number") from None
        if not isfinite(value) or value < 0.0:
            raise RowRefused(f"{column} is not a finite positive number")
        if value > LARGEST_NUMBER or 0.0 < value < 1.0 / LARGEST_NUMBER:
            raise RowRefused(f"{column} is beyond reason")
        return value

    def count(self, column: str) -> int | None:
        """A cell as a whole number of at least 1, or None where it is empty or 0.

        Raises
        ------
        RowRefused
            If it is no number or beyond reason.
        """
        value = self.number(column)
        if value is None or value == 0.0:
            return None
        if value > 1e9:
            raise RowRefused(f"{column} is beyond reason")
        return max(round(value), 1)

    def needed(self, column: str) -> float:
        """A cell as a number greater than zero.

        Raises
        ------
        RowRefused
            If it is empty, zero or no number.
        """
        value = self.number(column)
        if not value:
            raise RowRefused(f"{column} is missing")
        return value


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows of a directory by table, and notes about what in it was ignored."""

    rows: Mapping[str, tuple[Row, ...]]
    notes: tuple[str, ...]


def read_directory(directory: Path) -> Tables:
    """All measurements of a directory.

    Parameters
    ----------
    directory
        Holds any of the files in :data:`TABLES`, with the ending ``.csv``.

    Raises
    ------
    TableInvalid
        If there is no such directory, none of the files, or one that cannot be read.
    """
    if not directory.is_dir():
        raise TableInvalid(str(directory), None, "there is no such directory")
    rows: dict[str, tuple[Row, ...]] = {}
    notes: list[str] = []
    for path in sorted(directory.glob("*.csv")):
        if path.stem not in TABLES:
            notes.append(f"{path.name} is ignored: no file of that name is known")
            continue
        rows[path.stem], ignored = read_table(path)
        if ignored:
            notes.append(f"{path.name}: ignored columns {', '.join(ignored)}")
    if not rows:
        known = ", ".join(f"{name}.csv" for name in TABLES)
        raise TableInvalid(str(directory), None, f"there is none of {known}")
    return Tables({name: rows[name] for name in TABLES if name in rows}, tuple(notes))


def read_table(path: Path) -> tuple[tuple[Row, ...], list[str]]:
    """The rows of one file, and names of columns that mean nothing here.

    Raises
    ------
    TableInvalid
        If the file is no CSV in UTF-8 of a bearable size with the necessary columns.
    """
    table = path.stem
    reader = csv.reader(io.StringIO(_content(path), newline=""), strict=True)
    rows: list[Row] = []
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(path.name, header)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                detail = f"{len(cells)} cells under {len(header)} columns"
                raise TableInvalid(path.name, reader.line_num, detail)
            if len(rows) >= MOST_ROWS:
                raise TableInvalid(path.name, reader.line_num, f"more than {MOST_ROWS} rows")
            named = dict(zip(header, cells, strict=True))
            rows.append(Row(table, reader.line_num, MappingProxyType(named)))
    except csv.Error as error:
        raise TableInvalid(path.name, reader.line_num, str(error)) from None
    return tuple(rows), sorted(set(header) - COLUMNS[table] - {""})


def _content(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise TableInvalid(path.name, None, f"larger than {LARGEST_FILE_BYTES} bytes")
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        detail = f"not UTF-8 at byte {error.start}"
        raise TableInvalid(path.name, None, detail) from None
    except OSError as error:
        raise TableInvalid(path.name, None, error.strerror or "cannot be read") from None
    if "\0" in text:
        raise TableInvalid(path.name, text[: text.index("\0")].count("\n") + 1, "holds a NUL")
    return text


def _check_header(file: str, header: list[str]) -> None:
    missing = [name for name in REQUIRED_COLUMNS if name not in header]
    if missing:
        raise TableInvalid(file, 1, f"no column {', '.join(missing)}")
    twice = sorted({name[:40] for name in header if name and header.count(name) > 1})
    if twice:
        raise TableInvalid(file, 1, f"column {', '.join(twice)} stands twice")
