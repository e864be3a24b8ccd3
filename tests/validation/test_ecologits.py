from __future__ import annotations

import pytest

from service.validation.report.ecologits import accelerators_needed, beside_ecologits, request_kwh
from service.validation.report.statistics import accuracy


@pytest.mark.parametrize(
    ("billions", "kwh"), [(8.0, 3.566103e-05), (70.0, 2.630116e-04), (405.0, 3.653537e-03)]
)
def test_the_formula_gives_what_the_package_gives(billions, kwh):
    # Computed with the package, version 0.11.3: 400 output tokens, PUE 1.2.
    assert request_kwh(billions, billions, 400.0, 1.2) == pytest.approx(kwh, rel=1e-6)


@pytest.mark.parametrize(("billions", "count"), [(8.0, 1), (70.0, 4), (405.0, 16)])
def test_accelerators_are_a_power_of_two_that_holds_the_weights(billions, count):
    assert accelerators_needed(billions) == count


def test_every_measured_energy_of_known_models_has_a_peer(assessed, snapshot):
    quantities = ("accelerator_energy_per_output_token_j", "accelerator_energy_per_request_j")
    measured = [
        entry
        for entry in assessed.figures
        if entry.quantity in quantities and entry.model in snapshot.models
    ]
    beside = beside_ecologits(assessed.figures, snapshot)
    assert [entry.compared for entry in beside] == measured
    ours = accuracy([entry.compared for entry in beside])
    its = accuracy([entry.as_peer for entry in beside])
    assert ours.median_error_ratio < 0.5 * its.median_error_ratio
