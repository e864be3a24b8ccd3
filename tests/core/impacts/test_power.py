"""Power by what accelerators do and the machine they are in, and the energy of requests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.explanation import explain
from service.core.impacts.energy import POWER, REQUEST, deployment_power, request_energy
from service.core.interval import Interval, exact
from service.core.performance.usage import PhaseUse, Usage, phase_use
from service.core.platform import ALONE
from tests.core.deployments import CALIBRATION, H100, INFRASTRUCTURE, SERVER

PROMPTS = PhaseUse(0.2, 0.95, 0.8e12, 6e14)
DECODING = PhaseUse(0.8, 0.7, 2.2e12, 0.5e14)
USAGE = Usage(0.6, 0.2, 1.0, (PROMPTS, DECODING))


def power_of(usage=USAGE, accelerator=H100, count=8, model=CALIBRATION.power):
    return deployment_power(accelerator, count, usage, model, INFRASTRUCTURE)


@given(
    kernels=st.floats(0.0, 1.0),
    moved=st.floats(0.0, 3.35e12),
    computed=st.floats(0.0, 1e15),
    busy=st.floats(0.0, 1.0),
    prompts=st.floats(0.0, 1.0),
    limit=st.floats(80.0, 700.0),
)
def test_power_stays_between_idle_and_its_limit(kernels, moved, computed, busy, prompts, limit):
    limited = replace(H100, power_limit_w=limit)
    phases = (
        PhaseUse(prompts, kernels, moved / 2.0, computed),
        PhaseUse(1.0 - prompts, kernels, moved, computed / 10.0),
    )
    power = power_of(Usage(0.5, 0.5, busy, phases), limited)
    for one in (power.busy_power_w, *(phase.power_w for phase in power.phases)):
        assert 60.0 <= one.low <= one.value <= one.high <= limit
    assert power.accelerator_mean_power_w.value <= power.busy_power_w.value + 1e-9
    assert power.it_power_w.high <= SERVER.rated_power_w


def test_the_power_of_phases_adds_up_and_all_of_it_to_that_of_the_machine():
    power = power_of()
    assert power.prefill is not None
    assert power.prefill.power_w.value > power.main.power_w.value
    assert power.busy_power_w.value == pytest.approx(
        0.2 * power.prefill.power_w.value + 0.8 * power.main.power_w.value
    )
    at_socket = (8 * power.accelerator_mean_power_w.value + 2000.0) / 0.95
    assert power.it_power_w.value == pytest.approx(at_socket)
    assert power.it_power_w.value == pytest.approx(
        8 * (power.accelerator_mean_power_w.value + power.host_power_w.value)
    )


def test_a_share_of_a_shared_machine_is_carried_and_all_of_an_own_one():
    alone = replace(H100, platform=replace(SERVER, shared_ratio=0.0))
    eight, one = power_of(), power_of(count=1)
    assert one.machines == pytest.approx(1 / 8)
    assert one.host_power_w.value == pytest.approx(eight.host_power_w.value)
    own = power_of(accelerator=alone, count=1)
    assert own.machines == 1.0
    assert own.host_power_w.value > 7 * one.host_power_w.value
    assert power_of(accelerator=alone, count=9).machines == 2.0


def test_a_whole_machine_has_no_host_to_pay_for_twice():
    power = power_of(accelerator=replace(H100, platform=ALONE), count=1)
    assert power.host_power_w.value == 0.0
    assert power.it_power_w.value == power.accelerator_mean_power_w.value


def test_hosts_rest_while_nothing_is_asked():
    rest = Usage(0.0, 0.0, 0.0, (PhaseUse(1.0, 0.0, 0.0, 0.0),))
    power = power_of(rest)
    assert power.accelerator_mean_power_w.value == pytest.approx(70.0)
    assert power.it_power_w.value == pytest.approx((8 * 70.0 + 1200.0) / 0.95)


def test_what_works_draws_no_less_than_what_waits():
    # A program that is there keeps clocks up, whatever the fitted share of residents says.
    waiting = replace(H100, waiting_power_w=exact(121.0))
    hardly = Usage(0.0, 0.0, 0.5, (PhaseUse(1.0, 0.01, 1e9, 1e9),))
    power = power_of(hardly, waiting, model=replace(CALIBRATION.power, resident_ratio=0.01))
    assert power.waiting_power_w.value == 121.0
    assert power.busy_power_w.value == pytest.approx(121.0)
    assert power.accelerator_mean_power_w.value == pytest.approx(121.0)


def test_no_machine_draws_more_than_it_is_rated():
    small = replace(SERVER, rated_power_w=4000.0)
    power = power_of(accelerator=replace(H100, platform=small))
    assert power.it_power_w.value <= 4000.0
    assert power.it_power_w.high <= 4000.0


def test_machines_are_as_uncertain_as_measured_ones():
    sure = power_of(model=replace(CALIBRATION.power, log_sigma=0.01, machine_log_sigma=0.2))
    spread = np.exp(1.645 * 0.2)
    assert sure.it_power_w.low == pytest.approx(sure.it_power_w.value / spread, rel=1e-3)


@pytest.mark.parametrize("wider", ["kernel_ratio", "bytes_per_s", "matrix_flops_per_s"])
def test_more_of_any_work_draws_more(wider):
    more = replace(DECODING, **{wider: 1.2 * getattr(DECODING, wider)})
    one, other = (
        power_of(Usage(0.6, 0.2, 1.0, (replace(use, time_ratio=1.0),))) for use in (DECODING, more)
    )
    assert other.busy_power_w.value > one.busy_power_w.value


def test_a_step_that_is_slower_for_the_same_work_draws_less():
    fast, slow = (
        phase_use(1.0, total_s, 0.0, memory_bytes=1e9, matrix_s=2e-4, reference_flops_per_s=1e15)
        for total_s in (1e-3, 2e-3)
    )
    assert slow.bytes_per_s == fast.bytes_per_s / 2
    assert slow.matrix_flops_per_s == fast.matrix_flops_per_s / 2


def test_request_energy_is_power_over_rate():
    power = power_of()
    energy = request_energy(power, exact(2.0))
    assert energy.it_wh.value == pytest.approx(power.it_power_w.value / 2.0 / 3600.0)
    assert energy.it_wh.value == pytest.approx(energy.accelerators_wh.value + energy.host_wh.value)
    under_load = {"power": power, "request": energy, "requests_per_s": exact(2.0)}
    steps = {step.formula.name: step.value for step in explain(under_load, (*POWER, *REQUEST))}
    assert power.prefill is not None
    assert steps == {
        "accelerator_prefill_wanted_w": power.prefill.wanted_w,
        "accelerator_prefill_power_w": power.prefill.power_w.value,
        "accelerator_main_wanted_w": power.main.wanted_w,
        "accelerator_main_power_w": power.main.power_w.value,
        "accelerator_busy_power_w": power.busy_power_w.value,
        "accelerator_mean_power_w": power.accelerator_mean_power_w.value,
        "computing_power_w": 0.0,
        "host_power_w": power.host_power_w.value,
        "it_power_w": power.it_power_w.value,
        "it_energy_per_request_wh": energy.it_wh.value,
    }


def test_energy_has_the_spread_of_power_and_of_the_rate():
    power = power_of()
    energy = request_energy(power, Interval(2.0, 1.0, 4.0)).accelerators_wh
    apart = np.hypot(
        np.log(power.accelerator_mean_power_w.high / power.accelerator_mean_power_w.value),
        np.log(2.0),
    )
    assert np.log(energy.high / energy.value) == pytest.approx(apart)


def test_power_follows_what_moves():
    assert 0.5 < power_of().following_ratio < 1.0
    idle = power_of(Usage(0.0, 0.0, 0.0, (PhaseUse(1.0, 0.0, 0.0, 0.0),)))
    assert idle.following_ratio == 0.0


def test_unknown_thermal_design_power_is_refused():
    with pytest.raises(ValueError, match="no thermal design power"):
        power_of(accelerator=replace(H100, thermal_design_power_w=None))
