from __future__ import annotations

import pytest

from service.core.costs import (
    Instance,
    Price,
    electricity_usd_per_hour,
    emissions_usd_per_hour,
    hardware_usd_per_hour,
    per_unit,
)
from service.core.interval import Interval, exact

HERE = Price(50.0, "aws/here", "2026-01-21", "sheet")
THERE = Price(60.0, "aws/there", "2026-01-21", "sheet")
CHEAP = Price(30.0, "aws/cheap", "2026", "sheet")
DEAR = Price(90.0, "aws/dear", "2026", "sheet")
ANYWHERE = Price(40.0, None, "2026", "sheet")


def instance(*prices: Price) -> Instance:
    by_region = {price.region: price for price in prices}
    return Instance(
        "aws/eight", "aws", "acme-one-80gb", 8, {"on-demand": by_region}, frozenset(by_region)
    )


@pytest.mark.parametrize(("accelerators", "instances"), [(1, 1), (8, 1), (9, 2), (16, 2)])
def test_instances_are_rented_whole(accelerators, instances):
    assert instance().needed(accelerators) == instances


@pytest.mark.parametrize(
    ("prices", "chosen"),
    [
        ((THERE, HERE), HERE),
        ((THERE, ANYWHERE), ANYWHERE),
        ((THERE,), THERE),
        ((DEAR, THERE, CHEAP), THERE),
        ((DEAR, THERE), THERE),
        ((), None),
    ],
)
def test_a_price_of_the_place_comes_before_one_of_all_places_and_others(prices, chosen):
    assert instance(*prices).price_in("aws/here") == chosen
    assert instance(*prices).price_in("aws/here", "spot") is None


def test_an_instance_is_offered_where_it_is_said_to_be():
    assert instance(HERE).offered_in("aws/here")
    assert not instance(THERE).offered_in("aws/here")
    assert instance(ANYWHERE).offered_in("aws/here")


def test_hardware_is_written_off_by_the_hour():
    # 8 × 43,830 USD over 5 years of 8,766 hours: 8 USD an hour.
    found = hardware_usd_per_hour(8, exact(43_830.0), Interval(5.0, 4.0, 6.0))
    assert found.value == pytest.approx(8.0)
    assert found.low == pytest.approx(8.0 * 5 / 6)
    assert found.high == pytest.approx(8.0 * 5 / 4)


def test_electricity_and_emissions_by_the_hour():
    assert electricity_usd_per_hour(exact(7.5), exact(0.08)).value == pytest.approx(0.6)
    # 2 kg an hour at 85 USD a tonne.
    assert emissions_usd_per_hour(exact(2000.0), 85.0).value == pytest.approx(0.17)


def test_a_rate_shares_out_an_hour():
    # 36 USD an hour at one request a second: one cent each.
    assert per_unit(exact(36.0), exact(1.0)).value == pytest.approx(0.01)
    assert per_unit(exact(36.0), Interval(1.0, 0.5, 2.0)).high == pytest.approx(0.02)
    assert per_unit(exact(36.0), exact(1.0), 100.0).value == pytest.approx(1.0)
