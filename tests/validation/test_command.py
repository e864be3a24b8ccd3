"""What ``./headroom validate`` prints and writes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.catalog.snapshot import CatalogSnapshot
from service.cli import app
from service.validation import command
from service.validation.command import ValidationRefused, validation
from service.validation.packaged import packaged_lines
from service.validation.reading import Line
from tests.validation.conftest import CATALOG, DOCUMENT, Written


def validate(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["validate", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_json_is_keyed_by_file(written: Written) -> None:
    status, printed, _ = validate("--data", str(written(DOCUMENT)), "--json")
    assert status == 0
    found = json.loads(printed)
    assert set(found) == {"own.jsonl"}
    content = found["own.jsonl"]
    assert (content["rows_used"], content["rows_refused"]) == (1, 0)
    assert content["median_error_ratio"] < 0.001
    assert content["by_metric"]["weights_bytes"]["figures"] == 1
    assert content["by_source"]["mine"]["p90_error_ratio"] < 0.001
    assert "left_out" not in content


def test_several_files_are_reported_apart_and_together(written: Written) -> None:
    written(DOCUMENT, name="a.jsonl")
    folder = written(DOCUMENT, DOCUMENT | {"id": "b"}, name="b.jsonl").parent
    found = json.loads(validate("--data", str(folder), "--json")[1])
    assert {name: content["rows_used"] for name, content in found.items()} == {
        "a.jsonl": 1,
        "b.jsonl": 2,
        "all": 3,
    }


def test_files_of_another_kind_in_a_folder_are_left_out_with_a_note(written: Written) -> None:
    folder = written(DOCUMENT).parent
    (folder / "people.jsonl").write_text('{"id": "mine", "title": "Mine"}\n')
    status, printed, told = validate("--data", str(folder), "--json")
    assert status == 0
    assert set(json.loads(printed)) == {"own.jsonl"}
    assert told.startswith("left out: people.jsonl, line 1")


def test_tables_for_people(written: Written) -> None:
    strange = DOCUMENT | {"id": "b", "request": DOCUMENT["request"] | {"model": "[red]x[/red]"}}
    status, printed, _ = validate("--data", str(written(DOCUMENT, strange)))
    assert status == 0
    assert "own.jsonl: 1 rows used, 1 refused" in printed
    assert "[red]x[/red]" in printed


def test_what_cannot_be_compared_is_refused_and_the_rest_is_not(written: Written) -> None:
    documents = (
        DOCUMENT | {"id": "a", "measured": {"tpot_s": 0.01, "happiness": 3.0}},
        DOCUMENT | {"id": "b", "measured": {"happiness": 3.0}},
        DOCUMENT | {"id": "c", "confidence": "low"},
        DOCUMENT | {"id": "d", "measured": {"tpot_s": 12.0}},
        DOCUMENT | {"id": "e", "measured": {"out_of_memory": True}},
        DOCUMENT | {"id": "f", "kind": "nothing"},
    )
    found = json.loads(validate("--data", str(written(*documents)), "--json")[1])["own.jsonl"]
    assert found["rows"] == 6
    assert found["rows_used"] == 3
    assert found["rows_of_low_confidence"] == 1
    assert found["rows_refused"] == 2
    assert found["figure_refusals"] == {"no estimate of inference gives 'happiness'": 1}
    assert found["figures_implausible"] == 1
    assert found["worst"][0]["implausible"] is True
    assert found["fit_tests"] == {"rows": 1, "right": 0, "wrong": 1, "wrong_rows": ["e"]}
    assert found["low_confidence"]["figures"] == 1


def test_an_unknown_engine_is_used_with_a_note(written: Written) -> None:
    request = DOCUMENT["request"] | {"serving": {"engine": "swift-engine"}}
    path = written(DOCUMENT | {"request": request})
    found = json.loads(validate("--data", str(path), "--json")[1])["own.jsonl"]
    assert found["rows_used"] == 1
    assert any("swift-engine" in text for text in found["warnings"])
    assert "swift-engine" in validate("--data", str(path))[1]


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", gzip.compress(b"{}", mtime=0), b'{"kind": 1\n']
)
def test_a_hostile_file_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "own.jsonl").write_bytes(content)
    status, printed, told = validate("--data", str(tmp_path), "--json")
    assert (status, printed) == (1, "")
    assert told.startswith("own.jsonl")


def test_the_accuracy_document_is_about_the_packaged_measurements(tmp_path: Path) -> None:
    status, _, told = validate("--data", str(tmp_path), "--write-docs")
    assert status == 1
    assert "leave out --data" in told


def test_a_catalog_that_cannot_be_read_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "broken.yaml").write_text("id: [")
    with pytest.raises(ValidationRefused, match=r"broken\.yaml"):
        validation(tmp_path, None, as_json=True, document=None, note=print)


def test_the_accuracy_document_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def some_lines(catalog: Path, snapshot: CatalogSnapshot) -> dict[str, tuple[Line, ...]]:
        """Four of each file: all of them say no more of how they are written down."""
        return {name: each[:4] for name, each in packaged_lines(catalog, snapshot).items()}

    monkeypatch.setattr(command, "packaged_lines", some_lines)
    file = tmp_path / "accuracy.md"
    validation(CATALOG, None, as_json=True, document=file, note=print)
    text = file.read_text(encoding="utf-8")
    assert text.startswith("<!-- Written by `./headroom validate")
    assert text.index("left out: median error") < text.index("in sample: median")
    assert "## What own reports change" in text
    assert set(json.loads(capsys.readouterr().out)) >= {"all", "mlperf-training-v4.0.jsonl"}
