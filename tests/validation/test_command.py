"""What ``./headroom validate`` prints and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.validation.command import ValidationRefused, validation
from tests.validation.conftest import CATALOG, Written

ROW = {
    "row_id": "mine-1",
    "source_id": "mine",
    "model": "Llama-3-8B",
    "unit": "GiB",
    "hardware": "H100-SXM-80GB",
    "framework": "vLLM",
    "confidence": "high",
    "metric": "weights_per_gpu",
    "value": "14.96",
    "mood": "fine",
}


def validate(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["validate", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_json_is_keyed_by_file(written: Written) -> None:
    folder = written("memory_inference", [ROW])
    status, printed, told = validate("--data", str(folder), "--json")
    assert status == 0
    found = json.loads(printed)
    assert set(found) == {"memory_inference"}
    assert found["memory_inference"]["rows_used"] == 1
    assert found["memory_inference"]["median_error_ratio"] < 0.001
    assert "ignored columns mood" in told


def test_tables_for_people(written: Written) -> None:
    folder = written("memory_inference", [ROW, ROW | {"row_id": "b", "model": "[red]x[/red]"}])
    status, printed, _ = validate("--data", str(folder))
    assert status == 0
    assert "memory_inference: 1 rows used, 1 refused" in printed
    assert "[red]x[/red]" in printed


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"model,metric,value,unit\na,b\n"])
def test_a_hostile_file_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "memory_inference.csv").write_bytes(content)
    status, printed, told = validate("--data", str(tmp_path), "--json")
    assert (status, printed) == (1, "")
    assert told.startswith("memory_inference.csv")


def test_the_accuracy_document_is_about_the_packaged_measurements(tmp_path: Path) -> None:
    status, _, told = validate("--data", str(tmp_path), "--write-docs")
    assert status == 1
    assert "leave out --data" in told


def test_the_accuracy_document_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "accuracy.md"
    notes: list[str] = []
    validation(CATALOG, None, as_json=True, document=file, note=notes.append)
    assert file.read_text(encoding="utf-8").startswith("<!-- Written by `./headroom validate")
    assert set(json.loads(capsys.readouterr().out)) >= {"memory_inference", "energy_inference"}
    assert notes == []


def test_a_catalog_that_cannot_be_read_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "broken.yaml").write_text("id: [")
    with pytest.raises(ValidationRefused):
        validation(tmp_path, tmp_path, as_json=True, document=None, note=print)
