"""Refits: of made measurements they find what made them, of the packaged ones what is packaged."""

from __future__ import annotations

import pytest

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
