from __future__ import annotations

import pytest

from service.core.explanation import explain
from service.core.impacts.site import (
    HEAT,
    land_m2_years,
    municipal_share,
    rack_heat,
    unbalance_level_change_db,
    vibration,
)
from service.core.interval import exact

CLASSES = (("room_air", 15.0), ("contained_air", 40.0), ("rear_door", 80.0))


def test_airflow_of_a_rack_of_four_eight_accelerator_servers():
    heat = rack_heat(exact(40.8), 0.0, 12.0, CLASSES)
    # 40.8 kW / (1.204 kg/m³ · 1005 J/kgK · 12 K)
    assert heat.airflow_m3_per_s.value == pytest.approx(2.81, rel=0.005)
    assert heat.cooling_class == "rear_door"
    assert [step.value for step in explain(heat, HEAT)] == [heat.airflow_m3_per_s.value]


def test_liquid_takes_heat_away_from_the_air():
    heat = rack_heat(exact(100.0), 0.8, 10.0, CLASSES)
    assert heat.air_cooled_kw.value == pytest.approx(20.0)
    assert heat.cooling_class == "direct_liquid"


@pytest.mark.parametrize(
    ("rack_kw", "liquid", "cooled_by", "air_by"),
    [
        (40.0, 1.0, "direct_liquid", None),
        (15.0, 1.0, "direct_liquid", None),
        (100.0, 0.8, "direct_liquid", "contained_air"),
        (30.0, 0.3, "rear_door", "contained_air"),
        (100.0, 0.1, "direct_liquid", "direct_liquid"),
    ],
)
def test_liquid_decides_how_a_rack_is_cooled(rack_kw, liquid, cooled_by, air_by):
    heat = rack_heat(exact(rack_kw), liquid, 12.0, CLASSES)
    assert (heat.cooling_class, heat.air_cooling_class) == (cooled_by, air_by)


@pytest.mark.parametrize(
    ("rack_kw", "expected"), [(8.0, "room_air"), (15.0, "room_air"), (16.0, "contained_air")]
)
def test_cooling_classes(rack_kw, expected):
    assert rack_heat(exact(rack_kw), 0.0, 12.0, CLASSES).cooling_class == expected


def test_vibration_index_weighs_its_four_drivers():
    worst = vibration(1.0, 2.0, 50.0, "none")
    assert worst.index == pytest.approx(100.0)
    assert worst.band == "high"
    calm = vibration(0.0, 0.5, 0.0, "isolated")
    assert calm.index == pytest.approx(0.0)
    assert calm.band == "low"
    # Usual fans: clip((0 + 12) / 24) = 0.5; 25 kW: 0.5; grommets: 0.5; half on disks: 0.5.
    assert vibration(0.5, 1.0, 25.0, "grommets").index == pytest.approx(50.0)


def test_unbalance_grows_with_the_square_of_the_speed():
    assert unbalance_level_change_db(2.0) == pytest.approx(12.04, rel=0.005)


def test_land_is_shared_by_energy():
    whole_year = land_m2_years(exact(1000.0 * 8766.0), 20_000.0, 1000.0)
    assert whole_year.value == pytest.approx(20_000.0)


def test_the_dalles_used_29_percent_of_its_city():
    # 355.1 million gallons of 29 %, 2021.
    assert municipal_share(exact(355.1), 355.1 / 0.29).value == pytest.approx(0.29)
