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
    assert every.figures["size_log_sigma"] >= 0.006
    assert every.figures["overhead_log_sigma"] >= 0.08
    [first] = [entry for entry in part.entries() if entry.id == "training-memory/frameworks"]
    assert set(first.figures) == {term.name for term in ALL_TERMS}
