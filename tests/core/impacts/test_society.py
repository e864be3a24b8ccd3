from __future__ import annotations

import pytest

from service.core.impacts.society import (
    concern_of_count,
    concern_of_distance,
    concern_of_margin,
    concern_of_stress,
    concern_of_wait,
    social_licence,
)
from service.core.interval import Interval, exact


def test_concerns_run_from_nothing_to_everything():
    assert concern_of_count(exact(0.0)).value == 0.0
    assert concern_of_count(exact(5.0)).value == 0.5
    assert concern_of_wait(exact(20.0)).value == 1.0
    assert concern_of_stress(exact(0.4)).value == pytest.approx(0.5)
    assert concern_of_margin(exact(0.0)).value == 0.5
    assert concern_of_margin(exact(-30.0)).value == 1.0
    # 100 dB over hard ground: 40 dB at 398 m.
    assert concern_of_distance(398.0).value == pytest.approx(0.0)
    margin = concern_of_margin(Interval(2.0, -3.0, 7.0))
    assert margin.low < margin.value < margin.high


def test_unknown_parts_widen_the_index_and_do_not_move_it():
    weights = {"water": 3.0, "noise": 1.0}
    whole = social_licence({"water": exact(0.5), "noise": exact(1.0)}, weights)
    assert whole.index == exact(pytest.approx(62.5))
    assert whole.known_weight_ratio == 1.0
    partly = social_licence({"water": exact(0.5), "noise": None}, weights)
    assert (partly.index.value, partly.index.low, partly.index.high) == (50.0, 37.5, 62.5)
    assert partly.known_weight_ratio == 0.75
    assert social_licence({"water": None, "noise": None}, weights).index is None
