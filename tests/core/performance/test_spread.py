"""How unsure a time is by what it is spent on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.core.performance.spread import NO_WIDENING, WIDENINGS, TimeShares, Widening

KERNELS = TimeShares(0.2, 0.8, 0.0, 0.0)
HOST = TimeShares(0.1, 0.3, 0.1, 0.5)


def test_kernels_that_were_measured_are_as_sure_as_the_spread_says() -> None:
    known = Widening(waiting_spread_ratio=2.0, experts_spread_ratio=1.5)
    assert known.ratio(KERNELS, routed=False) == 1.0
    assert NO_WIDENING.ratio(HOST, routed=True) == 1.0


def test_waiting_and_experts_add_in_squares() -> None:
    known = Widening(waiting_spread_ratio=2.0, experts_spread_ratio=1.5)
    assert known.ratio(HOST, routed=False) == pytest.approx((1.0 + (2.0 * 0.6) ** 2) ** 0.5)
    assert known.ratio(HOST, routed=True) == pytest.approx((1.0 + 1.2**2 + 1.5**2) ** 0.5)


def test_choices_of_experts_leave_arithmetic_as_sure_as_it_is() -> None:
    """A token goes to as many experts whichever they are; what is read depends on which."""
    known = Widening(choices_spread_ratio=1.5)
    prompts = TimeShares(1.0, 0.0, 0.0, 0.0)
    assert known.ratio(prompts, routed=True) == 1.0
    assert known.ratio(KERNELS, routed=False) == 1.0
    read = known.ratio(KERNELS, routed=True)
    assert read == pytest.approx((1.0 + (1.5 * 0.8) ** 2) ** 0.5)
    # Ranks wait for the one whose experts were chosen most.
    assert known.ratio(TimeShares(0.2, 0.2, 0.6, 0.0), routed=True) == pytest.approx(read)


def test_what_was_not_measured_counts_by_its_share() -> None:
    stranger = Widening(memory_spread_ratio=1.0, overhead_spread_ratio=3.0)
    assert stranger.ratio(KERNELS, routed=False) == pytest.approx((1.0 + 0.8**2) ** 0.5)
    assert stranger.ratio(HOST, routed=False) == pytest.approx((1.0 + 0.3**2 + 1.5**2) ** 0.5)


@pytest.mark.parametrize("name", WIDENINGS)
@pytest.mark.parametrize("routed", [False, True])
def test_knowing_less_never_narrows(name: str, routed: bool) -> None:
    random = np.random.default_rng(7)
    for _ in range(50):
        shares = TimeShares(*random.dirichlet(np.ones(5)))
        known = Widening(*random.uniform(0.0, 3.0, len(WIDENINGS)))
        less = replace(known, **{name: getattr(known, name) + 0.5})
        assert less.ratio(shares, routed) >= known.ratio(shares, routed) >= 1.0


def test_times_that_are_mixed_are_spent_as_their_parts_are() -> None:
    mixed = KERNELS.mixed(HOST, 0.25)
    assert mixed == pytest.approx((0.175, 0.675, 0.025, 0.125, 0.0))
    assert sum(mixed) == pytest.approx(1.0)


def test_reading_outside_has_a_spread_of_its_own() -> None:
    outside = KERNELS.reading_outside(0.75)
    assert outside == pytest.approx((0.2, 0.2, 0.0, 0.0, 0.6))
    assert outside.waiting == KERNELS.waiting
    known = Widening(outside_spread_ratio=2.0)
    assert known.ratio(outside, routed=False) == pytest.approx((1.0 + 1.2**2) ** 0.5)


def test_arrays_have_a_ratio_each() -> None:
    shares = TimeShares(*(np.array(pair) for pair in zip(KERNELS, HOST, strict=True)))
    found = Widening(waiting_spread_ratio=2.0).ratio(shares, routed=False)
    assert found == pytest.approx([1.0, (1.0 + 1.2**2) ** 0.5])
