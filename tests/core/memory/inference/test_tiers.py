from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.memory.placement import Part, Room, place
from service.core.memory.tiers import (
    Traffic,
    effective_bandwidth,
    free_share,
    shared_bandwidth,
    step_time_s,
)

HBM, CXL = 3_350e9, 64e9


def split(slow_share: float) -> list[Traffic]:
    return [Traffic((1 - slow_share) * 1e9, HBM), Traffic(slow_share * 1e9, CXL)]


@pytest.mark.parametrize(("share", "expected"), [(0.01, 2214e9), (0.05, 939e9), (0.10, 546e9)])
def test_a_little_traffic_over_a_slow_link_costs_a_lot(share, expected):
    assert effective_bandwidth(split(share)) == pytest.approx(expected, rel=0.005)


def test_prefetching_hides_all_but_the_slowest_tier():
    assert effective_bandwidth(split(0.10), 1.0) == pytest.approx(640e9, rel=0.005)
    half = effective_bandwidth(split(0.10), 0.5)
    assert 546e9 < half < 640e9


def test_the_break_free_share_is_where_both_tiers_finish_together():
    share = free_share(HBM, CXL)
    assert share == pytest.approx(0.01875, rel=0.005)
    fast, slow = split(share)
    assert fast.time_s == pytest.approx(slow.time_s)
    assert step_time_s([fast, slow], 1.0) == pytest.approx(fast.time_s)


def test_tiers_take_arrays():
    shares = np.array([0.01, 0.05, 0.10])
    traffic = [Traffic((1 - shares) * 1e9, HBM), Traffic(shares * 1e9, CXL)]
    expected = [effective_bandwidth(split(share)) for share in shares]
    assert effective_bandwidth(traffic) == pytest.approx(expected)


def test_a_pool_is_shared_until_the_link_is_the_limit():
    assert shared_bandwidth(480e9, 16, CXL) == 30e9
    assert shared_bandwidth(480e9, 4, CXL) == CXL


def seconds(placement, rooms):
    return sum(
        placement.touched_bytes(index) / room.bandwidth_bytes_per_s
        for index, room in enumerate(rooms)
    )


def test_what_is_touched_most_lives_in_the_fastest_tier():
    parts = [
        Part("parked", 30.0, 0.0),
        Part("table", 10.0, 0.1),
        Part("weights", 60.0, 60.0),
        Part("cache", 20.0, 20.0),
    ]
    rooms = [Room(1000.0, 1.0), Room(85.0, 50.0), Room(20.0, 5.0)]
    placement = place(parts, rooms)
    assert placement.fits
    assert {item.name: item.stored_bytes for item in placement.of(1)} == {
        "weights": 60.0,
        "cache": 20.0,
        "table": 5.0,
    }
    assert {item.name: item.stored_bytes for item in placement.of(2)} == {
        "table": 5.0,
        "parked": 15.0,
    }
    assert placement.stored_bytes(0) == 15.0


def test_bound_parts_go_where_they_must_and_the_rest_is_told():
    rooms = [Room(50.0, 10.0), Room(20.0, 1.0)]
    placement = place([Part("weights", 60.0, 60.0), Part("moved", 15.0, 15.0, tier=1)], rooms)
    assert [item.name for item in placement.of(1)] == ["moved", "weights"]
    assert placement.stored_bytes(1) == 20.0
    assert placement.stored_bytes(None) == 5.0
    assert not placement.fits


def test_bound_parts_go_on_to_the_tiers_after_theirs_and_never_back():
    # All weights lie outside: in memory of the host, and what that has no room for on a drive.
    rooms = [Room(50.0, 10.0), Room(20.0, 2.0), Room(100.0, 1.0)]
    placement = place([Part("weights", 60.0, 60.0, tier=1)], rooms)
    assert [placement.stored_bytes(at) for at in range(3)] == [0, 20.0, 40.0]
    assert placement.fits


sizes = st.floats(0.0, 100.0)


@given(
    parts=st.lists(st.tuples(sizes, st.floats(0.0, 2.0)), min_size=1, max_size=6),
    rooms=st.lists(st.tuples(sizes, st.floats(0.1, 100.0)), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_no_other_order_of_filling_makes_a_step_shorter(parts, rooms, order):
    spaces = [Room(capacity, bandwidth) for capacity, bandwidth in rooms]
    spaces.append(Room(1e6, 0.05))
    items = [Part(str(n), size, size * ratio) for n, (size, ratio) in enumerate(parts)]
    best = place(items, spaces)
    assert best.fits
    stored = sum(best.stored_bytes(index) for index in range(len(spaces)))
    assert stored == pytest.approx(sum(item.stored_bytes for item in items), abs=1e-6)
    assert all(best.stored_bytes(n) <= room.capacity_bytes + 1e-9 for n, room in enumerate(spaces))
    # Any other sequence of parts, filled into the tiers in any order.
    shuffled = [Part(i.name, i.stored_bytes, i.touched_bytes) for i in items]
    order.shuffle(shuffled)
    tiers = list(range(len(spaces)))
    order.shuffle(tiers)
    left = [room.capacity_bytes for room in spaces]
    other = 0.0
    for item in shuffled:
        remaining = item.stored_bytes
        for tier in tiers:
            taken = min(remaining, left[tier])
            left[tier] -= taken
            remaining -= taken
            other += taken * item.intensity / spaces[tier].bandwidth_bytes_per_s
    assert seconds(best, spaces) <= other * (1 + 1e-9) + 1e-9
