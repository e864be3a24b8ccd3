"""Machines over years: purchases, retirements, copies and present values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.fleet import copies_needed, machines_over_years, present_value


def test_machines_are_bought_replaced_and_kept_where_the_need_shrinks() -> None:
    years = machines_over_years([10, 14, 8, 12, 12], life_years=3)
    assert [year.bought for year in years] == [10, 4, 0, 8, 4]
    assert [year.retired for year in years] == [0, 0, 0, 10, 4]
    assert [year.held for year in years] == [10, 14, 14, 12, 12]


def test_what_is_sold_as_one_is_bought_as_one() -> None:
    years = machines_over_years([10, 14, 30], life_years=5, together=8)
    assert [year.in_use for year in years] == [10, 14, 30]
    assert [year.bought for year in years] == [16, 0, 16]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30), st.integers(1, 20))
def test_machines_cover_the_need_and_none_is_lost(needed: list[int], life_years: int) -> None:
    years = machines_over_years(needed, life_years)
    bought = [year.bought for year in years]
    for at, year in enumerate(years):
        assert year.in_use == needed[at]
        assert year.held >= year.in_use
        assert year.held == sum(bought[max(0, at + 1 - life_years) : at + 1])
        assert year.retired == (bought[at - life_years] if at >= life_years else 0)
        assert not year.bought or year.held == year.in_use


def test_copies_keep_the_reserve_and_some_spare() -> None:
    assert copies_needed(80.0, 10.0, reserve_ratio=0.2, spare=0) == 10
    assert copies_needed(80.1, 10.0, reserve_ratio=0.2, spare=1) == 12
    assert copies_needed(0.0, 10.0, reserve_ratio=0.2, spare=1) == 0


def test_present_value_discounts_from_the_middle_of_each_year() -> None:
    assert present_value([100.0, 100.0], 0.0) == pytest.approx(200.0)
    assert present_value([100.0, 100.0], 0.1) == pytest.approx(100 / 1.1**0.5 + 100 / 1.1**1.5)
