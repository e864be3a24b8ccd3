"""Ranges that reach over what figures are by choices that nobody told."""

from __future__ import annotations

from math import inf, isnan
from statistics import NormalDist

import numpy as np
import pytest

from service.core.interval import Interval, exact, from_log_sigma
from service.core.otherwise import RARE_RATIO, Other, reaching

NORMAL = NormalDist()


@pytest.mark.parametrize("share", [0.11, 0.25, 0.5, 1.0])
def test_one_in_twenty_of_all_cases_lies_beyond_an_end(share):
    """Where the usual choice is never so large, those are all of the other one's."""
    found = reaching(Interval(10.0, 9.0, 12.0), [Other(Interval(20.0, 16.0, 30.0), share)])
    assert found.value == 10.0
    assert found.low == 9.0
    sigma = 10.0 / NORMAL.inv_cdf(0.95)
    beyond = 1.0 - NORMAL.cdf((found.high - 20.0) / sigma)
    assert share * beyond == pytest.approx(0.05)


def test_a_choice_made_always_has_its_own_interval():
    assert reaching(exact(1.0), [Other(Interval(4.0, 3.0, 6.0), 1.0)]).high == pytest.approx(6.0)


def test_rare_choices_move_no_end():
    """Half of the cases of one that a tenth make lie beyond the end already."""
    own = Interval(10.0, 9.0, 12.0)
    far = Interval(200.0, 160.0, 300.0)
    assert reaching(own, [Other(far, RARE_RATIO)]) == own
    assert reaching(own, [Other(far, RARE_RATIO + 1e-6)]).high == pytest.approx(200.0, rel=1e-3)


def test_what_is_made_more_often_reaches_no_less_far():
    highs = [
        reaching(exact(1.0), [Other(Interval(4.0, 3.0, 6.0), share)]).high
        for share in (0.05, 0.1, 0.15, 0.25, 0.5, 0.9)
    ]
    assert highs == sorted(highs)


def test_every_other_value_is_inside_and_the_own_range_too():
    own = from_log_sigma(10.0, 0.2)
    others = [Other(from_log_sigma(value, 0.3), 0.25) for value in (4.0, 11.0, 25.0)]
    found = reaching(own, others)
    assert found.low < 4.0
    assert found.high > 25.0
    assert found.low <= own.low
    assert found.high >= own.high


def test_what_is_the_same_by_every_choice_stays_exact():
    found = reaching(exact(3.0), [Other(exact(3.0), 0.25), Other(exact(3.0), 0.5)])
    assert (found.value, found.low, found.high) == pytest.approx((3.0, 3.0, 3.0), rel=1e-12)


def test_ends_without_bound_are_no_nonsense():
    for other in (Interval(inf, inf, inf), Interval(5.0, 4.0, inf), Interval(inf, 4.0, inf)):
        found = reaching(Interval(3.0, 2.0, 4.0), [Other(other, 0.25)])
        assert found.high == inf
        assert found.low == 2.0
        assert not isnan(found.low)


def test_arrays_reach_element_by_element():
    other = Other(exact(np.array([4.0, 8.0])), 0.25)
    found = reaching(exact(np.array([4.0, 5.0])), [other])
    assert found.low.tolist() == [4.0, 5.0]
    assert found.high.tolist() == pytest.approx([4.0, 8.0])


def test_what_follows_from_a_choice_is_of_the_same_choice():
    assert Other(2.0, 0.3).then(lambda value: value * 2.0) == Other(4.0, 0.3)
