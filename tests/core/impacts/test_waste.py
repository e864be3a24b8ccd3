from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.impacts.footprint import footprint
from service.core.impacts.waste import avoided_by_reuse, waste
from service.core.interval import exact
from service.core.years import HOURS_PER_YEAR
from tests.core.deployments import H100, INFRASTRUCTURE, SERVER, STOCKHOLM

YEAR = exact(HOURS_PER_YEAR)
EIGHT_YEARS = exact(8 * HOURS_PER_YEAR)


def test_an_eight_accelerator_server_of_130_kg_is_26_kg_a_year_over_five_years():
    result = waste(EIGHT_YEARS, H100, INFRASTRUCTURE)
    assert result is not None
    assert result.total_kg.value == pytest.approx(26.0, rel=0.005)
    shorter = waste(EIGHT_YEARS, H100, replace(INFRASTRUCTURE, hardware_life_years=exact(2.5)))
    assert shorter is not None
    assert shorter.total_kg.value == pytest.approx(52.0, rel=0.005)


def test_streams_make_up_the_total():
    result = waste(YEAR, H100, INFRASTRUCTURE)
    assert result is not None
    total = result.total_kg.value
    assert result.accelerators_kg.value + result.servers_kg.value == pytest.approx(total)
    assert result.boards_kg is not None
    assert result.batteries_kg is not None
    assert result.other_kg is not None
    by_material = result.boards_kg.value + result.batteries_kg.value + result.other_kg.value
    assert by_material == pytest.approx(total)
    assert result.collected_kg is not None
    assert result.uncollected_kg is not None
    assert result.collected_kg.value == pytest.approx(0.223 * total)
    assert result.collected_kg.value + result.uncollected_kg.value == pytest.approx(total)


def test_the_total_is_that_of_the_footprint():
    result = waste(YEAR, H100, INFRASTRUCTURE)
    whole = footprint(exact(0.0), YEAR, H100, STOCKHOLM, INFRASTRUCTURE)
    assert result is not None
    assert whole.e_waste_kg == result.total_kg


def test_what_is_avoided_and_what_is_left_make_up_the_first_life():
    bare = waste(YEAR, H100, INFRASTRUCTURE)
    better = replace(INFRASTRUCTURE, second_life_years=3.0, reused_ratio=0.25)
    kept = waste(YEAR, H100, better)
    assert bare is not None
    assert kept is not None
    assert bare.avoided_kg.value == 0.0
    assert kept.total_kg.value == pytest.approx(bare.total_kg.value * 5 / 8 * 0.75)
    assert kept.total_kg.value + kept.avoided_kg.value == pytest.approx(bare.total_kg.value)


def test_avoided_carbon_of_a_second_life():
    twice = replace(INFRASTRUCTURE, second_life_years=5.0)
    assert avoided_by_reuse(exact(800.0 * HOURS_PER_YEAR), twice).value == pytest.approx(80.0)


def test_unknown_masses_give_no_waste():
    assert waste(YEAR, replace(H100, mass_kg=None), INFRASTRUCTURE) is None
    unweighed = replace(H100, platform=replace(SERVER, mass_kg=None))
    assert waste(YEAR, unweighed, INFRASTRUCTURE) is None


def test_a_machine_that_contains_its_chip_is_weighed_once():
    laptop = replace(SERVER, accelerators=1.0, whole_ratio=1.0, mass_kg=exact(2.0))
    result = waste(YEAR, replace(H100, mass_kg=None, platform=laptop), INFRASTRUCTURE)
    assert result is not None
    assert result.total_kg.value == pytest.approx(2.0 / 5.0)
    assert result.accelerators_kg.value == 0.0
