"""Constants of memory: found where they were made, and as wide as left-out sources need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.calibration.memory import (
    ALL_TERMS,
    MeasuredMemory,
    fit_memory,
    measured_memory,
    memory_part,
    predictor,
)
from service.calibration.sizes import likeliest
from service.catalog.snapshot import CatalogSnapshot
from service.core.interval import Z_90
from service.estimation.measurements.documents import MeasurementDocument
from service.settings import INSTALLATION
from service.validation.reading import read_files

KNOWN = {term.name: term.usual for term in ALL_TERMS} | {
    "context_bytes": 7e8,
    "activation_ratio": 1.3,
    "workspace_bytes": 3.5e7,
}
SOURCES = ("qwen25-speed-benchmark", "premai-a100", "vllm-issue-15815")


@pytest.fixture(scope="module")
def documents(packaged_snapshot: CatalogSnapshot) -> list[MeasurementDocument]:
    files = read_files(INSTALLATION / "hardware_catalog" / "measurements", packaged_snapshot)
    lines = (line for file in files.values() for line in file)
    return [line.document for line in lines if line.document is not None]


@pytest.fixture(scope="module")
def rows(
    documents: list[MeasurementDocument], packaged_snapshot: CatalogSnapshot
) -> list[MeasuredMemory]:
    chosen = [document for document in documents if document.source in SOURCES]
    return measured_memory(chosen, packaged_snapshot)[::3]


def made_by(rows: list[MeasuredMemory], values: dict[str, float]) -> list[MeasuredMemory]:
    """The rows as they would have been measured if constants were these."""
    columns = {name: np.full((len(rows), 1), value) for name, value in values.items()}
    logs = predictor(rows)(range(len(rows)), columns)[:, 0]
    return [
        replace(row, measured=float(made)) for row, made in zip(rows, np.exp(logs), strict=True)
    ]


def test_a_fit_finds_the_constants_that_made_its_rows(rows):
    fitted = fit_memory(made_by(rows, KNOWN))
    found = fitted.values({"class": "eager", "engine": "transformers"})
    assert np.max(np.abs(fitted.residuals)) < 0.03
    assert found["activation_ratio"] == pytest.approx(1.3, rel=0.03)
    assert found["context_bytes"] == pytest.approx(7e8, rel=0.3)


def test_rows_of_low_confidence_and_of_other_quantities_are_left_out(documents, packaged_snapshot):
    low = [
        document
        for document in documents
        if document.confidence == "low" or document.kind != "inference"
    ]
    assert low
    assert measured_memory(low, packaged_snapshot) == []


def test_spreads_name_what_they_come_from_and_hold_what_they_are_to(rows, packaged_snapshot):
    part = memory_part(rows, packaged_snapshot)
    every = part.spreads()[0]
    assert every.id == "memory/spread"
    # However well sources agree: what is read as memory differs between publishers by percents.
    assert every.figures["size_log_sigma"] >= 0.025
    assert every.figures["overhead_log_sigma"] >= 0.12
    assert "each source estimated by constants fitted without it" in every.note
    inside = int(every.note.split("and ")[-1].split("%")[0])
    assert 85 <= inside <= 100


def test_spreads_are_divided_as_errors_are_and_hold_enough():
    random = np.random.default_rng(3)
    shares = np.stack(
        [random.uniform(0.5, 1.0, 400), random.uniform(0.0, 0.5, 400), np.zeros(400)], axis=1
    )
    spread = np.hypot(shares[:, 0] * 0.02, shares[:, 1] * 0.3)
    errors = np.abs(random.normal(0.0, spread))
    weights = np.full(400, 1.0 / 400.0)
    sizes, overheads = likeliest(errors, shares, weights)
    found = np.hypot(shares[:, 0] * sizes, shares[:, 1] * overheads)
    assert np.mean(errors <= Z_90 * found) == pytest.approx(0.87, abs=0.02)
    assert 0.01 <= sizes <= 0.03
    assert 0.2 <= overheads <= 0.4
    # A row in twenty that is far off, as a table with a slip has, does not decide on the others.
    errors[::20] = 0.5
    sizes, overheads = likeliest(errors, shares, weights)
    assert sizes <= 0.06
    assert overheads <= 0.5


def test_no_spread_is_surer_than_the_least_that_is_asked_for():
    shares = np.tile([1.0, 0.2, 0.0], (50, 1))
    weights = np.full(50, 0.02)
    assert likeliest(np.full(50, 1e-4), shares, weights, 0.9, (0.03, 0.2)) == (0.03, 0.2)


def test_a_row_of_something_else_does_not_run_constants_away(rows):
    """Room that lacks several gigabytes of another cause is not what libraries take everywhere."""
    made = made_by(rows, KNOWN)
    engine = {"class": "compiled", "engine": "vllm"}
    at, odd = next(
        (at, row) for at, row in enumerate(made) if row.quantity == "kv_cache_budget_bytes"
    )
    without = fit_memory([row for number, row in enumerate(made) if number != at])
    far_off = fit_memory([*made[:at], replace(odd, measured=odd.measured / 2.0), *made[at + 1 :]])
    before, after = (fitted.values(engine)["counted_bytes"] for fitted in (without, far_off))
    assert after < 3.0 * before
