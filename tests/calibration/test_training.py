"""Constants of training speed: found where they were made, and told apart by level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from service.calibration.groups import by_source
from service.calibration.speed_terms import TERMS as SPEED_TERMS
from service.calibration.training import (
    MeasuredRun,
    measured_runs,
    predictor,
    products_entries,
    training_part,
    weights_of,
)
from service.calibration.training_terms import ALL_TERMS
from service.catalog.snapshot import CatalogSnapshot
from service.core.performance.training.measured import MEASURED, RunKind, run_kind
from service.estimation.levels import TRAINING, hardware_keys
from service.estimation.measurements.documents import MeasurementDocument
from service.settings import INSTALLATION
from service.validation.reading import read_files

KNOWN = {term.name: term.usual for term in ALL_TERMS} | {
    "matrix_16bit_ratio": 0.61,
    "attention_matrix_ratio": 0.25,
    "elementwise_passes": 6.0,
}


@pytest.fixture(scope="module")
def documents(packaged_snapshot: CatalogSnapshot) -> list[MeasurementDocument]:
    files = read_files(INSTALLATION / "hardware_catalog" / "measurements", packaged_snapshot)
    lines = (line for file in files.values() for line in file)
    return [line.document for line in lines if line.document is not None]


@pytest.fixture(scope="module")
def runs(
    documents: list[MeasurementDocument], packaged_snapshot: CatalogSnapshot
) -> list[MeasuredRun]:
    return measured_runs(documents, packaged_snapshot)


def of_source(runs: list[MeasuredRun], source: str, every: int = 1) -> list[MeasuredRun]:
    return [run for run in runs if run.source == source][::every]


def test_kinds_of_runs_that_count_as_timed_are_those_of_the_rows(runs: list[MeasuredRun]) -> None:
    found: dict[str, set[RunKind]] = {}
    for run in runs:
        setup = run.trained.speed.setup
        kind = run_kind(setup.deployment, setup.settings)
        found.setdefault(run.keys["class"], set()).add(kind)
    assert found == {name: set(kinds) for name, kinds in MEASURED.items()}


def made_by(runs: list[MeasuredRun], values: dict[str, float]) -> list[MeasuredRun]:
    """The runs as they would have been measured if constants were these."""
    columns = {name: np.full((len(runs), 1), value) for name, value in values.items()}
    logs = predictor(runs)(range(len(runs)), columns)[:, 0]
    return [
        replace(run, measured=float(made)) for run, made in zip(runs, np.exp(logs), strict=True)
    ]


def test_a_fit_finds_the_constants_that_made_its_rows(runs, packaged_snapshot):
    chosen = made_by(of_source(runs, "llm-foundry-training-benchmarks", every=4), KNOWN)
    part = training_part(chosen, packaged_snapshot)
    # Not exactly: attention of the two families is usually not as alike as what made these.
    assert np.abs(part.fitted.residuals).max() < 0.06
    values = part.fitted.values(chosen[0].keys)
    for name in ("matrix_16bit_ratio", "elementwise_passes"):
        assert values[name] == pytest.approx(KNOWN[name], rel=0.15), name


def test_constants_stand_at_the_level_that_causes_them(runs, packaged_snapshot):
    slow = made_by(of_source(runs, "torchtitan-h100-benchmarks", every=2), KNOWN)
    ampere = [run for run in of_source(runs, "ibm-fms-fsdp") if "ampere" in run.keys["family"]]
    quick = made_by(ampere, KNOWN | {"matrix_16bit_ratio": 0.85})
    part = training_part([*slow, *quick], packaged_snapshot)
    entries = {entry.id: entry for entry in part.entries()}
    assert set(TRAINING) <= set(entries)
    hopper = entries["training-speed/hardware/nvidia-hopper"]
    assert hopper.applies_to["vendor"] == "nvidia"
    assert hopper.figures["matrix_32bit_ratio"] == hopper.figures["matrix_16bit_ratio"]
    assert (
        hopper.figures["matrix_16bit_ratio"]
        < (entries["training-speed/hardware/nvidia-ampere"].figures["matrix_16bit_ratio"])
    )
    assert "training-speed/frameworks/torchtitan" in entries
    assert "training-speed/attention/fsdp-like/nvidia-ampere" in entries


def test_a_source_is_estimated_without_its_own_rows(runs, packaged_snapshot):
    chosen = [
        *of_source(runs, "torchtitan-h100-benchmarks", every=3),
        *of_source(runs, "ibm-fms-fsdp"),
        *of_source(runs, "torchtune-readme"),
    ]
    part = training_part(chosen, packaged_snapshot)
    (own,) = by_source(row.document for row in chosen if row.source == "torchtune-readme")
    ids = {entry.id for entry in part.entries_without(own)}
    assert "training-speed/frameworks/torchtune" not in ids
    assert "training-speed/frameworks/torchtitan" in ids
    (spread,) = part.spreads()
    assert spread.id == "training-speed/spread"
    assert {"source_log_sigma", "model_log_sigma", "row_log_sigma"} <= set(spread.figures)
    assert spread.figures["waiting_spread_ratio"] > 1.0
    assert spread.figures["unmeasured_hardware_family_compute_spread_ratio"] > 0.0


def test_power_limits_products_of_training_as_it_does_those_of_serving():
    # Joules of a multiplication are the chip's, whoever asks for it.
    training, serving = (
        next(term for term in terms if term.name == "matrix_flops_per_joule")
        for terms in (ALL_TERMS, SPEED_TERMS["speed/hardware"])
    )
    for family in ("nvidia-ada", "nvidia-hopper", "amd-cdna3"):
        keys = hardware_keys(family)
        usual = (one.value(one.usual_place(keys)) for one in (training, serving))
        assert next(usual) == pytest.approx(next(usual), rel=1e-6)


def test_what_sources_leave_open_says_less(runs):
    def weight(assumed: tuple[str, ...]) -> float:
        (run,) = of_source(runs, "hf-model-memory-anatomy")
        return replace(run, document=run.document.model_copy(update={"assumed": assumed})).weight

    assert weight(()) == 1.0
    assert weight(("/request/training/optimizer",)) == 0.5
    assert weight(("/request/parallelism/tensor", "/request/precision")) == 0.25
    many = of_source(runs, "torchtitan-h100-benchmarks")
    assert sum(weights_of(many)) < len(many)
    assert sum(weights_of([*many, *many])) < 2 * sum(weights_of(many))


def test_doubtful_and_strange_runs_are_not_fitted_to(documents, packaged_snapshot):
    def changed(**fields: Any) -> list[MeasurementDocument]:
        return [
            document.model_copy(update=fields)
            for document in documents
            if document.source == "ibm-fms-fsdp"
        ]

    assert measured_runs(changed(), packaged_snapshot)
    assert measured_runs(changed(confidence="low"), packaged_snapshot) == []
    assert measured_runs(changed(measured={"allocated_bytes": 1e9}), packaged_snapshot) == []
    assert measured_runs(changed(measured={"step_s": 1e6}), packaged_snapshot) == []


def test_hardware_whose_best_product_alone_is_known_reaches_as_much_of_it(runs, packaged_snapshot):
    part = training_part(of_source(runs, "ibm-fms-fsdp"), packaged_snapshot)
    entries = {entry.id: entry for entry in products_entries(part.fitted, (), packaged_snapshot)}
    slower = entries["training-speed/hardware/amd-cdna3"].figures["matrix_16bit_ratio"]
    faster = entries["training-speed/hardware/intel-gaudi"].figures["matrix_16bit_ratio"]
    assert slower < part.fitted.values({})["matrix_16bit_ratio"] < faster
    assert not any(entry.fitted for entry in entries.values())
