"""Accelerators in machines: links, limits of power, and what they share."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.interval import exact
from service.core.performance.products import product_rates
from service.core.performance.work import rank_work
from service.core.platform import (
    Machine,
    MachineLink,
    PowerNeeds,
    clock_ratio,
    limited,
    placed,
    share_of,
    with_machine,
)
from tests.core.deployments import CALIBRATION, H100, SERVER, deployment

#: 70 W idle, 133 W with a model, and bytes that take 70 pJ each.
NEEDS = PowerNeeds(idle_w=70.0, resident_ratio=0.1, memory_j_per_byte=7e-11, memory_ratio=0.8)
SLOTS = MachineLink(16e9, 2e-5, bridged=False, accelerators=None)
MACHINE = Machine(
    SERVER,
    None,
    host_link_bandwidth_bytes_per_s=32e9,
    accelerator_power_w=None,
    integrated=False,
    peer_to_peer=None,
)


@given(limit=st.floats(71.0, 700.0))
def test_clocks_fall_less_than_power(limit):
    ratio = clock_ratio(limit, 70.0, 700.0)
    assert limit / 700.0 - 1e-9 <= ratio + 0.1
    assert 0.0 < ratio <= 1.0
    assert clock_ratio(700.0, 70.0, 700.0) == 1.0


def test_a_limit_lowers_peaks_and_the_most_that_is_drawn():
    found = limited(H100, 400.0, NEEDS)
    ratio = (330.0 / 630.0) ** (1.0 / 3.0)
    assert found.clock_ratio == pytest.approx(ratio)
    assert found.peak_flops_per_s["bf16"] == pytest.approx(989.4e12 * ratio)
    assert found.memory_bandwidth_bytes_per_s == H100.memory_bandwidth_bytes_per_s
    assert found.most_power_w == 400.0
    assert found.thermal_design_power_w == 700.0


def test_a_limit_slows_products_that_power_bounds_as_it_does_others():
    """The same share of clocks, whether peaks or watts bound a product at the full limit."""
    calibration = replace(
        CALIBRATION, hardware=replace(CALIBRATION.hardware, matrix_flops_per_joule=5e11)
    )
    where = deployment()
    item = rank_work(where.architecture, where.precision, where.parallelism).products[0]
    full, _ = product_rates(item, H100, calibration)
    half, _ = product_rates(item, limited(H100, 400.0, NEEDS), calibration)
    assert half / full == pytest.approx((330.0 / 630.0) ** (1.0 / 3.0))


def test_memory_moves_no_more_bytes_than_the_power_beside_a_resident_model_pays_for():
    found = limited(H100, 203.0, NEEDS)
    assert found.memory_bandwidth_bytes_per_s == pytest.approx(70.0 / 7e-11 / 0.8)


@given(low=st.floats(134.0, 699.0), more=st.floats(0.0, 1.0))
def test_a_higher_limit_never_slows_anything(low, more):
    high = low + more * (700.0 - low)
    slower, faster = limited(H100, low, NEEDS), limited(H100, high, NEEDS)
    assert slower.memory_bandwidth_bytes_per_s <= faster.memory_bandwidth_bytes_per_s
    assert slower.peak_flops_per_s["bf16"] <= faster.peak_flops_per_s["bf16"]


@pytest.mark.parametrize("limit", [133.0, 70.0, 700.5])
def test_limits_outside_what_can_be_set_are_refused(limit):
    with pytest.raises(ValueError, match="above 133 W"):
        limited(H100, limit, NEEDS)


def test_slots_hold_cards_to_what_both_reach():
    card = replace(H100, scale_up=replace(H100.scale_up, bandwidth_bytes_per_s=31e9))
    machine = replace(MACHINE, link=SLOTS)
    found = placed(card, machine, on_slots=True)
    assert found.scale_up.bandwidth_bytes_per_s == 16e9
    assert found.scale_up.latency_s == 2e-5
    assert found.scale_up_domain_accelerators == 8
    assert found.host_link_bandwidth_bytes_per_s == 32e9
    slow = replace(card, scale_up=replace(card.scale_up, bandwidth_bytes_per_s=8e9))
    assert placed(slow, machine, on_slots=True).scale_up.bandwidth_bytes_per_s == 8e9


def test_modules_keep_their_own_links_and_bridges_come_in_place_of_slots():
    assert placed(H100, replace(MACHINE, link=SLOTS), on_slots=False).scale_up == H100.scale_up
    bridge = MachineLink(56e9, None, bridged=True, accelerators=2)
    found = placed(H100, replace(MACHINE, link=bridge), on_slots=True)
    assert found.scale_up.bandwidth_bytes_per_s == 56e9
    assert found.scale_up.latency_s == H100.scale_up.latency_s
    assert found.scale_up_domain_accelerators == 2


def test_a_cluster_has_a_network_of_its_own():
    assert H100.scale_out is not None
    slow = replace(MACHINE, scale_out_bandwidth_bytes_per_s=6.25e9)
    joined = placed(H100, slow, on_slots=False).scale_out
    assert joined == replace(H100.scale_out, bandwidth_bytes_per_s=6.25e9)
    later = replace(slow, scale_out_latency_s=3e-5)
    found = placed(H100, later, on_slots=False)
    assert found.scale_out == replace(joined, latency_s=3e-5)
    assert found.scale_up == H100.scale_up
    assert placed(H100, MACHINE, on_slots=False).scale_out == H100.scale_out


def test_a_machine_may_set_another_limit_than_the_part_has():
    found = placed(H100, replace(MACHINE, accelerator_power_w=500.0), on_slots=True)
    assert found.thermal_design_power_w == 500.0


def test_a_chip_that_is_its_machine_idles_as_the_machine_does():
    board = replace(MACHINE, integrated=True, idle_wall_w=exact(3.0))
    unknown = replace(H100, idle_power_w=None)
    assert placed(unknown, board, on_slots=True).idle_power_w == exact(3.0)
    assert placed(H100, board, on_slots=True).idle_power_w == H100.idle_power_w
    slotted = replace(board, integrated=False)
    assert placed(unknown, slotted, on_slots=True).idle_power_w is None


def test_making_of_the_machine_is_shared_out_and_unknown_stays_unknown():
    assert share_of(exact(80.0), SERVER) == exact(10.0)
    assert share_of(None, SERVER) is None
    assert with_machine(exact(1.0), exact(2.0), whole=False) == exact(3.0)
    assert with_machine(None, exact(2.0), whole=False) is None
    assert with_machine(None, exact(2.0), whole=True) == exact(2.0)
