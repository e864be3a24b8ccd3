from __future__ import annotations

import pytest

from service.validation.report.ecologits import accelerators_needed, beside_ecologits, request_kwh


@pytest.mark.parametrize(
    ("billions", "kwh"), [(8.0, 3.566103e-05), (70.0, 2.630116e-04), (405.0, 3.653537e-03)]
)
def test_the_formula_gives_what_the_package_gives(billions, kwh):
    # Computed with the package, version 0.11.3: 400 output tokens, PUE 1.2.
    assert request_kwh(billions, billions, 400.0, 1.2) == pytest.approx(kwh, rel=1e-6)


@pytest.mark.parametrize(("billions", "count"), [(8.0, 1), (70.0, 4), (405.0, 16)])
def test_accelerators_are_a_power_of_two_that_holds_the_weights(billions, count):
    assert accelerators_needed(billions) == count


def test_every_measured_energy_of_known_models_has_a_peer(outcomes):
    compared = outcomes["energy_inference"].compared
    metrics = ("energy_per_output_token", "energy_per_request")
    measured = [entry for entry in compared if entry.metric in metrics]
    beside = beside_ecologits(compared)
    assert [entry.compared for entry in beside] == measured
    ours = sorted(abs(entry.compared.error_ratio) for entry in beside)
    peers = sorted(abs(entry.peer_error_ratio) for entry in beside)
    assert ours[len(ours) // 2] < 0.5 * peers[len(peers) // 2]
