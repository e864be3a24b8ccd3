"""Constants of training memory: found where they were made, as wide as left-out sources need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.calibration.training_memory import (
    ALL_TERMS,
    MeasuredTrainingMemory,
    fit_training_memory,
    measured_training_memory,
    predictor,
    training_memory_part,
)
from service.catalog.snapshot import CatalogSnapshot
from service.core.interval import Z_90
from service.estimation.measurements.documents import MeasurementDocument
from service.settings import INSTALLATION
from service.validation.reading import read_files

KNOWN = {term.name: term.usual for term in ALL_TERMS} | {
    "fragmentation_ratio": 0.2,
    "activation_ratio": 1.1,
}
SOURCES = ("torchtitan-h100-benchmarks", "torchtune-readme", "qwen1-finetuning-benchmarks")


@pytest.fixture(scope="module")
def documents(packaged_snapshot: CatalogSnapshot) -> list[MeasurementDocument]:
    files = read_files(INSTALLATION / "hardware_catalog" / "measurements", packaged_snapshot)
    lines = (line.document for file in files.values() for line in file)
    return [document for document in lines if document is not None and document.source in SOURCES]


@pytest.fixture(scope="module")
def rows(
    documents: list[MeasurementDocument], packaged_snapshot: CatalogSnapshot
) -> list[MeasuredTrainingMemory]:
    return measured_training_memory(documents, packaged_snapshot)[::3]


def test_a_fit_finds_the_constants_that_made_its_rows(rows):
    columns = {name: np.full((len(rows), 1), value) for name, value in KNOWN.items()}
    made = np.exp(predictor(rows)(range(len(rows)), columns)[:, 0])
    fitted = fit_training_memory(
        [replace(row, measured=float(size)) for row, size in zip(rows, made, strict=True)]
    )
    found = fitted.values({"class": "trainer-like", "engine": "transformers"})
    assert np.max(np.abs(fitted.residuals)) < 0.03
    assert found["activation_ratio"] == pytest.approx(1.1, rel=0.06)
    # What allocators reserve beyond tensors is read of torchtitan's rows alone.
    reserving = fitted.values({"class": "fsdp-like", "engine": "torchtitan"})
    assert reserving["fragmentation_ratio"] == pytest.approx(0.2, rel=0.3)


def test_rows_of_low_confidence_are_left_out(documents, packaged_snapshot):
    low = [document for document in documents if document.confidence == "low"]
    assert low
    assert measured_training_memory(low, packaged_snapshot) == []


def test_spreads_come_from_sources_left_out(rows, packaged_snapshot):
    part = training_memory_part(rows, packaged_snapshot)
    every = part.spreads()[0]
    assert every.id == "training-memory/spread"
    assert "3 sources" in every.note or all(source in every.note for source in SOURCES)
    assert every.figures["size_log_sigma"] >= 0.03
    # Neither is surer than what is known of allocators and activations anyway.
    assert every.figures["activation_log_sigma"] >= 0.03
    assert every.figures["overhead_log_sigma"] >= 0.4
    [first] = [entry for entry in part.entries() if entry.id == "training-memory/frameworks"]
    assert set(first.figures) == {term.name for term in ALL_TERMS}


def test_a_source_that_is_far_off_widens_the_spread_that_its_rows_depend_on(
    rows, packaged_snapshot
):
    """Not the one that costs least: sizes where large sums are off, overheads where small are."""
    part = training_memory_part(rows, packaged_snapshot)

    def spread(shares, errors):
        weights = np.full(len(errors), 1.0 / len(errors))
        found, sigmas = part.spread_of_errors([], np.array(errors), np.array(shares), weights, {})
        assert (np.array(errors) <= Z_90 * sigmas).mean() >= 0.9
        return found

    large, small = (0.9, 0.05, 0.05, 0.0), (0.5, 0.05, 0.5, 0.0)
    calm = spread([large] * 10 + [small] * 10, [0.01] * 20)
    sizes = spread([large] * 10 + [small] * 10, [0.14] * 10 + [0.01] * 10)
    overheads = spread([large] * 10 + [small] * 10, [0.01] * 10 + [0.5] * 10)
    assert sizes["size_log_sigma"] > 1.5 * calm["size_log_sigma"]
    assert overheads["overhead_log_sigma"] > 1.3 * calm["overhead_log_sigma"]
    assert overheads["size_log_sigma"] < sizes["size_log_sigma"]
