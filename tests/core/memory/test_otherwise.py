"""Intervals that reach over other outcomes of choices."""

from __future__ import annotations

from math import hypot

import numpy as np

from service.core.interval import Interval, exact
from service.core.memory.otherwise import spread_over


def test_the_furthest_end_of_each_choice_adds_in_quadrature():
    figure = Interval(10.0, 9.0, 12.0)
    others = [[Interval(13.0, 12.0, 15.0), exact(8.0)], [Interval(7.0, 6.0, 8.0)]]
    assert spread_over(figure, others) == Interval(10.0, 9.0 - hypot(1.0, 3.0), 15.0)


def test_what_changes_nothing_widens_nothing():
    for figure in (exact(3.0), Interval(3.0, 2.0, 4.0)):
        assert spread_over(figure, [[figure], [exact(3.0)], []]) is figure
        assert spread_over(figure, []) is figure


def test_sizes_never_fall_below_zero_and_rooms_as_far_as_an_outcome_does():
    nothing = exact(0.0)
    assert spread_over(Interval(10.0, 1.0, 20.0), [[nothing], [nothing]]).low == 0.0
    assert spread_over(Interval(1.0, 0.5, 2.0), [[exact(-3.0)], [nothing]]).low == -3.0


def test_arrays_are_spread_element_by_element():
    several = spread_over(exact(np.array([4.0, 5.0])), [[exact(np.array([4.0, 8.0]))]])
    assert several.low.tolist() == [4.0, 5.0]
    assert several.high.tolist() == [4.0, 8.0]
