from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.explanation import explain
from service.core.impacts.noise import (
    NOISE,
    Path,
    SoundSource,
    fan_level_change_db,
    fan_speed_ratio,
    level_sum_db,
    noise,
    received_db,
    required_distance_m,
    sound_power_db,
)


@pytest.mark.parametrize(
    ("distance_m", "level_db"), [(61, 56.3), (91, 52.8), (200, 46.0), (398, 40.0)]
)
def test_a_source_of_100_db_on_hard_ground(distance_m, level_db):
    assert received_db(100.0, Path(distance_m)) == pytest.approx(level_db, rel=0.005)


def test_four_hundred_servers_of_91_db_together_and_at_200_m():
    servers = [SoundSource(400, 91.0)]
    assert sound_power_db(servers) == pytest.approx(117.0, rel=0.005)
    assert noise(servers, Path(200.0)).sound_pressure_db.value == pytest.approx(63.0, rel=0.005)
    indoors = [SoundSource(400, 91.0, building_loss_db=30.0)]
    assert noise(indoors, Path(200.0)).sound_pressure_db.value == pytest.approx(33.0, rel=0.005)


def test_fan_laws():
    assert fan_level_change_db(0.8) == pytest.approx(-4.85, rel=0.005)
    assert fan_level_change_db(1.2) == pytest.approx(3.96, rel=0.005)
    # A chassis of 7.5 B at its slowest and 9.7 B at full speed.
    assert fan_speed_ratio(22.0) == pytest.approx(2.75, rel=0.005)


def test_slower_fans_are_heard_as_the_fan_law_says():
    full = noise([SoundSource(10, 90.0)], Path(50.0)).sound_pressure_db.value
    slow = noise([SoundSource(10, 90.0, fan_speed_ratio=0.8)], Path(50.0)).sound_pressure_db.value
    assert full - slow == pytest.approx(4.85, rel=0.005)


def test_free_space_and_lines_spread_differently():
    assert received_db(100.0, Path(1.0, "free-field")) == pytest.approx(89.0, rel=0.005)
    assert received_db(100.0, Path(1.0)) == pytest.approx(92.0, rel=0.005)
    line = received_db(80.0, Path(10.0, "line")) - received_db(80.0, Path(100.0, "line"))
    assert line == pytest.approx(10.0)


def test_losses_and_the_margin_to_a_limit():
    path = Path(100.0, air_absorption_db=1.0, barrier_db=10.0, directivity_db=3.0)
    bare = received_db(100.0, Path(100.0))
    result = noise([SoundSource(1, 100.0)], path, limit_db=45.0)
    assert result.sound_pressure_db.value == pytest.approx(bare - 8.0)
    assert result.margin_db is not None
    assert result.margin_db.value == pytest.approx(45.0 - result.sound_pressure_db.value)
    assert result.margin_db.high - result.margin_db.low == pytest.approx(10.0)
    assert noise([SoundSource(1, 100.0)], path).margin_db is None


@given(power=st.floats(60.0, 140.0), limit=st.floats(30.0, 70.0))
def test_the_required_distance_meets_the_limit(power, limit):
    distance = required_distance_m(power, Path(1.0), limit)
    assert received_db(power, Path(distance)) == pytest.approx(limit)


@given(levels=st.lists(st.floats(0.0, 130.0), min_size=1, max_size=8))
def test_sources_together_are_louder_than_each_and_than_no_sum_of_decibels(levels):
    total = level_sum_db(levels)
    assert total >= max(levels) - 1e-9
    assert total <= max(levels) + 10.0


def test_every_level_appears_in_a_step():
    result = noise([SoundSource(4, 95.0)], Path(30.0), 55.0)
    assert [step.value for step in explain(result, NOISE)] == [
        result.sound_power_db,
        result.sound_pressure_db.value,
    ]
