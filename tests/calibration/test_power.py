"""Refits of power: of made measurements they find what made them, of packaged ones the spread."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.calibration.power import (
    MeasuredPower,
    fit_power,
    left_out_log_sigma,
    measured_powers,
    power_entries,
)
from service.core.impacts.energy import deployment_power
from service.core.performance.calibration import PowerModel
from service.settings import INSTALLATION
from service.validation.packaged import Bench, read_measurements
from service.validation.rows.tables import Row
from tests.core.deployments import H100, INFRASTRUCTURE

CATALOG = INSTALLATION / "hardware_catalog"
TRUE = PowerModel(0.35, 0.6, 1.1, 0.1, resident_ratio=0.1)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    tables = read_measurements(CATALOG, None).rows
    return [*tables["energy_inference"], *tables["latency_inference"]]


@pytest.fixture(scope="module")
def powers(rows, bench: Bench) -> list[MeasuredPower]:
    return measured_powers(rows, bench.vocabulary, bench.snapshot)


def made(power: MeasuredPower) -> MeasuredPower:
    """The same run with the power that the core computes from known constants."""
    device = replace(H100, thermal_design_power_w=700.0)
    watts = deployment_power(device, 1, power.usage, TRUE, INFRASTRUCTURE).busy_power_w.value
    return replace(power, idle_w=70.0, thermal_design_power_w=700.0, measured_w=watts)


def test_a_refit_finds_the_constants_that_made_its_rows(powers):
    found = fit_power([made(power) for power in powers]).values
    assert found["resident_ratio"] == pytest.approx(TRUE.resident_ratio, abs=0.02)
    assert found["active_ratio"] == pytest.approx(TRUE.active_ratio, abs=0.05)
    assert found["memory_ratio"] == pytest.approx(TRUE.memory_ratio, abs=0.05)
    assert found["compute_ratio"] == pytest.approx(TRUE.compute_ratio, abs=0.08)


def test_energy_with_throughput_counts_as_power(powers):
    of_energy = [power for power in powers if power.row.text("metric") == "energy_per_request"]
    assert len(of_energy) == 43
    # CodeLlama-13B on one A100, 32 requests in flight.
    assert of_energy[0].measured_w == pytest.approx(287, rel=0.01)
    assert all(50.0 < power.measured_w < power.thermal_design_power_w for power in powers)


def test_models_left_out_of_the_fit_are_met_almost_as_well(powers):
    spread = left_out_log_sigma(powers, lambda power: power.model)
    assert 0.05 < spread < 0.25


def test_energy_without_throughput_and_suspect_rows_are_left_out(rows, bench: Bench):
    energies = [row for row in rows if row.text("metric") == "energy_per_request"]
    assert measured_powers(energies, bench.vocabulary, bench.snapshot) == []
    doubtful = [
        Row(row.table, row.line, dict(row.cells) | {"confidence": "low"})
        for row in rows
        if row.text("metric") == "avg_power"
    ]
    assert measured_powers(doubtful, bench.vocabulary, bench.snapshot) == []


def test_too_few_rows_make_no_entry(rows, bench: Bench):
    few = [row for row in rows if row.text("metric") == "avg_power"][:5]
    assert power_entries(few, bench.vocabulary, bench.snapshot) == []


def test_unmeasured_hardware_is_given_a_wider_interval(rows, bench: Bench):
    entries = {entry.id: entry for entry in power_entries(rows, bench.vocabulary, bench.snapshot)}
    unmeasured = entries.pop("power/default")
    assert not unmeasured.fitted
    assert set(entries) == {
        "power/nvidia-ampere",
        "power/nvidia-blackwell",
        "power/nvidia-hopper",
    }
    for entry in entries.values():
        assert entry.figures["power_log_sigma"] < unmeasured.figures["power_log_sigma"]
