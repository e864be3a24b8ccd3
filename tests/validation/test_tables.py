"""Files that anybody may have written are read or refused with a place and a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.validation.rows import tables
from service.validation.rows.tables import Row, RowRefused, TableInvalid, read_directory
from tests.validation.conftest import Written

HEADER = "model,metric,value,unit"


def row(**cells: str) -> Row:
    return Row("memory_inference", 2, cells)


def test_rows_columns_and_files_that_mean_nothing_are_noted(written: Written) -> None:
    folder = written(
        "memory_inference",
        [{"model": "m", "metric": "k", "value": "1", "unit": "GB", "mood": "fine"}],
    )
    (folder / "diary.csv").write_text("a,b\n")
    (folder / "readme.txt").write_text("not for us")
    found = read_directory(folder)
    assert [entry.text("model") for entry in found.rows["memory_inference"]] == ["m"]
    assert found.notes == (
        "diary.csv is ignored: no file of that name is known",
        "memory_inference.csv: ignored columns mood",
    )


def test_a_byte_order_mark_blank_lines_and_quoted_breaks_do_no_harm(tmp_path: Path) -> None:
    content = '\ufeffmodel,metric,value,unit\r\n\r\n"two\nlines",k,1,GB\r\n,,,\r\n'
    (tmp_path / "training_speed.csv").write_bytes(content.encode())
    [entry] = read_directory(tmp_path).rows["training_speed"]
    assert entry.text("model") == "two\nlines"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no column model, metric, value, unit"),
        (b"model,metric\n", "no column value, unit"),
        (b"model,metric,value,unit,value\n", "column value stands twice"),
        (f"{HEADER}\na,b,1\n".encode(), "line 2: 3 cells under 4 columns"),
        (f"{HEADER}\na,b,1,GB,5\n".encode(), "line 2: 5 cells under 4 columns"),
        (f"{HEADER}\na,b,\xff,GB\n".encode("latin-1"), "not UTF-8 at byte 28"),
        (f"{HEADER}\na,b,\0,GB\n".encode(), "line 2: holds a NUL"),
        (f'{HEADER}\na,b,"1,GB\n'.encode(), "unexpected end of data"),
        (f"{HEADER}\na,b,1,{'x' * 200_000}\n".encode(), "field larger than field limit"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "memory_inference.csv").write_bytes(content)
    with pytest.raises(TableInvalid, match=r"memory_inference\.csv") as refused:
        read_directory(tmp_path)
    assert told in str(refused.value)


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memory_inference.csv"
    file.write_text(f"{HEADER}\n" + "a,b,1,GB\n" * 3)
    monkeypatch.setattr(tables, "MOST_ROWS", 2)
    with pytest.raises(TableInvalid, match="line 4: more than 2 rows"):
        read_directory(tmp_path)
    monkeypatch.setattr(tables, "LARGEST_FILE_BYTES", 10)
    with pytest.raises(TableInvalid, match="larger than 10 bytes"):
        read_directory(tmp_path)


def test_a_directory_needs_measurements(tmp_path: Path) -> None:
    with pytest.raises(TableInvalid, match="there is no such directory"):
        read_directory(tmp_path / "nowhere")
    with pytest.raises(TableInvalid, match=r"there is none of memory_inference\.csv"):
        read_directory(tmp_path)


@pytest.mark.parametrize("text", ["fast", "nan", "inf", "-1", "1e999", "0x10"])
def test_cells_that_are_no_number_refuse_the_row(text: str) -> None:
    with pytest.raises(RowRefused, match="value is not a"):
        row(value=text).number("value")


def test_numbers_of_cells() -> None:
    entry = row(value=" 2.5 ", batch="7.94", zero="0", huge="1e12")
    assert entry.number("value") == 2.5
    assert entry.number("missing") is None
    assert entry.count("batch") == 8
    assert entry.count("zero") is None
    with pytest.raises(RowRefused, match="beyond reason"):
        entry.count("huge")
    with pytest.raises(RowRefused, match="zero is missing"):
        entry.needed("zero")


def test_defaults_of_a_row() -> None:
    entry = row()
    assert (entry.id, entry.source, entry.confidence) == ("line 2", "no source given", "medium")
