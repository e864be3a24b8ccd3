"""Ranges that reach over what figures are by choices that nobody told."""

from __future__ import annotations

from math import inf, isnan
from statistics import NormalDist

import numpy as np
import pytest

from service.core.interval import Interval, exact, from_log_sigma
from service.core.otherwise import reaching


def test_an_end_is_where_one_in_five_of_another_choice_is():
    normal = NormalDist()
    share = normal.inv_cdf(0.8) / normal.inv_cdf(0.95)
    found = reaching(Interval(10.0, 9.0, 12.0), [Interval(20.0, 16.0, 30.0)])
    assert found.value == 10.0
    assert found.low == 9.0
    assert found.high == pytest.approx(20.0 + share * 10.0, rel=1e-3)


def test_every_other_value_is_inside_and_the_own_range_too():
    own = from_log_sigma(10.0, 0.2)
    others = [from_log_sigma(value, 0.3) for value in (4.0, 11.0, 25.0)]
    found = reaching(own, others)
    assert found.low < 4.0
    assert found.high > 25.0
    assert found.low <= own.low
    assert found.high >= own.high


def test_what_is_the_same_by_every_choice_stays_exact():
    found = reaching(exact(3.0), [exact(3.0), exact(3.0)])
    assert (found.value, found.low, found.high) == pytest.approx((3.0, 3.0, 3.0), rel=1e-12)


def test_ends_without_bound_are_no_nonsense():
    for other in (Interval(inf, inf, inf), Interval(5.0, 4.0, inf), Interval(inf, 4.0, inf)):
        found = reaching(Interval(3.0, 2.0, 4.0), [other])
        assert found.high == inf
        assert found.low == 2.0
        assert not isnan(found.low)


def test_arrays_reach_element_by_element():
    found = reaching(exact(np.array([4.0, 5.0])), [exact(np.array([4.0, 8.0]))])
    assert found.low.tolist() == [4.0, 5.0]
    assert found.high.tolist() == pytest.approx([4.0, 8.0])
