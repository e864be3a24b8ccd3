"""Rows that are left out of a fit are estimated by what the others teach."""

from __future__ import annotations

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from service.calibration.command import FILES
from service.calibration.holdout import (
    by_family,
    by_model,
    fitted_rows,
    holdout_document,
    holdout_outcomes,
)
from service.catalog.files import packaged_documents
from service.cli import app
from service.settings import INSTALLATION
from service.validation.former.compared import assess, summary
from service.validation.packaged import Bench, read_measurements
from service.validation.rows.tables import Tables

CATALOG = INSTALLATION / "hardware_catalog"


@pytest.fixture(scope="module")
def tables() -> Tables:
    return fitted_rows(read_measurements(CATALOG, None))


@pytest.fixture(scope="module")
def transformers(tables: Tables) -> Tables:
    """Few enough to be fitted again and again."""
    rows = tables.rows["latency_inference"]
    quick = tuple(
        row
        for row in rows
        if row.source in ("qwen1-readme", "qwen25-speed") and "vLLM" not in row.text("framework")
    )
    return replace(tables, rows={"latency_inference": quick})


def test_only_what_constants_are_fitted_to_is_left_out(tables: Tables) -> None:
    assert set(tables.rows) == {"latency_inference", "energy_inference", "training_speed"}


def test_models_left_out_are_further_off_and_no_row_is_lost(
    bench: Bench, transformers: Tables
) -> None:
    seen = assess(transformers, bench.vocabulary, bench.snapshot)["latency_inference"]
    said: list[str] = []
    documents = packaged_documents(CATALOG)
    found = holdout_outcomes(documents, bench, transformers, by_model(transformers), said.append)
    held_out = found["latency_inference"]
    assert len(said) == 5
    assert (held_out.rows, len(held_out.compared)) == (seen.rows, len(seen.compared))
    assert {one.row.id for one in held_out.compared} == {one.row.id for one in seen.compared}
    by_id = {one.row.id: one.value for one in seen.compared}
    assert any(one.value != by_id[one.row.id] for one in held_out.compared)
    errors = [summary(one.compared)["p90_error_ratio"] for one in (seen, held_out)]
    assert errors[0] < errors[1]

    page = holdout_document(found, found)
    assert "Decode: time per token" in page
    assert "Training memory" not in page


def test_a_family_left_out_is_estimated_by_usual_values(bench: Bench, transformers: Tables) -> None:
    documents = packaged_documents(CATALOG)
    family_of = by_family(bench)
    assert {family_of(row) for row in transformers.rows["latency_inference"]} == {"nvidia-ampere"}
    found = holdout_outcomes(documents, bench, transformers, family_of, lambda _: None)
    for one in found["latency_inference"].compared:
        assert one.high / one.low > 2.5


def test_files_know_their_entries() -> None:
    calibrations = packaged_documents(CATALOG)["calibrations"]
    held = [[id_ for id_ in calibrations if file.holds(id_)] for file in FILES]
    assert [len(ids) for ids in held] == [20, 4, 10]
    assert not any("training/host" in ids for ids in held)


def test_a_catalog_that_cannot_be_read_is_said(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HEADROOM_CATALOG_DIRECTORY", str(tmp_path))
    result = CliRunner().invoke(app, ["cross-validate"])
    assert result.exit_code == 1
    assert str(tmp_path) in result.stderr
