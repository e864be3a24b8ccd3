"""Refits: of made measurements they find what made them, of the packaged ones what is packaged."""

from __future__ import annotations

import shutil

import pytest

from service.calibration.command import FILES, TOLERANCE_RATIO, CalibrationRefused, calibration
from service.calibration.documents import CalibrationEntry, differences, document_text
from service.calibration.training import CONSTANTS, fit_training, measured_runs, training_entries
from service.core.interval import exact
from service.core.performance.training.calibration import training_calibration
from service.core.performance.training.step import training_step
from service.estimation.training.calibrations import training_figures
from service.settings import INSTALLATION
from service.validation.packaged import Bench, read_measurements
from service.validation.rows.tables import Row

CATALOG = INSTALLATION / "hardware_catalog"
KNOWN = {constant.name: constant.usual for constant in CONSTANTS} | {
    "matrix_16bit_ratio": 0.61,
    "attention_matrix_ratio": 0.33,
    "elementwise_passes": 6.0,
    "step_s": 0.02,
}


@pytest.fixture(scope="module")
def rows() -> tuple[Row, ...]:
    return read_measurements(CATALOG, None).rows["training_speed"]


def test_a_refit_finds_the_constants_that_made_its_rows(bench: Bench, rows):
    chosen = [row for row in rows if row.source == "llm-foundry-mpt"][::4]
    runs = measured_runs(chosen, bench.vocabulary, bench.snapshot)
    host = training_figures(bench.snapshot, "default", "default")
    figures = KNOWN | {"matrix_32bit_ratio": 0.61, "step_log_sigma": 0.1}
    efficiency = training_calibration(
        {name: exact(value) for name, value in figures.items()},
        host.efficiency.performance.power,
        "made",
        True,
    )
    made = []
    for run in runs:
        setup = run.setup
        step = training_step(
            setup.deployment,
            setup.settings,
            setup.micro_batch,
            host.host(setup.deployment.accelerator),
            efficiency,
        )
        cells = dict(run.row.cells) | {"value": repr(step.tokens_per_s_per_accelerator)}
        made.append(Row("training_speed", run.row.line, cells))
    found = fit_training(measured_runs(made, bench.vocabulary, bench.snapshot), bench.snapshot)
    assert found.log_sigma < 0.02
    for name in ("matrix_16bit_ratio", "attention_matrix_ratio", "elementwise_passes"):
        assert found.values[name] == pytest.approx(KNOWN[name], rel=0.1), name


def test_packaged_constants_are_what_packaged_rows_give():
    said: list[str] = []
    quick = [file for file in FILES if file.name != "performance.yaml"]
    assert calibration(CATALOG, write=False, note=said.append, files=quick) == []
    assert any(line.startswith("training/torchtitan/nvidia-hopper: ") for line in said)
    assert any(line.startswith("power/nvidia-hopper: ") for line in said)


def test_suspect_and_unusable_rows_are_left_out(bench: Bench, rows):
    good = [row for row in rows if row.source == "torchtitan-h100"]
    doubtful = [Row(r.table, r.line, dict(r.cells) | {"confidence": "low"}) for r in good]
    strange = [Row(r.table, r.line, dict(r.cells) | {"metric": "mood"}) for r in good]
    assert measured_runs([*doubtful, *strange], bench.vocabulary, bench.snapshot) == []
    few = training_entries(good[:2], bench.vocabulary, bench.snapshot)
    assert not any(entry.fitted for entry in few)
    many = training_entries(good, bench.vocabulary, bench.snapshot)
    assert {entry.id for entry in many if entry.fitted} == {
        "training/default/nvidia-hopper",
        "training/torchtitan/nvidia-hopper",
    }


def test_what_is_written_is_what_is_read():
    entry = CalibrationEntry(
        "training/a/b", {"framework": "a"}, "Three rows.", {"x": 1e-05, "y": 0.25}, "s", 2024
    )
    text = document_text(("A file.",), [entry])
    assert text.startswith("# A file.\n- id: training/a/b\n")
    assert "x: {value: 1.0e-05, year: 2024, source: s, kind: derived" in text
    assert differences([entry], text, 1e-9) == []


def test_differences_are_named():
    def entry(id_: str, **figures: float) -> CalibrationEntry:
        return CalibrationEntry(id_, {}, "Rows.", figures, "s", 2024)

    text = document_text((), [entry("a", x=1.0, y=2.0), entry("gone", x=1.0)])
    found = differences([entry("a", x=1.01, y=2.5, z=1.0), entry("new", x=1.0)], text, 0.02)
    assert found == [
        "a: y is 2.0, the rows give 2.5",
        "a: z is not in the file",
        "new: not in the file",
        "gone: no rows give it",
    ]
    assert differences([entry("a", x=1.0)], "", TOLERANCE_RATIO) == ["a: not in the file"]


def test_writing_makes_the_files_agree(tmp_path):
    catalog = tmp_path / "catalog"
    shutil.copytree(CATALOG, catalog)
    (power,) = (file for file in FILES if file.name == "power.yaml")
    path = catalog / "calibration" / power.name
    committed = path.read_text()
    path.write_text(committed.replace("active_ratio: {value: 0.", "active_ratio: {value: 0.9"))
    assert calibration(catalog, write=False, note=str, files=[power])
    assert path.read_text() != committed
    assert calibration(catalog, write=True, note=str, files=[power])
    assert path.read_text() == committed
    assert calibration(catalog, write=False, note=str, files=[power]) == []


def test_a_catalog_that_cannot_be_read_is_said(tmp_path):
    with pytest.raises(CalibrationRefused):
        calibration(tmp_path, write=False, note=str)
